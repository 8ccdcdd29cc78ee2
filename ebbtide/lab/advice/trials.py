"""Cross-validate floors: learn each from all weeks of a trace but one, and replay that week with and without it.

So no floor is judged on a week it was learnt from. Each week is replayed from an empty cluster, with and without the
floor. The measures are the cost, and the waiting that people notice: of jobs submitted in the first hours after an
opening. A floor is advised if it cut that waiting on the held-out weeks in total and in most of them. Of several floors
for a pool the one that cut most within the spending limit is taken, then the pools that cut most per dollar until the
limit is spent. Of these, floors are dropped if their mean cut over five seeds does not exceed the range of the cuts.
The advised floors are then replayed together, since they share nodes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias

from ebbtide.lab.advice.floors import (
    RULES,
    WEEK_S,
    Calendar,
    FloorRule,
    LearntFloor,
    Means,
    PoolDemand,
    floor_of,
    morning_slots,
    with_floors,
)
from ebbtide.lab.simulator.billing import total, usd_per_day
from ebbtide.lab.simulator.results import Strategy, UnpricedGroup
from ebbtide.lab.simulator.setup import ReplayError, ReplayOptions, ReplaySetup, replay_setup_of, with_known_nodes
from ebbtide.lab.simulator.strategies.karpenter import controlled_with_windows
from ebbtide.lab.simulator.strategies.plans import unpriced_groups
from ebbtide.lab.simulator.strategies.table import cluster_plan, world_setup_of
from ebbtide.lab.simulator.trace.alignment import shifted_starts
from ebbtide.lab.simulator.trace.traces import Job, Trace
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.waits import percentile, rank
from ebbtide.lab.simulator.world.workers import JobRun, runs_of
from ebbtide.lab.simulator.world.world import World
from ebbtide.lab.sweep.calls import Call, ended
from ebbtide.settings.model import StackSettings

MORNING_HOURS = 2
FEWEST_WEEKS = 2
SEEDS = 5
WEEKS_PER_MONTH = 365.25 / 12 / 7
_ROUNDING = 1e-9

Progress = Callable[[int, int], None]
_PoolRule: TypeAlias = tuple[FloorRule, str]
_FlooredWeek: TypeAlias = tuple[int, tuple[LearntFloor, ...], int]  # the last is added to the seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """Cost of one replayed week, and waits of the jobs of its mornings."""

    usd: float | None  # None: a node has no price
    vcpu_hours: float
    waits_s: tuple[float, ...]

    @property
    def hours(self) -> float:
        return sum(self.waits_s) / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """Totals over the held-out weeks, without and with a set of floors."""

    weeks: int
    weeks_better: int
    jobs: int  # of the mornings
    usd: tuple[float, float] | None  # None: a node has no price
    vcpu_hours: tuple[float, float]
    waited_hours: tuple[float, float]
    mean_wait_s: tuple[float, float]
    p95_wait_s: tuple[float, float]

    @property
    def saved_hours(self) -> float:
        return self.waited_hours[0] - self.waited_hours[1]

    @property
    def usd_a_month(self) -> float | None:
        return None if self.usd is None else (self.usd[1] - self.usd[0]) / self.weeks * WEEKS_PER_MONTH

    @property
    def vcpu_hours_a_month(self) -> float:
        return (self.vcpu_hours[1] - self.vcpu_hours[0]) / self.weeks * WEEKS_PER_MONTH

    @property
    def cost_share(self) -> float:
        """Return the added share of dollars, or of vCPU-hours if a node has no price."""
        before, after = self.vcpu_hours if self.usd is None else self.usd
        return after / before - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A rule for one pool: its floor after all weeks, and its result on held-out weeks."""

    rule: FloorRule
    floor: LearntFloor
    verdict: TrialOutcome

    @property
    def pool_rule(self) -> _PoolRule:
        return self.rule, self.floor.pool


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorAdvice:
    stack: str
    trace: str
    weeks: int
    spend: float  # the most that the floors may add to the bill, a fraction
    trials: tuple[Trial, ...]
    advised: tuple[Trial, ...]
    total: TrialOutcome | None  # of the advised floors; None if none is advised
    unpriced: tuple[UnpricedGroup, ...] = ()

    @property
    def priced(self) -> bool:
        return all(trial.verdict.usd is not None for trial in self.trials)


