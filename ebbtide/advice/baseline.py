"""How many workers a pool wanted in a slot of the week: a quantile of the same slot on the same weekday.

For each weekday by itself, over the weeks that are learnt from: the value that a given share of those weeks did not
exceed (nearest rank). A line of a stack file counts on several weekdays at once, so of their values the middle one is
taken, the lower of two. It is a baseline that anyone can recount by hand, and no forecast.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ebbtide.advice.demand import changes
from ebbtide.simulator.world.pools import PooledJob
from ebbtide.simulator.world.waits import percentile
from ebbtide.units.durations import ONE_DAY as _DAY
from ebbtide.units.durations import WEEK_S as WEEK_S
from ebbtide.vocabulary.windows import BusinessHours, wall_to_instant

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The customer's hours and where the trace's second 0 lies in them (aware)."""

    hours: BusinessHours
    start: datetime

    def seconds(self, instant: datetime) -> float:
        return (instant - self.start).total_seconds()


@dataclass(frozen=True, slots=True)
class DemandHour:
    """An hour of the trace, and the weekday (0 is Monday) it counts for."""

    weekday: int
    begins: float  # seconds from the trace's second 0


class PoolDemand:
    """A pool's jobs, wanted at once: each starts when it is submitted."""

    def __init__(self, jobs: Sequence[PooledJob]) -> None:
        steps = changes((job.submitted_at, job.submitted_at + job.duration_s, float(job.members)) for job in jobs)
        self._at = [at for at, _ in steps]
        self._amount = [round(amount) for _, amount in steps]

    def peak(self, start: float, end: float) -> int:
        """The most workers wanted at any time of [start, end)."""
        first = bisect_right(self._at, start) - 1
        found = self._amount[first] if first >= 0 else 0
        for i in range(first + 1, len(self._at)):
            if self._at[i] >= end:
                break
            found = max(found, self._amount[i])
        return found


def morning_slots(calendar: Calendar, weeks: Sequence[int], hour: int) -> list[DemandHour]:
    """The `hour`-th hour after each opening in these weeks of the trace."""
    found: list[DemandHour] = []
    for week in weeks:
        begin = calendar.start.astimezone(UTC) + timedelta(seconds=week * WEEK_S)
        for span in calendar.hours.open_spans(begin, begin + 7 * _DAY):
            if begin <= span.start < begin + 7 * _DAY:
                local = calendar.hours.local(span.start)
                found.append(DemandHour(local.weekday(), calendar.seconds(span.start + hour * HOUR)))
    return found


def daily_slots(calendar: Calendar, weeks: Sequence[int], hour: int) -> list[DemandHour]:
    """The hour from `hour` o'clock, local time, on each day of these weeks."""
    return [DemandHour(day.weekday(), calendar.seconds(instant)) for day, instant in _clock(calendar, weeks, hour)]


def _clock(calendar: Calendar, weeks: Sequence[int], hour: int) -> Iterator[tuple[datetime, datetime]]:
    for week in weeks:
        begin = calendar.start.astimezone(UTC) + timedelta(seconds=week * WEEK_S)
        local = calendar.hours.local(begin)
        for offset in range(8):
            day = local + offset * _DAY
            instant = wall_to_instant(calendar.hours.timezone, day.date(), 60 * hour, last=False)
            if begin <= instant < begin + 7 * _DAY:
                yield day, instant


def by_weekday(demand: PoolDemand, slots: Sequence[DemandHour], quantile: float) -> Mapping[int, int]:
    """The quantile of the peak wanted in these slots, for each weekday that has any."""
    values: dict[int, list[int]] = {}
    for slot in slots:
        values.setdefault(slot.weekday, []).append(demand.peak(slot.begins, slot.begins + 3600))
    return {weekday: round(percentile(some, quantile)) for weekday, some in sorted(values.items())}


def middle(values: Sequence[int]) -> int:
    """The lower median; 0 of none."""
    return sorted(values)[(len(values) - 1) // 2] if values else 0
