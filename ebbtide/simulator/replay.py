"""A stack's strategies over one trace: the production loop in virtual time, once per strategy.

Measured: node-hours from second 0 to the end of the last day; jobs submitted in that time; a job that has not ended by
then is unfinished. Equal inputs and seed give an equal `Replay`, except for `replay_seconds`.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from controllers.loop import run
from ebbtide.settings.model import StackSettings
from ebbtide.simulator.assumptions import assumptions_of
from ebbtide.simulator.billing import Bill, usd_per_day
from ebbtide.simulator.constant import fleet_bill, fleet_groups, fleet_pools, fleet_runs, fleet_series
from ebbtide.simulator.days import DAY_S, open_spans
from ebbtide.simulator.edges import Tally, ports_of
from ebbtide.simulator.fleet import smallest_fleet
from ebbtide.simulator.outcome import EvictionCounts, count_evictions, strategy_result
from ebbtide.simulator.results import Replay, StrategyResult
from ebbtide.simulator.scene import SWEEP, ReplayError, ReplayOptions, Scene, scene_of
from ebbtide.simulator.strategies import FLAGS, Strategy, cluster_plan
from ebbtide.simulator.traces import Trace
from ebbtide.simulator.workers import JobRun
from ebbtide.simulator.world import AFTER_THE_MODEL, World, WorldSetup
from ebbtide.vocabulary.controller_config import ControllerConfig

__all__ = ["ReplayError", "ReplayOptions", "controlled", "play_world", "replay"]

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
    progress(Strategy.FIXED_FLEET, 1.0)
    known = {Strategy.FIXED_FLEXIBLE: product, Strategy.FIXED_FLEET: fleet}
    results: dict[str, StrategyResult] = {}
    for strategy in Strategy:
        if strategy in options.strategies:
            result = known[strategy] if strategy in known else _play(scene, strategy, progress)
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
                sweep=SWEEP,
                rollouts=options.rollouts,
            ),
        ),
        coverage=scene.assignment.coverage,
        jobs_unfit=scene.assignment.unfit,
        open_spans=open_spans(scene.config.hours, scene.start, scene.end_s),
        strategies=results,
        replay_seconds=time.perf_counter() - began,
        jobs=len(scene.jobs),
        rollouts=options.rollouts,
    )


def play_world(
    scene: Scene, strategy: Strategy, control: Control, progress: Progress, setup: WorldSetup
) -> StrategyResult:
    """One strategy under any controller: `control` gets a config, a world and a tally, and returns at the end."""
    plan = cluster_plan(scene.settings, strategy)
    jobs = [JobRun(job.submitted_at, job.duration_s, job.pool) for job in scene.jobs]
    world, tally = World(plan, jobs, setup), Tally()
    _report_days(world, scene, strategy, progress)
    config = scene.config if strategy.opens_budgets else replace(scene.config, budgets=())
    control(config, world, tally)
    evictions = count_evictions(world.cluster.evictions, config.window, scene.start)
    series = world.recorder.series()
    bill = Bill(
        node_hours={group: seconds / 3600 for group, seconds in world.cluster.billed_seconds().items()},
        usd_per_day=usd_per_day(series, plan.rates, scene.day_ends),
    )
    return strategy_result(jobs, bill, series, (evictions, tally), scene.end_s)


def controlled(config: ControllerConfig, world: World, tally: Tally) -> None:
    """The production loop."""
    run(config, ports_of(world, tally))


def _play(scene: Scene, strategy: Strategy, progress: Progress) -> StrategyResult:
    setup = WorldSetup(start=scene.start, end_s=scene.end_s, seed=scene.seed, flags=FLAGS, rollouts=scene.rollouts)
    return play_world(scene, strategy, controlled, progress, setup)


def _report_days(world: World, scene: Scene, strategy: Strategy, progress: Progress) -> None:
    for end in scene.day_ends:
        world.timeline.at(end, lambda: progress(strategy, world.timeline.now / scene.end_s), AFTER_THE_MODEL)


def _fixed_fleet(scene: Scene, target_p95_s: float) -> StrategyResult:
    plan = cluster_plan(scene.settings, Strategy.FIXED_FLEET)
    pools = fleet_pools(scene.settings, scene.jobs)
    groups = fleet_groups(scene.settings, plan)
    fleet = smallest_fleet(pools, groups, target_p95_s=target_p95_s, end_s=scene.end_s)
    runs = fleet_runs(pools, fleet.workers, scene.end_s)
    series = fleet_series(fleet, runs, scene.end_s)
    bill = fleet_bill(fleet, scene.settings, series, scene.day_ends)
    return strategy_result(runs, bill, series, (EvictionCounts(), Tally()), scene.end_s)
