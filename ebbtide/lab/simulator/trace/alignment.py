"""The alignment of a trace with the customer's week.

A trace has no calendar: most public ones do not state the hour of their second 0. Unless the user sets a start, the
middle of the trace's busiest 12 hours of the day is aligned with the middle of a Monday's business hours, so the trace
is replayed as the work of people with these hours. The report shows this assumption. `shifted_starts` moves the start,
to show its influence on a figure.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.vocabulary.windows import BusinessHours, zone_of

REFERENCE_MONDAY = datetime(2026, 6, 1)  # noqa: DTZ001 - a local date, given the customer's zone below
SHIFTS = (timedelta(hours=-6), timedelta(0), timedelta(hours=6))
_WEEKS_TRIED = 8


def busiest_half_day(jobs: Sequence[Job]) -> int:
    """The hour of the trace's day at which its busiest 12 hours begin, by arrivals; ties go to the earliest."""
    return busiest_hours(Counter(int(job.submitted_at // 3600) % 24 for job in jobs))


def busiest_hours(arrivals: Mapping[int, float]) -> int:
    """The first of the busiest 12 hours, from arrivals by hour of the day; a missing hour had none."""

    def of_window(hour: int) -> float:
        return sum(arrivals.get((hour + i) % 24, 0) for i in range(12))

    return max(range(24), key=lambda hour: (of_window(hour), -hour))


def aligned_start(jobs: Sequence[Job], hours: BusinessHours) -> datetime:
    """Second 0 of the trace in the customer's zone, with the first busy half-day centred on a Monday's hours."""
    return start_for(busiest_half_day(jobs), hours)


def start_for(busiest: int, hours: BusinessHours) -> datetime:
    """Second 0 of a trace whose 12 busy hours begin at this hour of its day."""
    busy_centre = timedelta(hours=(busiest + 6) % 24)
    return (_middle_of_a_monday(hours) - busy_centre).astimezone(zone_of(hours.timezone))


def shifted_starts(start: datetime, shifts: Sequence[timedelta] = SHIFTS) -> tuple[datetime, ...]:
    """The start moved by elapsed time, in its zone. Local time would differ on days of clock changes.

    Raises ValueError for a start without a zone.
    """
    if start.tzinfo is None:
        raise ValueError(f"start: wanted an instant with its zone, found {start.isoformat()}")
    return tuple((start.astimezone(UTC) + shift).astimezone(start.tzinfo) for shift in shifts)


def _middle_of_a_monday(hours: BusinessHours) -> datetime:
    """The middle of the first Monday with business hours; midday if no Monday has any."""
    first = REFERENCE_MONDAY.replace(tzinfo=zone_of(hours.timezone))
    for week in range(_WEEKS_TRIED):
        monday = first + timedelta(weeks=week)
        tuesday = monday + timedelta(days=1)
        spans = [span for span in hours.open_spans(monday, tuesday) if span.start >= monday]
        if spans:
            opening, closing = spans[0].start, spans[-1].end
            return opening + (closing - opening) / 2
    return first + timedelta(hours=12)
