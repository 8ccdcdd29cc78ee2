"""Floors of a stack file, learnt from some weeks of jobs: rules, the resulting lines, and their reasons.

A stack file has three kinds of floor: `morning` (workers ready at each opening), `overnight` (workers from an hour of
the night, every day) and a pool's `min`. A rule combines one kind with a quantile of the seasonal baseline. It turns
weeks into lines, so it can be tested on weeks that it was not trained on.

The baseline of an hour is computed for each weekday separately: the number of workers that a given share of the
training weeks did not exceed in this hour (a quantile by nearest rank). A line of a stack file covers several weekdays,
so it takes the lower median of their baselines. Anyone can check the result by hand; it is not a forecast.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from ebbtide.lab.advice.demand import changes
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.lab.simulator.world.waits import percentile
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import Overnight
from ebbtide.settings.sections.workers import Morning
from ebbtide.text.durations import ONE_DAY as _DAY
from ebbtide.text.durations import WEEK_S as WEEK_S
from ebbtide.vocabulary.windows import BusinessHours, wall_to_instant

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Business hours, and the instant of the trace's second 0 (aware)."""

    hours: BusinessHours
    start: datetime

    def seconds(self, instant: datetime) -> float:
        return (instant - self.start).total_seconds()


@dataclass(frozen=True, slots=True)
class DemandHour:
    """An hour of the trace, and the weekday (0 is Monday) that it counts for."""

    weekday: int
    begins: float  # seconds from the trace's second 0


class PoolDemand:
    """Workers that a pool needs if each job starts when it is submitted."""

    def __init__(self, jobs: Sequence[PooledJob]) -> None:
        steps = changes((job.submitted_at, job.submitted_at + job.duration_s, float(job.members)) for job in jobs)
        self._at = [at for at, _ in steps]
        self._amount = [round(amount) for _, amount in steps]

    def peak(self, start: float, end: float) -> int:
        """Return the most workers needed at any time of [start, end)."""
        first = bisect_right(self._at, start) - 1
        peak = self._amount[first] if first >= 0 else 0
        for i in range(first + 1, len(self._at)):
            if self._at[i] >= end:
                break
            peak = max(peak, self._amount[i])
        return peak


def morning_slots(calendar: Calendar, weeks: Sequence[int], hour: int) -> list[DemandHour]:
    """Return the `hour`-th hour after each opening in these weeks of the trace."""
    slots: list[DemandHour] = []
    for week in weeks:
        begin = calendar.start.astimezone(UTC) + timedelta(seconds=week * WEEK_S)
        for span in calendar.hours.open_spans(begin, begin + 7 * _DAY):
            if begin <= span.start < begin + 7 * _DAY:
                local = calendar.hours.local(span.start)
                slots.append(DemandHour(local.weekday(), calendar.seconds(span.start + hour * HOUR)))
    return slots


def daily_slots(calendar: Calendar, weeks: Sequence[int], hour: int) -> list[DemandHour]:
    """Return the hour from `hour` o'clock, local time, on each day of these weeks."""
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
    """Return the quantile of peak demand in these slots, for each weekday that has any."""
    values: dict[int, list[int]] = {}
    for slot in slots:
        values.setdefault(slot.weekday, []).append(demand.peak(slot.begins, slot.begins + 3600))
    return {weekday: round(percentile(peaks, quantile)) for weekday, peaks in sorted(values.items())}


