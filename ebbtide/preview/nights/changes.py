"""Sentences about what a change of the stack file does to its nights.

Weekdays come first, since most changes concern the week; then dates of the coming days, with one sentence for all later
dates; then planned work and mornings. A property test checks that every changed window has a sentence.
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
from ebbtide.settings.patch import on_one_line
from ebbtide.settings.sections.business_hours import Overnight
from ebbtide.settings.sections.sleep import SleepTimes
from ebbtide.settings.sections.week import MINUTES_PER_WEEK, format_interval
from ebbtide.text.counts import several
from ebbtide.vocabulary.windows import MINUTES_PER_DAY, BusinessHours, DisruptionWindow, WeeklyInterval

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def night_changes(before: StackSettings, after: StackSettings, now: datetime, days: int) -> Iterator[str]:
    """Yield one sentence for each difference."""
    old, new = window_of(before, now), window_of(after, now)
    yield from _zone_and_guard(old, new, now)
    yield from _weekdays(old, new)
    yield from _dates(before, after, now, days)
    yield from _protection(old, new, now, days)
    yield from _planned(before, after)
    yield from _mornings(before, after)
    yield from _sleeps(before, after)


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
        change = _day_change(_intervals_of(old.hours, day), _intervals_of(new.hours, day), old, new)
        if change:
            days_of.setdefault(change, []).append(day)
    for change, changed in days_of.items():
        yield f"{_named(changed)}: {change}"


def _intervals_of(hours: BusinessHours, day: int) -> list[WeeklyInterval]:
    return sorted(interval for interval in hours.week if interval.weekday == day)


def _day_change(
    old_hours: Sequence[WeeklyInterval],
    new_hours: Sequence[WeeklyInterval],
    old: DisruptionWindow,
    new: DisruptionWindow,
) -> str:
    if list(old_hours) == list(new_hours):
        return ""
    if not old_hours:
        return f"protected {_hours(new_hours)} now, closed all day before"
    if not new_hours:
        return f"closed all day now, protected {_hours(old_hours)} before"
    if len(old_hours) != 1 or len(new_hours) != 1 or any(_meets_midnight(day) for day in (old_hours[0], new_hours[0])):
        return f"protected {_hours(new_hours)} instead of {_hours(old_hours)}"
    parts: list[str] = []
    if old_hours[0].start != new_hours[0].start:
        closes, closed = _closing(new_hours[0], new), _closing(old_hours[0], old)
        parts.append(f"the window closes at {closes} instead of {closed}")
    if old_hours[0].end != new_hours[0].end:
        opens = "opens" if parts else "the window opens"
        parts.append(f"{opens} at {_clock(new_hours[0].end)} instead of {_clock(old_hours[0].end)}")
    return " and ".join(parts)


def _meets_midnight(interval: WeeklyInterval) -> bool:
    """True if the interval may continue on an adjacent day, so that no window opens or closes at its edge."""
    return interval.start == 0 or interval.end >= MINUTES_PER_DAY


def _closing(interval: WeeklyInterval, window: DisruptionWindow) -> str:
    return _clock(interval.start - -(-window.closing_guard // timedelta(minutes=1)))


def _clock(minutes: int) -> str:
    hours, minute = divmod(minutes % MINUTES_PER_DAY, 60)
    return f"{hours:02}:{minute:02}"


def _hours(intervals: Sequence[WeeklyInterval]) -> str:
    return ", ".join(format_interval(interval) for interval in intervals)


def _named(days: Sequence[int]) -> str:
    """`Fridays`, `Mondays to Thursdays`, `Mondays and Wednesdays`."""
    names = [f"{_DAYS[day]}s" for day in days]
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        return f"{names[0]} to {names[-1]}"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _protection(old: DisruptionWindow, new: DisruptionWindow, now: datetime, days: int) -> Iterator[str]:
    """The difference per week if the week changes; otherwise over the coming days, from dates, guard and time zone."""
    a_week = timedelta(minutes=_minutes(new.hours.week) - _minutes(old.hours.week))
    if a_week:
        yield f"{lasting(abs(a_week))} {'more' if a_week > timedelta() else 'less'} protection a week"
        return
    fewer = _open_time(old, now, days) - _open_time(new, now, days)
    if fewer:
        how = "more" if fewer > timedelta() else "less"
        yield f"{lasting(abs(fewer))} {how} protection in the coming {days} days"


def _minutes(week: Sequence[WeeklyInterval]) -> int:
    """Minutes of a week, each counted once: stack files have no overlaps, but a stack built in code may."""
    open_minutes = {
        (interval.weekday * MINUTES_PER_DAY + minute) % MINUTES_PER_WEEK
        for interval in week
        for minute in range(interval.start, interval.end)
    }
    return len(open_minutes)


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
        changed_hours = len(later) - closed - opened
        counts = f"{closed} more dates are closed and {opened} are working days"
        counts += f", {changed_hours} have other hours" if changed_hours else ""
        yield f"after the coming {days} days {counts}, from {short_date(later[0])} {later[0].year} on"


def _dates_of(old: BusinessHours, new: BusinessHours) -> Sequence[date]:
    """Dates that only one of the two has as closed or open."""
    dates = (old.closed_dates ^ new.closed_dates) | {date_.day for date_ in old.open_dates ^ new.open_dates}
    return sorted(dates)


def _date_change(before: StackSettings, after: StackSettings, old: BusinessHours, new: BusinessHours, day: date) -> str:
    if old.intervals_on(day) and new.intervals_on(day):
        return f"{short_date(day)} is protected {dated_hours(new, day)} instead of {dated_hours(old, day)}"
    name = holiday_name(before if new.intervals_on(day) else after, day)
    named = "" if name == HOLIDAY else f" ({name})"
    if not new.intervals_on(day):
        return f"{short_date(day)} is closed now{named}"
    hours = f", open {dated_hours(new, day)}" if any(date_.day == day for date_ in new.open_dates) else ""
    return f"{short_date(day)} is a working day now{named}{hours}"


def _planned(before: StackSettings, after: StackSettings) -> Iterator[str]:
    old, new = before.business_hours.overnight, after.business_hours.overnight
    for plan in new:
        if plan not in old:
            yield f"planned work is new: {_plan(plan)}"
    for plan in old:
        if plan not in new:
            yield f"planned work is gone: {_plan(plan)}"


def _plan(plan: Overnight) -> str:
    return f"{plan.pool}, {several(plan.workers, 'worker')} at {plan.at} for {lasting(plan.for_)}"


def _mornings(before: StackSettings, after: StackSettings) -> Iterator[str]:
    for name in [*after.workers, *(gone for gone in before.workers if gone not in after.workers)]:
        old, new = _morning(before, name), _morning(after, name)
        if old != new:
            yield f"mornings of {name}: {new} instead of {old}"


def _morning(settings: StackSettings, pool: str) -> str:
    morning = settings.workers[pool].morning if pool in settings.workers else None
    return "no workers" if morning is None else f"{several(morning.workers, 'worker')} for {lasting(morning.for_)}"


def _sleeps(before: StackSettings, after: StackSettings) -> Iterator[str]:
    for name in [*after.all_workloads, *after.adopted]:
        old, new = _sleep(before.sleeps.get(name)), _sleep(after.sleeps.get(name))
        if old != new:
            yield f"sleep of {name}: {new} instead of {old}"


def _sleep(sleep: SleepTimes | None) -> str:
    if sleep is None or not sleep.sleeps:
        return "none"
    return on_one_line(sleep.model_dump(mode="json", by_alias=True, exclude_defaults=True))
