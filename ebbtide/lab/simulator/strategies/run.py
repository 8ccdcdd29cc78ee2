"""One strategy of a replay, and the owner of replicas that plays it in a world.

An *owner* sets the number of workers: the production loop, KEDA, a constant fleet, or the bound's arithmetic. It
receives a `StrategyRun` and returns the figures.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from controllers.scaler.loop import run as production_loop
from ebbtide.lab.simulator.billing import billed
from ebbtide.lab.simulator.outcome import EmptyNodes, Survivors, count_evictions, strategy_result
from ebbtide.lab.simulator.results import Strategy, StrategyResult
from ebbtide.lab.simulator.setup import ReplaySetup
from ebbtide.lab.simulator.world.edges import ActionCounts, ports_of
from ebbtide.lab.simulator.world.workers import runs_of
from ebbtide.lab.simulator.world.world import AFTER_THE_MODEL, ClusterPlan, World, WorldSetup
from ebbtide.settings.capacity.node_sets import constant_groups
from ebbtide.vocabulary.controller_config import ControllerConfig

Progress: TypeAlias = Callable[[Strategy, float], None]  # the share of the replay that is done
Control: TypeAlias = Callable[[ControllerConfig, World, ActionCounts], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRun:
    """The inputs of one strategy."""

    strategy: Strategy
    setup: ReplaySetup  # on the stack of the strategy
    plan: ClusterPlan
    config: ControllerConfig  # with the budgets that the strategy opens
    world: WorldSetup
    result_of: Callable[[Strategy], StrategyResult]  # of the same replay
    progress: Progress


Owner: TypeAlias = Callable[[StrategyRun], StrategyResult]


def controlled(config: ControllerConfig, world: World, tally: ActionCounts) -> None:
    """Run the production loop to the end of the world."""
    production_loop(config, ports_of(world, tally))


def production(run: StrategyRun) -> StrategyResult:
    """The scaler of Ebbtide owns the replicas."""
    return play(run, controlled)


def play(run: StrategyRun, control: Control) -> StrategyResult:
    """Play a strategy in a world. `control` returns at the end of the replay."""
    setup, plan, config = run.setup, run.plan, run.config
    jobs = runs_of(setup.jobs)
    world, tally = World(plan, jobs, run.world), ActionCounts()
    _report_days(run, world)
    # Workers with checkpoints are moved like other pods: only workers without them can keep a node for good.
    categories = {pod.name: pod.category for pod in plan.pods if pod.name not in plan.saves}
    survivors = Survivors(world, config.window, categories, setup.settings.adopted)
    empty = EmptyNodes(world, constant_groups(setup.settings))
    control(config, world, tally)
    world.settle()
    evictions = count_evictions(world.cluster.evictions, config.window, setup.start)
    series = world.recorder.series()
    node_hours = {group: seconds / 3600 for group, seconds in world.cluster.billed_seconds().items()}
    if plan.node_pools:  # of the many types only those that ran
        used = {group.name for group in plan.groups}.union(name for name, hours in node_hours.items() if hours)
        node_hours = {name: hours for name, hours in node_hours.items() if name in used}
        series = replace(series, nodes={name: nodes for name, nodes in series.nodes.items() if name in used})
    bill = billed(node_hours, series, plan.money, setup.day_ends)
    result = strategy_result(jobs, bill, series, (evictions, tally), setup.end_s)
    return replace(
        result, survivors=survivors.node_hours(), empty_nodes=empty.mean(), ray=world.ray.results(setup.end_s)
    )


def _report_days(run: StrategyRun, world: World) -> None:
    def report() -> None:
        run.progress(run.strategy, world.timeline.now / run.setup.end_s)

    for end in run.setup.day_ends:
        world.timeline.at(end, report, AFTER_THE_MODEL)
