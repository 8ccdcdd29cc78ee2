"""Floors on trial: learnt from all weeks of a trace but one, replayed on that one with and without, week by week.

So no floor is judged on a week it was learnt from. Each week is replayed from an empty cluster, before and after alike.
What counts is what people feel, the waiting of jobs that were submitted in the first hours after an opening, and what
it costs. A floor is advised if it cut that waiting on the held-out weeks in total and in most of them; of several for a
pool the one that cut most within the spending limit; of all pools those that cut most for their money until the limit
is spent. Those advised are then tried together, since their nodes are shared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias

from ebbtide.advice.baseline import WEEK_S, Calendar, PoolDemand, morning_slots
from ebbtide.advice.floors import RULES, FloorRule, LearntFloor, Means, floor_of, with_floors
from ebbtide.settings.model import StackSettings
from ebbtide.simulator.billing import usd_per_day
from ebbtide.simulator.results import Strategy
from ebbtide.simulator.setup import ReplayError, ReplayOptions, ReplaySetup, replay_setup_of
from ebbtide.simulator.strategies.run import controlled
from ebbtide.simulator.strategies.table import cluster_plan, world_setup_of
from ebbtide.simulator.trace.alignment import shifted_starts
from ebbtide.simulator.trace.traces import Job, Trace
from ebbtide.simulator.world.edges import Tally
from ebbtide.simulator.world.waits import percentile, rank
from ebbtide.simulator.world.workers import JobRun, runs_of
from ebbtide.simulator.world.world import World
from ebbtide.sweep.calls import Call, ended

MORNING_HOURS = 2
FEWEST_WEEKS = 2
WEEKS_PER_MONTH = 365.25 / 12 / 7
_ROUNDING = 1e-9

Progress = Callable[[int, int], None]
_Asked: TypeAlias = tuple[FloorRule, str]  # a rule for a pool
_Replayed: TypeAlias = tuple[int, tuple[LearntFloor, ...]]  # a week with floors


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """What one replayed week cost, and how long the jobs of its mornings waited."""

    usd: float
    waits_s: tuple[float, ...]

    @property
    def hours(self) -> float:
        return sum(self.waits_s) / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """A set of floors on the held-out weeks in total: before and after."""

    weeks: int
    weeks_better: int
    jobs: int  # of the mornings
    usd: tuple[float, float]
    waited_hours: tuple[float, float]
    mean_wait_s: tuple[float, float]
    p95_wait_s: tuple[float, float]

    @property
    def saved_hours(self) -> float:
        return self.waited_hours[0] - self.waited_hours[1]

    @property
    def usd_a_month(self) -> float:
        return (self.usd[1] - self.usd[0]) / self.weeks * WEEKS_PER_MONTH

    @property
    def cost_share(self) -> float:
        return self.usd[1] / self.usd[0] - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A rule for one pool: the floor it gives after all weeks, and how it did on weeks it had not seen."""

    rule: FloorRule
    floor: LearntFloor
    verdict: TrialOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorAdvice:
    stack: str
    trace: str
    weeks: int
    spend: float  # the most that the floors may add to the bill, a fraction
    trials: tuple[Trial, ...]
    advised: tuple[Trial, ...]
    total: TrialOutcome | None  # of those advised; None where none is


def floor_advice(
    settings: StackSettings,
    trace: Trace,
    options: ReplayOptions,
    spend: float,
    progress: Progress = lambda _done, _of: None,
    processes: int = 1,
) -> FloorAdvice:
    """Try every rule on every pool. Raises `ReplayError`, `ebbtide.prices.NoPrice`."""
    course = _Course(settings, trace, options)
    asked = [(rule, pool) for pool in course.demands for rule in _distinct_rules(len(course.weeks) - 1)]
    course.play([[each] for each in asked], processes, progress)
    trials = [
        Trial(rule=rule, floor=floor, verdict=course.judged([(rule, pool)]))
        for rule, pool in asked
        if (floor := course.learnt(rule, pool, course.weeks)) is not None
    ]
    advised = tuple(within(spend, trials))
    chosen = [(trial.rule, trial.floor.pool) for trial in advised]
    course.play([chosen], processes, progress)
    return FloorAdvice(
        stack=settings.stack,
        trace=trace.name,
        weeks=len(course.weeks),
        spend=spend,
        trials=tuple(trials),
        advised=advised,
        total=course.judged(chosen) if advised else None,
    )


def _distinct_rules(weeks: int) -> list[FloorRule]:
    """The rules that differ after so many weeks: of quantiles that take the same value only the middle-most stays."""
    kept: dict[tuple[Means, int], FloorRule] = {}
    for rule in sorted(RULES, key=lambda rule: abs(rule.quantile - 0.5)):
        kept.setdefault((rule.means, rank(weeks, rule.quantile)), rule)
    return [rule for rule in RULES if rule in kept.values()]


def within(spend: float, trials: Sequence[Trial]) -> Iterator[Trial]:
    """Of each pool the best, and of these the ones that cut most for their money, until the limit is spent."""
    best: dict[str, Trial] = {}
    for trial in trials:
        found = trial.verdict
        held_out = (
            found.saved_hours > 0 and found.weeks_better * 2 > found.weeks and found.cost_share <= spend + _ROUNDING
        )
        if held_out:
            other = best.get(trial.floor.pool)
            best[trial.floor.pool] = trial if other is None else max(other, trial, key=_cuts)
    left = spend
    for trial in sorted(best.values(), key=lambda trial: trial.verdict.cost_share / trial.verdict.saved_hours):
        if trial.verdict.cost_share <= left + _ROUNDING:
            left -= max(0.0, trial.verdict.cost_share)
            yield trial


