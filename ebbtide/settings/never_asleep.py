"""The times at which a workload is awake, and why they leave it no time to sleep. Pure: the day is an argument."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from ebbtide.text.durations import format_duration
from ebbtide.vocabulary.windows import BusinessHours, Span, wall_to_instant
from ebbtide.vocabulary.workloads import SleepPolicy

_WEEKS = timedelta(weeks=2)  # two weeks contain every closed interval of a week uncut
_YEAR = timedelta(days=366)


def never_asleep(policy: SleepPolicy, hours: BusinessHours, day: date) -> str:
    """Return why the workload does not sleep in an ordinary week from `day` on; empty if it does.

    Holidays have longer closed intervals than weekends: the text names the first holiday in which it sleeps.
    """
    begin = datetime.combine(day, time(12), UTC)
    ordinary = replace(hours, closed_dates=frozenset(), open_dates=frozenset())
    closed = list(_gaps(list(ordinary.open_spans(begin, begin + _WEEKS))))
    if not closed or any(_asleep(policy, ordinary, begin, _WEEKS)):
        return ""
    longest = max(closed, key=lambda span: span.end - span.start)
    length = format_duration(longest.end - longest.start)
    start, end = (f"{hours.local(at):%a %H:%M}" for at in (longest.start, longest.end))
    text = f"the longest closed interval of a week is {length}, {start} to {end}"
    kept = [f"{format_duration(policy.after)} after the closing"] if policy.after else []
    kept += ["its times overnight"] if policy.overnight else []
    text += f"; it stays awake for {' and '.join(kept)}, and wakes {format_duration(policy.lead)} before the opening"
    first = next(_asleep(policy, hours, begin, _YEAR), None)
    return f"{text}; it sleeps at holidays only, next on {hours.local(first.start):%Y-%m-%d}" if first else text


def _asleep(policy: SleepPolicy, hours: BusinessHours, begin: datetime, length: timedelta) -> Iterator[Span]:
    return _gaps(sorted(awake_spans(policy, hours, begin, length), key=lambda span: span.start))


def awake_spans(policy: SleepPolicy, hours: BusinessHours, begin: datetime, length: timedelta) -> Iterator[Span]:
    """Yield the times at which the calendar keeps the workload awake. They may overlap, and begin before `begin`."""
    for span in hours.open_spans(begin, begin + length):
        yield Span(span.start - policy.lead, span.end + policy.after)
    for offset in range(-1, length.days + 1):
        for night in policy.overnight:
            start = wall_to_instant(hours.timezone, hours.local(begin).date() + timedelta(offset), night.at, last=False)
            yield Span(start - policy.lead, start + night.lasting)


def _gaps(spans: list[Span]) -> Iterator[Span]:
    """Yield the gaps between spans, which are in order and may overlap."""
    end = spans[0].end if spans else None
    for span in spans:
        if end is not None and span.start > end:
            yield Span(end, span.start)
        end = span.end if end is None else max(end, span.end)
