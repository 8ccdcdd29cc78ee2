"""The disruption windows of a period, and the notes on each: clock changes, holidays, planned work.

The edges come from `DisruptionWindow`, so they match the controller's.

Pure: instants in, values out. The names of holidays come from the `holidays` package, in English where it has them;
a date that only the stack file closes is called a holiday.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache

import holidays

from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.week import format_minutes
from ebbtide.text.counts import several
from ebbtide.text.durations import ONE_DAY as _ONE_DAY
from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow, Span, wall_to_instant

_LOOK_BACK = tuple(timedelta(days=days) for days in (1, 8, 60, 400))
"""How far to look back for the opening of a window that is already open: nearly always last night or last week."""

HOLIDAY = "holiday"


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One window. `reopens` is the start of business hours after it; None if nothing ends the window."""

    opens: datetime
    closes: datetime
    reopens: datetime | None


def window_of(settings: StackSettings, now: datetime) -> DisruptionWindow:
    """The window that the controller gets from an `up` at `now`, with the holidays of this year and the next two.

    Last year's are included, since a window that is open at New Year began in December.
    """
    year = now.astimezone(UTC).year
    return DisruptionWindow(
        hours=settings.business_hours.hours(tuple(range(year - 1, year + 3))),
        closing_guard=settings.controller.closing_guard,
    )


def nights_between(window: DisruptionWindow, start: datetime, end: datetime) -> Iterator[Night]:
    """Yield the windows that end after `start` and begin before `end`, uncut; one without an end is cut at `end`."""
    begin, stop = start.astimezone(UTC), end.astimezone(UTC)
    opens = _opening_before(window, begin) if window.is_open(begin) else window.next_change(begin)
    while opens is not None and opens < stop:
        closes = window.next_change(max(opens, begin))
        if closes is None:
            yield Night(opens=opens, closes=stop, reopens=None)
            return
        yield Night(opens=opens, closes=closes, reopens=closes + window.closing_guard)
        opens = window.next_change(closes)


def _opening_before(window: DisruptionWindow, instant: datetime) -> datetime:
    """Return when the window that is open at `instant` opened; the instant itself if that is too long ago."""
    for back in _LOOK_BACK:
        opened, change = None, window.next_change(instant - back)
        while change is not None and change <= instant:
            opened = change if window.is_open(change) else None
            change = window.next_change(change)
        if opened is not None:
            return opened
    return instant


def clock_note(hours: BusinessHours, night: Night) -> str:
    """The effect of a clock change on a window's length; "" without one."""
    begin, end = hours.local(night.opens), hours.local(night.closes)
    longer = (begin.utcoffset() or timedelta()) - (end.utcoffset() or timedelta())
    if not longer:
        return ""
    way, than = ("back", "longer") if longer > timedelta() else ("forward", "shorter")
    return f"clocks go {way}: {lasting(abs(longer))} {than} than the clock shows"


def holiday_notes(settings: StackSettings, hours: BusinessHours, night: Night) -> Iterator[str]:
    """The closed dates that make this window longer: those that would have been working days."""
    working = {interval.weekday for interval in hours.week}
    last = hours.local(night.closes).date()
    day = hours.local(night.opens).date()
    while day <= last:
        if day in hours.closed_dates and day.weekday() in working and _would_open(hours, day, night):
            yield f"{short_date(day)} {holiday_name(settings, day)}"
        day += _ONE_DAY


def open_date_note(hours: BusinessHours, night: Night) -> str:
    """The date on which this window ends, if it has its own hours, such as a working Saturday; "" otherwise."""
    day = None if night.reopens is None else hours.local(night.reopens).date()
    if day is None or all(date_.day != day for date_ in hours.open_dates):
        return ""
    return f"{short_date(day)} is open {dated_hours(hours, day)}"


def dated_hours(hours: BusinessHours, day: date) -> str:
    return ", ".join(format_minutes(start, end) for start, end in hours.intervals_on(day))


def _would_open(hours: BusinessHours, day: date, night: Night) -> bool:
    starts = [interval.start for interval in hours.week if interval.weekday == day.weekday()]
    instants = [wall_to_instant(hours.timezone, day, start, last=False) for start in starts]
    return any(night.opens <= instant < night.closes for instant in instants)


def holiday_name(settings: StackSettings, day: date) -> str:
    calendar = settings.business_hours.holidays
    if calendar.country is None:
        return HOLIDAY
    return _names(calendar.country, calendar.subdivision, day.year).get(day, HOLIDAY)


@cache
def _names(country: str, subdivision: str | None, year: int) -> Mapping[date, str]:
    calendar = holidays.country_holidays(country, subdiv=subdivision, years=year, language="en_US")
    return dict(calendar.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Workers that a floor keeps, with or without waiting jobs: planned work, or the morning."""

    pool: str
    workers: int
    span: Span
    morning: bool


def held_during(settings: StackSettings, hours: BusinessHours, night: Night) -> Iterator[Held]:
    """Yield the floors that overlap a window; each starts earlier by the time that its nodes need to start."""
    lead = settings.controller.node_startup
    for plan in settings.business_hours.overnight:
        day = hours.local(night.opens - plan.for_).date() - _ONE_DAY
        last = hours.local(night.closes + lead).date()
        while day <= last:
            start = wall_to_instant(hours.timezone, day, plan.minutes, last=False)
            span = Span(start - lead, start + plan.for_)
            if span.start < night.closes and span.end > night.opens:
                yield Held(pool=plan.pool, workers=plan.workers, span=span, morning=False)
            day += _ONE_DAY
    for name, pool in settings.workers.items():
        if pool.morning is not None and night.reopens is not None:
            span = Span(night.reopens - lead, night.reopens + pool.morning.for_)
            yield Held(pool=name, workers=pool.morning.workers, span=span, morning=True)


def held_notes(hours: BusinessHours, held: Iterator[Held]) -> Iterator[str]:
    """Yield one note for each plan; repetitions within a long window are counted."""
    texts: dict[str, int] = {}
    for floor in held:
        begin, end = (hours.local(instant) for instant in (floor.span.start, floor.span.end))
        kind = "morning" if floor.morning else "planned"
        text = f"{kind}: {floor.pool}, {several(floor.workers, 'worker')} {begin:%H:%M} to {end:%H:%M}"
        texts[text] = texts.get(text, 0) + 1
    for text, times in texts.items():
        yield text if times == 1 else f"{text}, on {times} nights"


def short_date(day: date) -> str:
    return f"{day:%a} {day.day} {day:%b}"


def local_text(hours: BusinessHours, night: Night) -> str:
    """`Fri 20 Nov 17:00 → Mon 23 Nov 07:45 (America/New_York)`."""
    begin, end = hours.local(night.opens), hours.local(night.closes)
    return f"{short_date(begin)} {begin:%H:%M} → {short_date(end)} {end:%H:%M} ({hours.timezone})"


def lasting(span: timedelta) -> str:
    """`14 h`, `13 h 45 min`, `45 min`."""
    minutes = round(span / timedelta(minutes=1))
    hours, minute = divmod(minutes, 60)
    parts = [f"{hours} h"] if hours else []
    return " ".join([*parts, *([f"{minute} min"] if minute or not hours else [])])
