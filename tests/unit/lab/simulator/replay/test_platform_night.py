"""A night of the example with adopted pods, before and after its rules: nodes and dollars.

Before, the pods are as their charts create them: any node, no budget but those of the charts. Pods start one after the
other in the afternoon, among jobs, since pods that start together share nodes at once.
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

import pytest

from ebbtide.lab.simulator.cluster.model import WorkloadModel
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.run import controlled
from ebbtide.lab.simulator.strategies.table import StrategyResults
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.workers import runs_of
from ebbtide.lab.simulator.world.world import World
from ebbtide.settings import StackSettings, load_stack
from tests.builders.simulator import HOUR, a_job, a_trace
from tests.paths import ROOT

FOLDER = ROOT / "examples" / "whole-platform"
NOON = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - a Monday, local time of the customer
MIDNIGHT = 12 * HOUR
LENGTHS = [1200.0 + i * 7919 % 5400 for i in range(43)]
JOBS = a_trace(
    [a_job(0.0, length, cpu=6, memory=24) for length in LENGTHS[:14]]
    + [a_job(300.0 + 545.0 * i, length, cpu=6, memory=24) for i, length in enumerate(LENGTHS)]
)
OF_CHARTS = {"database", "hub", "hub-proxy"}
"""Their charts and operators have budgets that allow nothing, or no second pod."""


@dataclass(frozen=True)
class Night:
    flexible_nodes: int  # at midnight
    usd: float  # of all nodes at midnight, an hour


def unadopted(pods: WorkloadModel, settings: StackSettings) -> WorkloadModel:
    """The scheduler may choose any node without a taint; nothing moves a bare pod."""
    stays = pods.name in OF_CHARTS or settings.adopted[pods.name].usually is not None
    anywhere = frozenset(("fixed", "flexible"))
    return replace(
        pods, node_selector={}, groups=anywhere, category="", gathers=False, pdb_max_unavailable=0 if stays else None
    )


@cache
def night(*, adopted: bool) -> Night:
    settings = load_stack(str(FOLDER / "Pulumi.platform.yaml"))
    setup = replay_setup_of(settings, JOBS, ReplayOptions(days=1, start=NOON))
    run = StrategyResults(setup).run_of(Strategy.FIXED_FLEXIBLE)
    pods = [(model if adopted else unadopted(model, settings), count) for model, count in run.plan.workloads]
    plan = replace(run.plan, workloads=tuple((model, 0) for model, _ in pods))
    world = World(plan, runs_of(setup.jobs), run.world)
    starts = [(model.name, number) for number in range(1, 7) for model, count in pods if number <= count]
    for i, (name, number) in enumerate(starts):
        world.timeline.at(HOUR / 2 + 600.0 * i, lambda name=name, number=number: world.cluster.scale(name, number))
    controlled(run.config if adopted else replace(run.config, budgets=()), world, ActionCounts())
    series = world.recorder.series()
    last = max(i for i, at in enumerate(series.at) if at <= MIDNIGHT)
    nodes = {group: counts[last] for group, counts in series.nodes.items()}
    rates = plan.money.on_demand
    return Night(
        nodes["flexible"],
        sum(count * rates[group].above_usd for group, count in nodes.items()),
    )


@pytest.mark.parametrize(("row", "adopted"), [("before", False), ("after", True)])
def test_the_page_has_these_figures(row: str, adopted: bool) -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = re.findall(rf"^\| {row} \| (\d+) \| \$([\d.]+) \|$", page, re.MULTILINE)
    found = night(adopted=adopted)

    assert shown == [(str(found.flexible_nodes), f"{found.usd:.2f}")]
