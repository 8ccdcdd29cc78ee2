"""A stack's strategies over one trace: the production loop in virtual time, once per strategy.

Measured: node-hours from second 0 to the end of the last day; jobs submitted in that time; a job that has not ended by
then is unfinished. Equal inputs and seed give an equal `Replay`, except for `replay_seconds`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from controllers.loop import run
from ebbtide.settings.model import StackSettings
from ebbtide.simulator.assumptions import assumptions_of, price_dates
from ebbtide.simulator.billing import billed
from ebbtide.simulator.bound import discounts_of, zero_wait
from ebbtide.simulator.constant import fleet_bill, fleet_groups, fleet_pools, fleet_runs, fleet_series
from ebbtide.simulator.days import DAY_S, open_spans
from ebbtide.simulator.edges import Tally, ports_of
from ebbtide.simulator.failures import said_of
from ebbtide.simulator.fleet import Fleet, FleetGroup, FleetPool, peak_fleet, smallest_fleet
from ebbtide.simulator.keda import keda_controlled
from ebbtide.simulator.outcome import EvictionCounts, bound_result, count_evictions, strategy_result
from ebbtide.simulator.pools import gangs_said
from ebbtide.simulator.results import Replay, StrategyResult
from ebbtide.simulator.scene import ReplayError, ReplayOptions, Scene, scene_of
from ebbtide.simulator.strategies import ClusterPlan, Strategy, cluster_plan
from ebbtide.simulator.survivors import Survivors
from ebbtide.simulator.traces import Trace
from ebbtide.simulator.workers import runs_of
from ebbtide.simulator.world import AFTER_THE_MODEL, World, WorldSetup
from ebbtide.vocabulary.controller_config import ControllerConfig

__all__ = ["Cast", "ReplayError", "ReplayOptions", "controlled", "play_plan", "play_world", "replay", "setup_of"]

Progress = Callable[[Strategy, float], None]
Control = Callable[[ControllerConfig, World, Tally], None]


def replay(
    settings: StackSettings, trace: Trace, options: ReplayOptions, progress: Progress = lambda _strategy, _share: None
) -> Replay:
    """Play `trace` on every strategy. Raises `ReplayError`, and `ebbtide.prices.NoPrice` for an unpriced node."""
    began = time.perf_counter()
    scene = scene_of(settings, trace, options)
    product = _play(scene, Strategy.FIXED_FLEXIBLE, progress)  # the fixed fleet is measured by its waits
    fleet = _fixed_fleet(scene, product.wait_p95_s)
    bound = _bound(scene)
    known = {
        Strategy.FIXED_FLEXIBLE: product,
        Strategy.FIXED_FLEET: fleet,
        Strategy.PEAK_FLEET: _peak_fleet(scene),
        Strategy.ZERO_WAIT_BOUND: bound,
    }
    results: dict[str, StrategyResult] = {}
    for strategy in Strategy:
        if strategy in options.strategies:
            result = known[strategy] if strategy in known else _play(scene, strategy, progress)
            progress(strategy, 1.0)
            saving = None if strategy is Strategy.FIXED_FLEET else 1 - result.usd / fleet.usd
            results[strategy.value] = replace(result, saving_vs_fixed_fleet=saving)
    return Replay(
        seed=options.seed,
        stack=settings.stack,
        trace=trace.name,
        start=scene.start,
        days=round(scene.end_s / DAY_S),
        max_job_s=options.max_job_s,
        assumptions=(
            *trace.assumptions,
            *assumptions_of(
                settings,
                aligned=options.start is None,
                left_out=scene.left_out,
                sweep=scene.config.sweep,
                rollouts=options.rollouts,
            ),
            *gangs_said(scene.assignment),
            *said_of(options.failures, settings),
        ),
        coverage=scene.assignment.coverage,
        jobs_unfit=scene.assignment.unfit,
        open_spans=open_spans(scene.config.hours, scene.start, scene.end_s),
        gaps=tuple((begin, min(until, scene.end_s)) for begin, until in trace.gaps if begin < scene.end_s),
        strategies=results,
        replay_seconds=time.perf_counter() - began,
        jobs=len(scene.jobs),
        rollouts=options.rollouts,
        price_dates=price_dates(settings.region),
        failures={name: value for name, value in asdict(options.failures).items() if value},
        attainable=1 - bound.usd / fleet.usd,
    )


def play_world(
    scene: Scene, strategy: Strategy, control: Control, progress: Progress, setup: WorldSetup
) -> StrategyResult:
    """One strategy under any controller: `control` gets a config, a world and a tally, and returns at the end."""
    plan = cluster_plan(scene.settings, strategy)
    return play_plan(scene, Cast(strategy=strategy, plan=plan, control=control, setup=setup), progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """A strategy with all that may be varied about it."""

    strategy: Strategy
    plan: ClusterPlan
    control: Control
    setup: WorldSetup


def play_plan(scene: Scene, cast: Cast, progress: Progress) -> StrategyResult:
    """One strategy on any plan."""
    plan, strategy = cast.plan, cast.strategy
    jobs = runs_of(scene.jobs)
    world, tally = World(plan, jobs, cast.setup), Tally()
    _report_days(world, scene, strategy, progress)
    config = scene.config if strategy.opens_budgets else replace(scene.config, budgets=())
    pods = [*(workload for workload, _ in plan.workloads), *plan.workers.values()]
    survivors = Survivors(world, config.window, {pod.name: pod.category for pod in pods})
    cast.control(config, world, tally)
    evictions = count_evictions(world.cluster.evictions, config.window, scene.start)
    series = world.recorder.series()
    node_hours = {group: seconds / 3600 for group, seconds in world.cluster.billed_seconds().items()}
    bill = billed(node_hours, series, plan.money, scene.day_ends)
    result = strategy_result(jobs, bill, series, (evictions, tally), scene.end_s)
    return replace(result, survivors=survivors.node_hours())


def controlled(config: ControllerConfig, world: World, tally: Tally) -> None:
    """The production loop."""
    run(config, ports_of(world, tally))


def setup_of(scene: Scene, strategy: Strategy) -> WorldSetup:
    return WorldSetup(
        start=scene.start,
        end_s=scene.end_s,
        seed=scene.seed,
        flags=strategy.flags,
        safe_stop=strategy.stops_safely,
        rollouts=scene.rollouts,
        accidents=scene.accidents,
    )


def _play(scene: Scene, strategy: Strategy, progress: Progress) -> StrategyResult:
    control = keda_controlled if strategy is Strategy.KEDA_DEFAULTS else controlled
    return play_world(scene, strategy, control, progress, setup_of(scene, strategy))


def _report_days(world: World, scene: Scene, strategy: Strategy, progress: Progress) -> None:
    for end in scene.day_ends:
        world.timeline.at(end, lambda: progress(strategy, world.timeline.now / scene.end_s), AFTER_THE_MODEL)


def _fixed_fleet(scene: Scene, target_p95_s: float) -> StrategyResult:
    pools, groups = _parts_of_a_fleet(scene)
    return _constant(scene, pools, smallest_fleet(pools, groups, target_p95_s=target_p95_s, end_s=scene.end_s))


def _peak_fleet(scene: Scene) -> StrategyResult:
    pools, groups = _parts_of_a_fleet(scene)
    return _constant(scene, pools, peak_fleet(pools, groups))


def _parts_of_a_fleet(scene: Scene) -> tuple[list[FleetPool], list[FleetGroup]]:
    plan = cluster_plan(scene.settings, Strategy.FIXED_FLEET)
    return fleet_pools(scene.settings, scene.jobs), fleet_groups(scene.settings, plan)


def _constant(scene: Scene, pools: Sequence[FleetPool], fleet: Fleet) -> StrategyResult:
    runs = fleet_runs(pools, fleet.workers, scene.end_s)
    series = fleet_series(fleet, runs, scene.end_s)
    bill = fleet_bill(fleet, scene.settings, series, scene.day_ends)
    return strategy_result(runs, bill, series, (EvictionCounts(), Tally()), scene.end_s)


def _bound(scene: Scene) -> StrategyResult:
    plan = cluster_plan(scene.settings, Strategy.ZERO_WAIT_BOUND)
    discounts = discounts_of(scene.settings)
    bound = zero_wait(plan, scene.jobs, discounts=discounts, end_s=scene.end_s, day_ends=scene.day_ends)
    return bound_result(bound, scene.jobs, scene.end_s)
