"""What a change of the stack file does to its nights, as sentences.

Weekdays first, since most changes are of the week; then single dates of the coming days, with one sentence for all
that lie further ahead; then planned work and mornings. Whatever changes a window says so here: a law of the tests.
"""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta

from ebbtide.preview.nights.windows import (
    HOLIDAY,
    dated_hours,
    holiday_name,
    lasting,
    nights_between,
    short_date,
    window_of,
)
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import Overnight
from ebbtide.settings.sections.week import MINUTES_PER_WEEK, format_interval
from ebbtide.vocabulary.windows import MINUTES_PER_DAY, BusinessHours, DisruptionWindow, WeeklyInterval

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def night_changes(before: StackSettings, after: StackSettings, now: datetime, days: int) -> Iterator[str]:
    """A sentence for each thing that differs."""
    old, new = window_of(before, now), window_of(after, now)
    yield from _zone_and_guard(old, new, now)
    yield from _weekdays(old, new)
    yield from _dates(before, after, now, days)
    yield from _protection(old, new, now, days)
    yield from _planned(before, after)
    yield from _mornings(before, after)


def _zone_and_guard(old: DisruptionWindow, new: DisruptionWindow, now: datetime) -> Iterator[str]:
    if old.hours.timezone != new.hours.timezone:
        zones = f"time zone: {new.hours.timezone} instead of {old.hours.timezone}"
        yield f"{zones}, {_shift(_offset(old.hours, now) - _offset(new.hours, now))}"
    if old.closing_guard != new.closing_guard:
        moved = "earlier" if new.closing_guard > old.closing_guard else "later"
        by = lasting(abs(new.closing_guard - old.closing_guard))
        guards = f"{lasting(new.closing_guard)} before opening instead of {lasting(old.closing_guard)}"
        yield f"every window closes {guards}, {by} {moved}"


def _offset(hours: BusinessHours, now: datetime) -> timedelta:
    return hours.local(now).utcoffset() or timedelta()


def _shift(by: timedelta) -> str:
    if not by:
        return "whose clocks agree today"
    return f"so the same wall time comes {lasting(abs(by))} {'later' if by > timedelta() else 'earlier'}"


def _weekdays(old: DisruptionWindow, new: DisruptionWindow) -> Iterator[str]:
    """Days with the same change share a sentence."""
    days_of: dict[str, list[int]] = {}
    for day in range(7):
        change = _day_change(_of_day(old.hours, day), _of_day(new.hours, day), old, new)
        if change:
            days_of.setdefault(change, []).append(day)
    for change, changed in days_of.items():
        yield f"{_named(changed)}: {change}"


def _of_day(hours: BusinessHours, day: int) -> list[WeeklyInterval]:
    return sorted(interval for interval in hours.week if interval.weekday == day)


def _day_change(
    was: Sequence[WeeklyInterval], now: Sequence[WeeklyInterval], old: DisruptionWindow, new: DisruptionWindow
) -> str:
    if list(was) == list(now):
        return ""
    if not was:
        return f"protected {_hours(now)} now, closed all day before"
    if not now:
        return f"closed all day now, protected {_hours(was)} before"
    if len(was) != 1 or len(now) != 1 or any(_meets_midnight(day) for day in (was[0], now[0])):
        return f"protected {_hours(now)} instead of {_hours(was)}"
    parts: list[str] = []
    if was[0].start != now[0].start:
        closes, closed = _closing(now[0], new), _closing(was[0], old)
        parts.append(f"the window closes at {closes} instead of {closed}")
    if was[0].end != now[0].end:
        opens = "opens" if parts else "the window opens"
        parts.append(f"{opens} at {_clock(now[0].end)} instead of {_clock(was[0].end)}")
    return " and ".join(parts)


def _meets_midnight(interval: WeeklyInterval) -> bool:
    """Then the hours of the next or the last day may go on, and no window opens or closes at the interval's edge."""
    return interval.start == 0 or interval.end >= MINUTES_PER_DAY