def floor_advice(
    settings: StackSettings,
    trace: Trace,
    options: ReplayOptions,
    spend: float,
    progress: Progress = lambda _done, _of: None,
    processes: int = 1,
) -> FloorAdvice:
    """Try every rule on every pool. Raises `ReplayError`."""
    course = _Course(settings, trace, options)
    candidates = [(rule, pool) for pool in course.demands for rule in _distinct_rules(len(course.weeks) - 1)]
    course.play([[candidate] for candidate in candidates], processes, progress)
    trials = [
        Trial(rule=rule, floor=floor, verdict=course.judged([(rule, pool)]))
        for rule, pool in candidates
        if (floor := course.learnt(rule, pool, course.weeks)) is not None
    ]
    within_limit = tuple(within(spend, trials))
    course.play([[trial.pool_rule] for trial in within_limit], processes, progress, seeds=SEEDS)
    advised = tuple(trial for trial in within_limit if course.exceeds_spread(trial.pool_rule))
    chosen = [trial.pool_rule for trial in advised]
    course.play([chosen], processes, progress)
    return FloorAdvice(
        stack=settings.stack,
        trace=trace.name,
        weeks=len(course.weeks),
        spend=spend,
        trials=tuple(trials),
        advised=advised,
        total=course.judged(chosen) if advised else None,
        unpriced=unpriced_groups(with_known_nodes(settings)),
    )


def _distinct_rules(weeks: int) -> list[FloorRule]:
    """Return the rules that differ after `weeks` weeks: of quantiles with equal values, the one nearest the median."""
    distinct: dict[tuple[Means, int], FloorRule] = {}
    for rule in sorted(RULES, key=lambda rule: abs(rule.quantile - 0.5)):
        distinct.setdefault((rule.means, rank(weeks, rule.quantile)), rule)
    return [rule for rule in RULES if rule in distinct.values()]


def within(spend: float, trials: Sequence[Trial]) -> Iterator[Trial]:
    """Yield each pool's best floor, in the order of waiting cut per dollar, until the limit is spent."""
    best: dict[str, Trial] = {}
    for trial in trials:
        outcome = trial.verdict
        pays = outcome.saved_hours > 0 and outcome.weeks_better * 2 > outcome.weeks
        if pays and outcome.cost_share <= spend + _ROUNDING:
            previous = best.get(trial.floor.pool)
            best[trial.floor.pool] = trial if previous is None else max(previous, trial, key=_cuts)
    remaining = spend
    for trial in sorted(best.values(), key=lambda trial: trial.verdict.cost_share / trial.verdict.saved_hours):
        if trial.verdict.cost_share <= remaining + _ROUNDING:
            remaining -= max(0.0, trial.verdict.cost_share)
            yield trial


def _cuts(trial: Trial) -> tuple[float, float]:
    return trial.verdict.saved_hours, -trial.verdict.cost_share