def middle(values: Sequence[int]) -> int:
    """Return the lower median, 0 without values."""
    return sorted(values)[(len(values) - 1) // 2] if values else 0


LONGEST_MORNING = 4  # hours after opening that one floor may reach
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Means(StrEnum):
    MORNING = "morning"
    OVERNIGHT = "overnight"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class FloorRule:
    """A way to derive a floor from demand."""

    means: Means
    quantile: float


RULES = tuple(FloorRule(means, quantile) for means in Means for quantile in (0.25, 0.5, 0.9))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntFloor:
    """One pool's floor. `at` is an hour of the local day, for `overnight` only; `hours` is 0 for `min`."""

    pool: str
    means: Means
    workers: int
    hours: int = 0
    at: int = 0
    wanted: Mapping[int, int] = field(hash=False)  # baseline by weekday, of the slot in which the floor starts

    @property
    def line(self) -> str:
        """Line of a stack file, below the pool's key or below `ebbtide:businessHours`."""
        match self.means:
            case Means.MORNING:
                return f"morning: {{ workers: {self.workers}, for: {self.hours}h }}"
            case Means.OVERNIGHT:
                return f"overnight: [{self.entry}]"
            case Means.MIN:
                return f"min: {self.workers}"

    @property
    def entry(self) -> str:
        """Entry of the list `overnight`."""
        at = f'"{self.at:02d}:00"'
        return f"{{ pool: {self.pool}, at: {at}, for: {self.hours}h, workers: {self.workers} }}"

    def reason(self, rule: FloorRule, weeks: int) -> str:
        days = ", ".join(f"{_WEEKDAYS[day]} {count}" for day, count in self.wanted.items())
        when = {
            Means.MORNING: "in the first hour after opening",
            Means.OVERNIGHT: f"in the hour from {self.at:02d}:00",
            Means.MIN: "in the hour with the least demand",
        }[self.means]
        share = f"not exceeded in {rule.quantile:.0%} of {weeks} weeks"
        return f"workers wanted {when}, {share}: {days}; the median is taken"


def floor_of(
    rule: FloorRule, pool: str, demand: PoolDemand, calendar: Calendar, weeks: Sequence[int]
) -> LearntFloor | None:
    """Apply the rule to a pool's demand in these weeks; None if no worker was needed."""
    match rule.means:
        case Means.MORNING:
            return _morning(rule, pool, demand, calendar, weeks)
        case Means.OVERNIGHT:
            return _overnight(rule, pool, demand, calendar, weeks)
        case Means.MIN:
            return _min(rule, pool, demand, calendar, weeks)


def _morning(
    rule: FloorRule, pool: str, demand: PoolDemand, calendar: Calendar, weeks: Sequence[int]
) -> LearntFloor | None:
    """Return the first hour's demand as a floor, for as long as the following hours need no fewer."""
    baselines = [
        by_weekday(demand, morning_slots(calendar, weeks, hour), rule.quantile) for hour in range(LONGEST_MORNING)
    ]
    workers = middle(list(baselines[0].values()))
    if not workers:
        return None
    hours = 1
    while hours < LONGEST_MORNING and middle(list(baselines[hours].values())) >= workers:
        hours += 1
    return LearntFloor(pool=pool, means=rule.means, workers=workers, hours=hours, wanted=baselines[0])


def _overnight(
    rule: FloorRule, pool: str, demand: PoolDemand, calendar: Calendar, weeks: Sequence[int]
) -> LearntFloor | None:
    """Return the unbroken part of the night with most worker-hours of demand.

    Demand around the clock is left to `min`, and demand in business hours to `morning`.
    """
    baselines = [by_weekday(demand, daily_slots(calendar, weeks, hour), rule.quantile) for hour in range(24)]
    count = [middle(list(by_day.values())) for by_day in baselines]
    if all(count):
        return None
    count = [workers if _is_night(calendar, weeks, hour) else 0 for hour, workers in enumerate(count)]
    best: tuple[int, int, int] | None = None  # worker-hours, how early, hours
    for first in (hour for hour in range(24) if count[hour] and not count[hour - 1]):
        hours = next(length for length in range(1, 25) if not count[(first + length) % 24])
        workers = min(count[(first + i) % 24] for i in range(hours))
        best = max(filter(None, (best, (workers * hours, -first, hours))))
    if best is None:
        return None
    total, earliness, hours = best
    return LearntFloor(
        pool=pool, means=rule.means, workers=total // hours, hours=hours, at=-earliness, wanted=baselines[-earliness]
    )


def _is_night(calendar: Calendar, weeks: Sequence[int], hour: int) -> bool:
    """True if no part of this hour of the day is open on any day of these weeks."""
    return not any(
        any(calendar.hours.open_spans(instant, instant + HOUR)) for _, instant in _clock(calendar, weeks, hour)
    )


def _min(
    rule: FloorRule, pool: str, demand: PoolDemand, calendar: Calendar, weeks: Sequence[int]
) -> LearntFloor | None:
    baselines = [by_weekday(demand, daily_slots(calendar, weeks, hour), rule.quantile) for hour in range(24)]
    least = min(baselines, key=lambda by_day: middle(list(by_day.values())))
    workers = middle(list(least.values()))
    return LearntFloor(pool=pool, means=rule.means, workers=workers, wanted=least) if workers else None


def with_floors(settings: StackSettings, floors: Sequence[LearntFloor]) -> StackSettings:
    """Add these floors to the stack's own; none exceeds its pool's max, and none lowers an existing floor."""
    workers = dict(settings.workers)
    overnight = list(settings.business_hours.overnight)
    for floor in floors:
        pool = workers[floor.pool]
        count = min(floor.workers, pool.max)
        lasting = timedelta(hours=floor.hours)
        match floor.means:
            case Means.MORNING:
                planned = Morning.model_validate({"workers": count, "for": lasting})
                if pool.morning is None or pool.morning.workers < count:
                    workers[floor.pool] = pool.model_copy(update={"morning": planned})
            case Means.OVERNIGHT:
                entry = {"pool": floor.pool, "at": f"{floor.at:02d}:00", "for": lasting, "workers": count}
                overnight.append(Overnight.model_validate(entry))
            case Means.MIN:
                workers[floor.pool] = pool.model_copy(update={"min": max(pool.min, count)})
    hours = settings.business_hours.model_copy(update={"overnight": tuple(overnight)})
    return settings.model_copy(update={"workers": workers, "business_hours": hours})