def _closing(interval: WeeklyInterval, window: DisruptionWindow) -> str:
    return _clock(interval.start - -(-window.closing_guard // timedelta(minutes=1)))


def _clock(minutes: int) -> str:
    hours, rest = divmod(minutes % MINUTES_PER_DAY, 60)
    return f"{hours:02}:{rest:02}"


def _hours(intervals: Sequence[WeeklyInterval]) -> str:
    return ", ".join(format_interval(interval) for interval in intervals)


def _named(days: Sequence[int]) -> str:
    """`Fridays`, `Mondays to Thursdays`, `Mondays and Wednesdays`."""
    names = [f"{_DAYS[day]}s" for day in days]
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        return f"{names[0]} to {names[-1]}"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _protection(old: DisruptionWindow, new: DisruptionWindow, now: datetime, days: int) -> Iterator[str]:
    """By the week where the week changes; else by what the coming days make of dates, guard and zone."""
    a_week = timedelta(minutes=_minutes(new.hours.week) - _minutes(old.hours.week))
    if a_week:
        yield f"{lasting(abs(a_week))} {'more' if a_week > timedelta() else 'less'} protection a week"
        return
    fewer = _open_time(old, now, days) - _open_time(new, now, days)
    if fewer:
        how = "more" if fewer > timedelta() else "less"
        yield f"{lasting(abs(fewer))} {how} protection in the coming {days} days"


def _minutes(week: Sequence[WeeklyInterval]) -> int:
    """Of a week, each minute once: the stack file refuses overlaps, and a stack built otherwise may have them."""
    held = {
        (interval.weekday * MINUTES_PER_DAY + minute) % MINUTES_PER_WEEK
        for interval in week
        for minute in range(interval.start, interval.end)
    }
    return len(held)


def _open_time(window: DisruptionWindow, now: datetime, days: int) -> timedelta:
    end = now + timedelta(days=days)
    nights = nights_between(window, now, end)
    return sum((min(night.closes, end) - max(night.opens, now) for night in nights), timedelta())


def _dates(before: StackSettings, after: StackSettings, now: datetime, days: int) -> Iterator[str]:
    old, new = window_of(before, now).hours, window_of(after, now).hours
    first = new.local(now).date() - timedelta(days=1)  # a night shift of yesterday ends today
    last = new.local(now + timedelta(days=days)).date()
    changed = [day for day in _dates_of(old, new) if day >= first and old.intervals_on(day) != new.intervals_on(day)]
    for day in changed:
        if day <= last:
            yield _date_change(before, after, old, new, day)
    later = [day for day in changed if day > last]
    if later:
        closed = sum(not new.intervals_on(day) for day in later)
        opened = sum(not old.intervals_on(day) for day in later)
        others = len(later) - closed - opened
        what = f"{closed} more dates are closed and {opened} are working days"
        what += f", {others} have other hours" if others else ""
        yield f"after the coming {days} days {what}, from {short_date(later[0])} {later[0].year} on"


def _dates_of(old: BusinessHours, new: BusinessHours) -> Sequence[date]:
    """Those of which one of the two says something that the other does not."""
    listed = (old.closed_dates ^ new.closed_dates) | {it.day for it in old.open_dates ^ new.open_dates}
    return sorted(listed)


def _date_change(before: StackSettings, after: StackSettings, old: BusinessHours, new: BusinessHours, day: date) -> str:
    if old.intervals_on(day) and new.intervals_on(day):
        return f"{short_date(day)} is protected {dated_hours(new, day)} instead of {dated_hours(old, day)}"
    name = holiday_name(before if new.intervals_on(day) else after, day)
    named = "" if name == HOLIDAY else f" ({name})"
    if not new.intervals_on(day):
        return f"{short_date(day)} is closed now{named}"
    own = any(it.day == day for it in new.open_dates)
    return f"{short_date(day)} is a working day now{named}{f', open {dated_hours(new, day)}' if own else ''}"


def _planned(before: StackSettings, after: StackSettings) -> Iterator[str]:
    old, new = before.business_hours.overnight, after.business_hours.overnight
    for plan in new:
        if plan not in old:
            yield f"planned work is new: {_plan(plan)}"
    for plan in old:
        if plan not in new:
            yield f"planned work is gone: {_plan(plan)}"


def _plan(plan: Overnight) -> str:
    return f"{plan.pool}, {_workers(plan.workers)} at {plan.at} for {lasting(plan.for_)}"


def _mornings(before: StackSettings, after: StackSettings) -> Iterator[str]:
    for name in [*after.workers, *(gone for gone in before.workers if gone not in after.workers)]:
        old, new = _morning(before, name), _morning(after, name)
        if old != new:
            yield f"mornings of {name}: {new} instead of {old}"


def _morning(settings: StackSettings, pool: str) -> str:
    morning = settings.workers[pool].morning if pool in settings.workers else None
    return "no workers" if morning is None else f"{_workers(morning.workers)} for {lasting(morning.for_)}"


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"