class _Course:
    """The weeks of a trace on one stack, with the replays of each."""

    def __init__(self, settings: StackSettings, trace: Trace, options: ReplayOptions) -> None:
        setup = replay_setup_of(settings, trace, options)
        self._settings, self._trace, self._options = settings, trace, options
        self._calendar = Calendar(hours=setup.config.hours, start=setup.start)
        self.demands: Mapping[str, PoolDemand] = {
            pool: PoolDemand([job for job in setup.jobs if job.pool == pool])
            for pool in settings.workers
            if any(job.pool == pool for job in setup.jobs)
        }
        weeks = range(int(setup.end_s // WEEK_S))
        with_jobs = {int(job.submitted_at // WEEK_S) for job in setup.jobs}
        self.weeks = [week for week in weeks if week in with_jobs]
        if len(self.weeks) < FEWEST_WEEKS:
            raise ReplayError(
                f"trace {trace.name}: wanted at least {FEWEST_WEEKS} whole weeks with jobs, one to learn from and one "
                f"to judge by, found {len(self.weeks)} in {setup.end_s / 86400:.0f} days (for example itp2021-a)"
            )
        self._replays: dict[_FlooredWeek, Week] = {}

    def play(
        self, rule_sets: Sequence[Sequence[_PoolRule]], processes: int, progress: Progress, seeds: int = 1
    ) -> None:
        """Replay every week with and without these rules; a floor that several rules learn is replayed once."""
        replays = [
            (week, floors, seed)
            for rules in rule_sets
            for week in self.weeks
            for floors in ((), self._floors(rules, week))
            for seed in range(seeds)
        ]
        missing = list(dict.fromkeys(replay for replay in replays if replay not in self._replays))
        progress(0, len(missing))
        for done, call in enumerate(ended(_week, list(map(self._call, missing)), processes=processes), 1):
            self._replays[missing[call.number]] = call.result()
            progress(done, len(missing))

    def learnt(self, rule: FloorRule, pool: str, weeks: Sequence[int]) -> LearntFloor | None:
        floor = floor_of(rule, pool, self.demands[pool], self._calendar, weeks)
        return floor and replace(floor, workers=min(floor.workers, self._settings.workers[pool].max))

    def judged(self, rules: Sequence[_PoolRule], seed: int = 0) -> TrialOutcome:
        """Compare each week, already replayed, without and with the floors that are learnt from the other weeks."""
        played = self._replays
        return _verdict(
            [(played[week, (), seed], played[week, self._floors(rules, week), seed]) for week in self.weeks]
        )

    def exceeds_spread(self, rule: _PoolRule) -> bool:
        """True if the mean gain over the seeds, already replayed, exceeds the range of their gains."""
        gains = [self.judged([rule], seed).saved_hours for seed in range(SEEDS)]
        return _mean(gains) > max(gains) - min(gains)

    def _floors(self, rules: Sequence[_PoolRule], week: int) -> tuple[LearntFloor, ...]:
        others = [other for other in self.weeks if other != week]
        floors = (self.learnt(rule, pool, others) for rule, pool in rules)
        return tuple(replace(floor, wanted={}) for floor in floors if floor is not None)

    def _jobs_of(self, week: int) -> list[Job]:
        begin = week * WEEK_S
        return [job for job in self._trace.jobs if begin <= job.submitted_at < begin + WEEK_S]

    def _call(self, floored_week: _FlooredWeek) -> Call:
        week, floors, seed = floored_week
        begin = week * WEEK_S
        jobs = tuple(replace(job, submitted_at=job.submitted_at - begin) for job in self._jobs_of(week))
        (start,) = shifted_starts(self._calendar.start, [timedelta(seconds=begin)])
        options = replace(
            self._options,
            days=None,
            start=start.replace(tzinfo=None),  # the replay adds the customer's zone again
            seed=self._options.seed + seed,
        )
        part = Trace(self._trace.name, jobs, other_queues=self._trace.queues)
        return with_floors(self._settings, floors), part, options


def _week(settings: StackSettings, trace: Trace, options: ReplayOptions) -> Week:
    setup = replay_setup_of(settings, trace, options)
    strategy = Strategy.FIXED_FLEXIBLE
    plan = cluster_plan(setup.settings, strategy)
    jobs = runs_of(setup.jobs)
    world = World(plan, jobs, world_setup_of(setup, strategy))
    controlled_with_windows(setup.config, world, ActionCounts(), plan, setup.settings)
    billed = {group: seconds / 3600 for group, seconds in world.cluster.billed_seconds().items()}
    return Week(
        usd=total(usd_per_day(world.recorder.series(), plan.money.assumed, setup.day_ends)),
        vcpu_hours=sum(hours * plan.money.vcpus[group] for group, hours in billed.items()),
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
        usd=None if any(week.usd is None for week in (*before, *after)) else (_usd(before), _usd(after)),
        vcpu_hours=(sum(week.vcpu_hours for week in before), sum(week.vcpu_hours for week in after)),
        waited_hours=(sum(waits[0]) / 3600, sum(waits[1]) / 3600),
        mean_wait_s=(_mean(waits[0]), _mean(waits[1])),
        p95_wait_s=(percentile(waits[0], 0.95), percentile(waits[1], 0.95)),
    )


def _usd(weeks: Sequence[Week]) -> float:
    return sum(week.usd or 0.0 for week in weeks)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
