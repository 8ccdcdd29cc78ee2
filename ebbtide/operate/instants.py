"""Instants as an operator types them: a local time of day, a duration from now, or ISO 8601."""

import re
from datetime import UTC, datetime, timedelta

from ebbtide.text.durations import ONE_DAY, read_duration
from ebbtide.vocabulary.windows import wall_to_instant, zone_of

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_WANTED = "wanted a local time (23:00), a duration (2h, 1h30m) or an instant (2026-11-21T23:00, with or without a zone)"


class NotUnderstood(ValueError):
    """The text is not a valid instant or duration, or lies in the past; the message names the expected forms."""


def duration_of(text: str) -> timedelta:
    """Parse `90s`, `15m`, `2h` or `1h30m`. Raises `NotUnderstood`."""
    duration = read_duration(text.strip())
    if duration is None:
        raise NotUnderstood(f"{text!r}: wanted a duration, for example 2h, 45m or 1h30m")
    if not duration:
        raise NotUnderstood(f"{text!r}: wanted a duration longer than zero")
    return duration


def instant_after(text: str, now: datetime, timezone: str) -> datetime:
    """Return the instant in UTC; a time of day is its next occurrence, and text without a zone is local in `timezone`.

    Raises `NotUnderstood`.
    """
    text = text.strip()
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        return _next_clock(int(clock[1]) * 60 + int(clock[2]), now, timezone)
    if read_duration(text) is not None:
        return now.astimezone(UTC) + duration_of(text)
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            seconds = timedelta(seconds=parsed.second)
            minutes = parsed.hour * 60 + parsed.minute
            instant = wall_to_instant(timezone, parsed.date(), minutes, last=True) + seconds
        else:
            instant = parsed.astimezone(UTC)
        spoken(instant, timezone)  # refuses the last hours of the calendar, which some zones do not have
    except (ValueError, OverflowError):
        raise NotUnderstood(f"{text!r}: {_WANTED}") from None
    if instant <= now:
        raise NotUnderstood(f"{text!r} has passed: wanted an instant in the future")
    return instant


def _next_clock(minutes: int, now: datetime, timezone: str) -> datetime:
    today = now.astimezone(zone_of(timezone)).date()
    for day in (today, today + ONE_DAY):
        instant = wall_to_instant(timezone, day, minutes, last=True)
        if instant > now:
            return instant
    raise AssertionError("tomorrow's time of day lies in the future")


def spoken(instant: datetime, timezone: str) -> str:
    """Format with local time first, since people plan by it: `Sat 2026-11-21 23:00 EST (04:00 UTC)`."""
    local = instant.astimezone(zone_of(timezone))
    utc = instant.astimezone(UTC)
    clock = utc.strftime("%H:%M UTC" if utc.date() == local.date() else "%Y-%m-%d %H:%M UTC")
    return f"{local:%a %Y-%m-%d %H:%M} {local.tzname()} ({clock})"