def _cuts(trial: Trial) -> tuple[float, float]:
    return trial.verdict.saved_hours, -trial.verdict.cost_share


class _Course:
    """The weeks of a trace on one stack, each with its replay as it is."""

    def __init__(self, settings: StackSettings, trace: Trace, options: ReplayOptions) -> None:
        whole = replay_setup_of(settings, trace, options)
        self._settings, self._trace, self._options = settings, trace, options
        self._calendar = Calendar(hours=whole.config.hours, start=whole.start)
        self.demands: Mapping[str, PoolDemand] = {
            pool: PoolDemand([job for job in whole.jobs if job.pool == pool])
            for pool in settings.workers
            if any(job.pool == pool for job in whole.jobs)
        }
        weeks = range(int(whole.end_s // WEEK_S))
        self.weeks = [week for week in weeks if self._jobs_of(week)]
        if len(self.weeks) < FEWEST_WEEKS:
            raise ReplayError(
                f"trace {trace.name}: wanted at least {FEWEST_WEEKS} whole weeks with jobs, one to learn from and one "
                f"to judge by, found {len(self.weeks)} in {whole.end_s / 86400:.0f} days (for example itp2021-a)"
            )
        self._known: dict[_Replayed, Week] = {}

    def play(self, asked: Sequence[Sequence[_Asked]], processes: int, progress: Progress) -> None:
        """Every week that these are judged by; two rules often give the same floor, which is replayed once."""
        wanted = [(week, floors) for some in asked for week in self.weeks for floors in ((), self._floors(some, week))]
        missing = list(dict.fromkeys(each for each in wanted if each not in self._known))
        progress(0, len(missing))
        for done, each in enumerate(ended(_week, list(map(self._call, missing)), processes=processes), 1):
            self._known[missing[each.number]] = each.result()
            progress(done, len(missing))

    def learnt(self, rule: FloorRule, pool: str, weeks: Sequence[int]) -> LearntFloor | None:
        return floor_of(rule, pool, self.demands[pool], self._calendar, weeks)

    def judged(self, asked: Sequence[_Asked]) -> TrialOutcome:
        """Each week, played before, with what the others teach."""
        return _verdict([(self._known[week, ()], self._known[week, self._floors(asked, week)]) for week in self.weeks])

    def _floors(self, asked: Sequence[_Asked], week: int) -> tuple[LearntFloor, ...]:
        others = [other for other in self.weeks if other != week]
        floors = (self.learnt(rule, pool, others) for rule, pool in asked)
        return tuple(replace(floor, wanted={}) for floor in floors if floor is not None)

    def _jobs_of(self, week: int) -> list[Job]:
        begin = week * WEEK_S
        return [job for job in self._trace.jobs if begin <= job.submitted_at < begin + WEEK_S]

    def _call(self, replayed: _Replayed) -> Call:
        week, floors = replayed
        begin = week * WEEK_S
        jobs = tuple(replace(job, submitted_at=job.submitted_at - begin) for job in self._jobs_of(week))
        (start,) = shifted_starts(self._calendar.start, [timedelta(seconds=begin)])
        options = replace(self._options, days=None, start=start.replace(tzinfo=None))  # which the customer's is again
        return with_floors(self._settings, floors), Trace(self._trace.name, jobs), options


def _week(settings: StackSettings, trace: Trace, options: ReplayOptions) -> Week:
    setup = replay_setup_of(settings, trace, options)
    strategy = Strategy.FIXED_FLEXIBLE
    plan = cluster_plan(setup.settings, strategy)
    jobs = runs_of(setup.jobs)
    world = World(plan, jobs, world_setup_of(setup, strategy))
    controlled(setup.config, world, Tally())
    return Week(
        usd=sum(usd_per_day(world.recorder.series(), plan.money.assumed, setup.day_ends)),
        waits_s=tuple(_morning_waits(jobs, setup)),
    )


def _morning_waits(jobs: Sequence[JobRun], setup: ReplaySetup) -> Iterator[float]:
    calendar = Calendar(hours=setup.config.hours, start=setup.start)
    openings = [slot.begins for slot in morning_slots(calendar, [0], 0)]
    for job in jobs:
        if any(0 <= job.submitted_at - opening < MORNING_HOURS * 3600 for opening in openings):
            yield (setup.end_s if job.started_at is None else job.started_at) - job.submitted_at


def _verdict(weeks: Sequence[tuple[Week, Week]]) -> TrialOutcome:
    sides = [[pair[side] for pair in weeks] for side in (0, 1)]
    waits = [[wait for week in side for wait in week.waits_s] for side in sides]
    before, after = sides
    return TrialOutcome(
        weeks=len(weeks),
        weeks_better=sum(new.hours < old.hours for old, new in weeks),
        jobs=len(waits[0]),
        usd=(sum(week.usd for week in before), sum(week.usd for week in after)),
        waited_hours=(sum(waits[0]) / 3600, sum(waits[1]) / 3600),
        mean_wait_s=(_mean(waits[0]), _mean(waits[1])),
        p95_wait_s=(percentile(waits[0], 0.95), percentile(waits[1], 0.95)),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
