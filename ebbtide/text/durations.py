"""Parse and format durations."""

import re
from datetime import timedelta

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S
ONE_HOUR = timedelta(hours=1)
ONE_DAY = timedelta(days=1)

_CENTURY = timedelta(days=36_525)
_PARTS = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")


def read_duration(text: str) -> timedelta | None:
    """Parse `90s`, `2h`, `1h30m` or `2d`, as Go and operators write it; None for anything else.

    More than a century counts as one, so that no sum with an instant leaves the calendar.
    """
    match = _PARTS.fullmatch(text)
    if not text or match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return min(timedelta(seconds=min(total, 10**10)), _CENTURY)


def format_duration(duration: timedelta) -> str:
    """Return the text that `read_duration` parses, in the largest unit without a fraction: `12h`, `90s`."""
    seconds = int(duration.total_seconds())
    if seconds and seconds % 3600 == 0:
        return f"{seconds // 3600}h"
    return f"{seconds // 60}m" if seconds and seconds % 60 == 0 else f"{seconds}s"


def go_text(duration: timedelta) -> str:
    """Return the text that Go writes for full seconds: `1h0m0s`, `3m0s`, `40s`."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def latency_text(duration: timedelta) -> str:
    """Return milliseconds unless they are full seconds: `400ms`, `2s`."""
    milliseconds = duration // timedelta(milliseconds=1)
    return f"{milliseconds}ms" if milliseconds % 1000 else format_duration(duration)


def duration(seconds: float) -> str:
    """Return the two largest units, rounded: `38 s`, `3 min 44 s`, `2 h 05 min`, `1 d 3 h`."""
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s" if rounded or seconds == 0 else "under 1 s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def whole_minutes(span: timedelta) -> str:
    """Return a duration rounded down, with seconds only below a minute: `45 s`, `5 min`, `2 h 05 min`, `1 d 3 h`."""
    seconds = max(0, int(span.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def latency(seconds: float) -> str:
    """Format 0.4123 as `412 ms`, 12.34 as `12.3 s`, 1234.5 as `1,234 s`."""
    if seconds >= 999.5:
        return f"{seconds:,.0f} s"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def short(text: str) -> str:
    """Shorten a formatted duration for a narrow column: `3m 44s` for `3 min 44 s`."""
    return re.sub(r" (min|[dhs])\b", lambda unit: unit[1][0], text)
