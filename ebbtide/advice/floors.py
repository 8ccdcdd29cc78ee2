"""Floors that a stack file can plan, learnt from the jobs of some weeks: rules, the lines they give, and their reasons.

Three means, all the stack file's own: `morning` (workers ready at each opening), `overnight` (workers from a time of
the day, every day) and a pool's `min`. A rule is a means with a quantile of the seasonal baseline: it knows weeks and
gives lines, so it can be judged on weeks that it has not seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from ebbtide.advice.baseline import Calendar, PoolDemand, by_weekday, daily_slots, middle, morning_slots
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import Overnight
from ebbtide.settings.sections.workers import Morning

LONGEST_MORNING = 4  # hours after opening that one floor may reach
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Means(StrEnum):
    MORNING = "morning"
    OVERNIGHT = "overnight"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class FloorRule:
    """How a floor follows from what was wanted."""

    means: Means
    quantile: float


RULES = tuple(FloorRule(means, quantile) for means in Means for quantile in (0.25, 0.5, 0.9))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntFloor:
    """One pool's floor. `at` is an hour of the local day, of `overnight` only; `hours` is 0 for `min`."""

    pool: str
    means: Means
    workers: int
    hours: int = 0
    at: int = 0
    wanted: Mapping[int, int] = field(hash=False)  # the baseline by weekday of the slot that the floor starts with

    @property
    def line(self) -> str:
        """As it stands in a stack file, below the pool's key or below `ebbtide:businessHours`."""
        match self.means:
            case Means.MORNING:
                return f"morning: {{ workers: {self.workers}, for: {self.hours}h }}"
            case Means.OVERNIGHT:
                at = f'"{self.at:02d}:00"'
                return f"overnight: [{{ pool: {self.pool}, at: {at}, for: {self.hours}h, workers: {self.workers} }}]"
            case Means.MIN:
                return f"min: {self.workers}"

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
    """What the rule asks of a pool after these weeks; None where nobody was wanted."""
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
    """As many as the first hour wants, for as long as the hours after it want no fewer."""
    wanted = [
        by_weekday(demand, morning_slots(calendar, weeks, hour), rule.quantile) for hour in range(LONGEST_MORNING)
    ]
    workers = middle(list(wanted[0].values()))
    if not workers:
        return None
    hours = 1
    while hours < LONGEST_MORNING and middle(list(wanted[hours].values())) >= workers:
        hours += 1
    return LearntFloor(pool=pool, means=rule.means, workers=workers, hours=hours, wanted=wanted[0])


def _overnight(
    rule: FloorRule, pool: str, demand: PoolDemand, calendar: Calendar, weeks: Sequence[int]
) -> LearntFloor | None:
    """The stretch of the day with most worker-hours wanted without a break; a whole day is `min`'s."""
    wanted = [by_weekday(demand, daily_slots(calendar, weeks, hour), rule.quantile) for hour in range(24)]
    count = [middle(list(of_hour.values())) for of_hour in wanted]
    if all(count):
        return None
    best: tuple[int, int, int] | None = None  # worker-hours, how early, hours
    for first in (hour for hour in range(24) if count[hour] and not count[hour - 1]):
        hours = next(length for length in range(1, 25) if not count[(first + length) % 24])
        workers = min(count[(first + i) % 24] for i in range(hours))
        best = max(filter(None, (best, (workers * hours, -first, hours))))
    if best is None:
        return None
    total, earliness, hours = best
    return LearntFloor(
        pool=pool, means=rule.means, workers=total // hours, hours=hours, at=-earliness, wanted=wanted[-earliness]
    )


def _min(
    rule: FloorRule, pool: str, demand: PoolDemand, calendar: Calendar, weeks: Sequence[int]
) -> LearntFloor | None:
    wanted = [by_weekday(demand, daily_slots(calendar, weeks, hour), rule.quantile) for hour in range(24)]
    least = min(wanted, key=lambda of_hour: middle(list(of_hour.values())))
    workers = middle(list(least.values()))
    return LearntFloor(pool=pool, means=rule.means, workers=workers, wanted=least) if workers else None


def with_floors(settings: StackSettings, floors: Sequence[LearntFloor]) -> StackSettings:
    """The stack with these floors beside what it plans already; none above its pool's max, none below what is there."""
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
                given = {"pool": floor.pool, "at": f"{floor.at:02d}:00", "for": lasting, "workers": count}
                overnight.append(Overnight.model_validate(given))
            case Means.MIN:
                workers[floor.pool] = pool.model_copy(update={"min": max(pool.min, count)})
    hours = settings.business_hours.model_copy(update={"overnight": tuple(overnight)})
    return settings.model_copy(update={"workers": workers, "business_hours": hours})
