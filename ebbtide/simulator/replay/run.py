"""A stack's strategies over one trace: the production loop in virtual time, once per strategy.

Measured: node-hours from second 0 to the end of the last day; jobs submitted in that time; a job that has not ended by
then is unfinished. Equal inputs and seed give an equal `Replay`, except for `replay_seconds`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from controllers.scaler.loop import run
from ebbtide.settings.model import StackSettings
from ebbtide.simulator.billing import billed, open_spans
from ebbtide.simulator.replay.assumptions import assumptions_of, price_dates
from ebbtide.simulator.replay.outcome import EvictionCounts, bound_result, count_evictions, strategy_result
from ebbtide.simulator.replay.setup import ReplayOptions, ReplaySetup, replay_config, replay_setup_of
from ebbtide.simulator.replay.survivors import Survivors
from ebbtide.simulator.results import Replay, StrategyResult
from ebbtide.simulator.strategies.bound import discounts_of, zero_wait
from ebbtide.simulator.strategies.constant import fleet_bill, fleet_groups, fleet_pools, fleet_runs, fleet_series
from ebbtide.simulator.strategies.fleet import (
    Beside,
    Fleet,
    FleetPool,
    late_allowed,
    least_late,
    most_at_once,
    peak_fleet,
    smallest_fleet,
)
from ebbtide.simulator.strategies.keda import keda_controlled
from ebbtide.simulator.strategies.on_spot import moved_to_spot, rated, spot_assumptions
from ebbtide.simulator.strategies.plans import Strategy, cluster_plan
from ebbtide.simulator.strategies.ray_fleet import RayFleet, allowed_late, late_of, peak, smallest
from ebbtide.simulator.trace.traces import Trace
from ebbtide.simulator.world.edges import Tally, ports_of
from ebbtide.simulator.world.failures import accidents_of, failure_assumptions
from ebbtide.simulator.world.pools import PooledJob, gang_assumptions
from ebbtide.simulator.world.ray.assumptions import ray_assumptions
from ebbtide.simulator.world.ray.work import RayPlan
from ebbtide.simulator.world.saves import saves_of
from ebbtide.simulator.world.schedules import job_assumptions
from ebbtide.simulator.world.workers import runs_of
from ebbtide.simulator.world.world import AFTER_THE_MODEL, ClusterPlan, World, WorldSetup
from ebbtide.units.durations import DAY_S
from ebbtide.vocabulary.controller_config import ControllerConfig

__all__ = ["StrategyRun", "controlled", "play_run", "play_world", "replay", "world_setup_of"]

Progress = Callable[[Strategy, float], None]
Control = Callable[[ControllerConfig, World, Tally], None]


def replay(
    settings: StackSettings, trace: Trace, options: ReplayOptions, progress: Progress = lambda _strategy, _share: None
) -> Replay:
    """Play `trace` on every strategy. Raises `ReplayError`, and `ebbtide.prices.NoPrice` for an unpriced node."""
    began = time.perf_counter()
    if Strategy.FIXED_FLEXIBLE_SPOT in options.strategies:
        options = replace(options, failures=rated(options.failures))
    setup = replay_setup_of(settings, trace, options)
    product = _play(setup, Strategy.FIXED_FLEXIBLE, progress)  # the fixed fleet is measured by its waits
    fleet = _fixed_fleet(setup, product.wait_p95_s)
    bound = _bound(setup)
    known = {
        Strategy.FIXED_FLEXIBLE: product,
        Strategy.FIXED_FLEET: fleet,
        Strategy.PEAK_FLEET: _peak_fleet(setup),
        Strategy.ZERO_WAIT_BOUND: bound,
    }
    results: dict[str, StrategyResult] = {}
    for strategy in Strategy:
        if strategy in options.strategies:
            played = _on_spot(setup, options) if strategy is Strategy.FIXED_FLEXIBLE_SPOT else setup
            result = known[strategy] if strategy in known else _play(played, strategy, progress)
            progress(strategy, 1.0)
            saving = None if strategy is Strategy.FIXED_FLEET else 1 - result.usd / fleet.usd
            results[strategy.value] = replace(result, saving_vs_fixed_fleet=saving)
    return Replay(
        seed=options.seed,
        stack=settings.stack,
        trace=trace.name,
        start=setup.start,
        days=round(setup.end_s / DAY_S),
        max_job_s=options.max_job_s,
        assumptions=(
            *trace.assumptions,
            *assumptions_of(
                settings,
                aligned=options.start is None,
                left_out=setup.left_out,
                resync=setup.config.resync,
                rollouts=options.rollouts,
                saves=saves_of(_saving(settings, options).workers),
            ),
            *gang_assumptions(setup.assignment),
            *job_assumptions(settings),
            *ray_assumptions(settings.ray, [job.ray for job in setup.jobs if job.ray is not None]),
            *_of_spot(settings, options),
            *failure_assumptions(options.failures, _saving(settings, options)),
        ),
        coverage=setup.assignment.coverage,
        jobs_unfit=setup.assignment.unfit,
        open_spans=open_spans(setup.config.hours, setup.start, setup.end_s),
        gaps=tuple((begin, min(until, setup.end_s)) for begin, until in trace.gaps if begin < setup.end_s),
        strategies=results,
        replay_seconds=time.perf_counter() - began,
        jobs=len(setup.jobs),
        rollouts=options.rollouts,
        price_dates=price_dates(settings.region),
        failures={name: value for name, value in asdict(options.failures).items() if value},
        attainable=1 - bound.usd / fleet.usd,
    )


def play_world(
    setup: ReplaySetup, strategy: Strategy, control: Control, progress: Progress, world: WorldSetup
) -> StrategyResult:
    """One strategy under any controller: `control` gets a config, a world and a tally, and returns at the end."""
    plan = cluster_plan(setup.settings, strategy)
    return play_run(setup, StrategyRun(strategy=strategy, plan=plan, control=control, world=world), progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRun:
    """A strategy with all that may be varied about it."""

    strategy: Strategy
    plan: ClusterPlan
    control: Control
    world: WorldSetup


def play_run(setup: ReplaySetup, run: StrategyRun, progress: Progress) -> StrategyResult:
    """One strategy on any plan."""
    plan, strategy = run.plan, run.strategy
    jobs = runs_of(setup.jobs)
    world, tally = World(plan, jobs, run.world), Tally()
    _report_days(world, setup, strategy, progress)
    config = setup.config if strategy.opens_budgets else replace(setup.config, budgets=())
    # Workers that may pause are moved as others are; only the rest are said never to be.
    categories = {pod.name: pod.category for pod in plan.pods if pod.name not in plan.saves}
    survivors = Survivors(world, config.window, categories)
    run.control(config, world, tally)
    world.settle()
    evictions = count_evictions(world.cluster.evictions, config.window, setup.start)
    series = world.recorder.series()
    node_hours = {group: seconds / 3600 for group, seconds in world.cluster.billed_seconds().items()}
    bill = billed(node_hours, series, plan.money, setup.day_ends)
    result = strategy_result(jobs, bill, series, (evictions, tally), setup.end_s)
    return replace(result, survivors=survivors.node_hours(), ray=world.ray.results(setup.end_s))


def controlled(config: ControllerConfig, world: World, tally: Tally) -> None:
    """The production loop."""
    run(config, ports_of(world, tally))


def world_setup_of(setup: ReplaySetup, strategy: Strategy) -> WorldSetup:
    return WorldSetup(
        start=setup.start,
        end_s=setup.end_s,
        seed=setup.seed,
        flags=strategy.flags,
        safe_stop=strategy.stops_safely,
        rollouts=setup.rollouts,
        jobs=setup.runs,
        accidents=setup.accidents,
        open_spans=open_spans(setup.config.hours, setup.start, setup.end_s),
    )


def _play(setup: ReplaySetup, strategy: Strategy, progress: Progress) -> StrategyResult:
    control = keda_controlled if strategy is Strategy.KEDA_DEFAULTS else controlled
    return play_world(setup, strategy, control, progress, world_setup_of(setup, strategy))


def _on_spot(setup: ReplaySetup, options: ReplayOptions) -> ReplaySetup:
    """The same jobs, on another stack."""
    settings = moved_to_spot(setup.settings)
    return replace(
        setup,
        settings=settings,
        config=replay_config(settings, options.start),
        accidents=accidents_of(options.failures, settings),
    )


def _saving(settings: StackSettings, options: ReplayOptions) -> StackSettings:
    """The stack with all the checkpoints that any strategy of the replay has."""
    return moved_to_spot(settings) if Strategy.FIXED_FLEXIBLE_SPOT in options.strategies else settings


def _of_spot(settings: StackSettings, options: ReplayOptions) -> Iterator[str]:
    if Strategy.FIXED_FLEXIBLE_SPOT in options.strategies:
        yield from spot_assumptions(settings)


def _report_days(world: World, setup: ReplaySetup, strategy: Strategy, progress: Progress) -> None:
    for end in setup.day_ends:
        world.timeline.at(end, lambda: progress(strategy, world.timeline.now / setup.end_s), AFTER_THE_MODEL)


def _fixed_fleet(setup: ReplaySetup, target_p95_s: float) -> StrategyResult:
    plan = cluster_plan(setup.settings, Strategy.FIXED_FLEET)
    pools = fleet_pools(setup.settings, setup.jobs)
    ray, beside = _smallest_ray(setup, plan, pools, target_p95_s)
    groups = fleet_groups(setup.settings, plan, setup.busy, ray)
    fleet = smallest_fleet(pools, groups, target_p95_s=target_p95_s, end_s=setup.end_s, beside=beside)
    return _constant(setup, pools, fleet, ray)


def _smallest_ray(
    setup: ReplaySetup, plan: ClusterPlan, pools: Sequence[FleetPool], target_s: float
) -> tuple[list[RayFleet], Beside]:
    """The Ray clusters come first, then the exact search for all else with the jobs that may still be late."""
    needed, allowed = least_late(pools, target_s, setup.end_s), late_allowed(len(setup.jobs))
    fleets: list[RayFleet] = []
    for cluster in plan.ray:
        jobs = _driven(setup, cluster)
        most = {pool: setup.settings.workers[pool].max for pool in cluster.drivers}
        late = allowed_late(len(jobs), len(setup.jobs), allowed, needed)
        fleets.append(smallest(cluster, most, jobs, late_after_s=target_s, late=late, end_s=setup.end_s))
    late = sum(late_of(fleet, target_s, setup.end_s) for fleet in fleets)
    # In a world the same jobs may meet in another order and be late less often: the other pools do not pay for that.
    return fleets, Beside(sum(len(fleet.runs) for fleet in fleets), min(late, allowed - needed))


def _peak_fleet(setup: ReplaySetup) -> StrategyResult:
    plan = cluster_plan(setup.settings, Strategy.PEAK_FLEET)
    pools = fleet_pools(setup.settings, setup.jobs)
    ray = [peak(cluster, _driven(setup, cluster), most_at_once, setup.end_s) for cluster in plan.ray]
    return _constant(setup, pools, peak_fleet(pools, fleet_groups(setup.settings, plan, setup.busy, ray)), ray)


def _driven(setup: ReplaySetup, cluster: RayPlan) -> list[PooledJob]:
    return [job for job in setup.jobs if job.pool in cluster.drivers]


def _constant(setup: ReplaySetup, pools: Sequence[FleetPool], fleet: Fleet, ray: Sequence[RayFleet]) -> StrategyResult:
    runs = [*fleet_runs(pools, fleet.workers, setup.end_s), *(run for each in ray for run in each.runs)]
    series = fleet_series(fleet, runs, setup.end_s)
    bill = fleet_bill(fleet, setup.settings, series, setup.day_ends)
    result = strategy_result(runs, bill, series, (EvictionCounts(), Tally()), setup.end_s)
    return replace(result, ray={each.plan.name: each.result for each in ray})


def _bound(setup: ReplaySetup) -> StrategyResult:
    plan = cluster_plan(setup.settings, Strategy.ZERO_WAIT_BOUND)
    discounts = discounts_of(setup.settings)
    bound = zero_wait(
        plan, setup.jobs, busy=setup.busy, discounts=discounts, end_s=setup.end_s, day_ends=setup.day_ends
    )
    return bound_result(bound, setup.jobs, setup.end_s)
