"""The recorded month of a stack on the simulated cluster: its recorded workers and sleep, priced at the month's prices.

The cluster is the one that `ebbtide simulate` replays: the stack's provisioners, `parallelDrains`, the flags of the
autoscaler, and the default flags on an existing cluster. Only the types of the nodes are those that ran in the month
(`ebbtide.lab.ledger.mix`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

from ebbtide.lab.ledger.mix import Mix, mean_price, with_types_that_ran
from ebbtide.lab.ledger.month import Ledger
from ebbtide.lab.ledger.rates import Rates, plan_share
from ebbtide.lab.ledger.reading import Steps
from ebbtide.lab.simulator.billing import usd_per_day
from ebbtide.lab.simulator.results import ClusterSeries, Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, night_setup_of
from ebbtide.lab.simulator.strategies.karpenter import plan_node_budgets
from ebbtide.lab.simulator.strategies.plans import Topology
from ebbtide.lab.simulator.strategies.table import cluster_of, world_setup_of
from ebbtide.lab.simulator.world.sleep import Asleep
from ebbtide.lab.simulator.world.world import BEFORE_THE_MODEL, ClusterPlan, World
from ebbtide.prices import GroupRate, PricingAssumption
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placed import resident_pods
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import HOUR_S
from ebbtide.vocabulary.controller_config import ControllerConfig


@dataclass(frozen=True, slots=True)
class ReplayedUsd:
    """Dollars of a replay: of nodes on demand, and the bounds of those on spot."""

    listed: float
    spot_low: float
    spot_high: float

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def low(self) -> float:
        return self.listed + self.spot_low

    @property
    def high(self) -> float:
        return self.listed + self.spot_high


def nodes_for(
    settings: StackSettings,
    mixes: Mapping[str, Mix],
    workers: Mapping[str, int],
    at: datetime,
    *,
    daemons: bool,
    seed: int,
) -> Mapping[tuple[str, str], int]:
    """Return the nodes that the stack's provisioners have for these workers and all services, by group and type.

    Counted `_SETTLED_S` after the workers were wanted, on an empty cluster whose budgets stay closed. `daemons`: with
    DaemonSets that the stack file lacks. `seed`: of boot times and of draws between groups.
    """
    setup = replace(
        night_setup_of(settings, ReplayOptions(start=at, days=1, rollouts=False, seed=seed)), end_s=_SETTLED_S, runs=()
    )
    topology, plan = _cluster(settings, mixes, daemons=daemons)
    world = World(plan, (), replace(world_setup_of(setup, Strategy.FIXED_FLEXIBLE), asleep=()))
    for pool, count in workers.items():
        world.timeline.at(0.0, partial(world.scale, pool, count), BEFORE_THE_MODEL)
    world.timeline.run_until(_SETTLED_S)
    nodes: dict[tuple[str, str], int] = {}
    for node, count in world.cluster.node_counts().items():
        if count:
            place = topology.source_of[node], topology.type_of(node).name
            nodes[place] = nodes.get(place, 0) + count
    return nodes


_SETTLED_S = HOUR_S
"""Pods that found no node ask again within seconds, and a node boots in two minutes."""


def has_choice(settings: StackSettings) -> bool:
    """Return whether pods may use several groups: the seed decides which of them has nodes first, and so more pods."""
    return any(len(pod.groups(settings.node_groups)) > 1 for pod in resident_pods(settings))


_SEEDS = 3
"""Seeds of a replay. Each takes a second, and the chances of a month offset each other in part."""


def _cluster(settings: StackSettings, mixes: Mapping[str, Mix], *, daemons: bool) -> tuple[Topology, ClusterPlan]:
    """Return the stack's cluster with the node types that ran. `daemons`: with DaemonSets that the stack file lacks."""
    ran = with_types_that_ran(settings, mixes)
    ran = ran.with_further_daemons() if daemons else ran
    topology, plan = cluster_of(ran.settings, Strategy.FIXED_FLEXIBLE)
    return topology, ran.offered(replace(plan, jobs=(), ray=()), topology)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthReplay:
    """`settings` have the month's node groups; `pools` are the recorded wanted workers.

    `planned`: the nodes of each group that the assumed plan covers, as paid.
    """

    settings: StackSettings
    ledger: Ledger
    pools: Mapping[str, Steps]
    rates: Rates
    mixes: Mapping[str, Mix]
    planned: Mapping[str, int]

    def usd(self, naps: tuple[Asleep, ...], *, opens: bool, daemons: bool = False) -> tuple[ReplayedUsd, ...] | None:
        """Return the dollars of recorded hours, without rollouts and, if the stack has services, with them.

        If pods have a choice of groups, each with several seeds.

        `opens` False: the budgets of pods and of NodePools never open. `daemons`: with DaemonSets that the stack file
        lacks. None without a price.
        """
        rollouts = (False, True) if self.settings.all_workloads else (False,)
        seeds = range(_SEEDS if has_choice(self.settings) else 1)
        replays = [
            self._replayed(naps, opens=opens, rollouts=rolled, daemons=daemons, seed=seed)
            for rolled in rollouts
            for seed in seeds
        ]
        known = tuple(usd for usd in replays if usd is not None)
        return known if len(known) == len(replays) else None

    def _replayed(
        self, naps: tuple[Asleep, ...], *, opens: bool, rollouts: bool, daemons: bool, seed: int
    ) -> ReplayedUsd | None:
        month = self.ledger.month
        options = ReplayOptions(start=month.begin, days=-int(-month.hours // 24), rollouts=rollouts, seed=seed)
        setup = replace(night_setup_of(self.settings, options), end_s=month.hours * HOUR_S, runs=(), asleep=naps)
        topology, plan = _cluster(self.settings, self.mixes, daemons=daemons)
        world = World(plan, (), world_setup_of(setup, Strategy.FIXED_FLEXIBLE))
        for pool, steps in self.pools.items():
            for at, value in steps:
                scaling = partial(world.scale, pool, round(value))
                world.timeline.at(at - month.begin.timestamp(), scaling, BEFORE_THE_MODEL)
        if opens:
            self._open(world, plan, setup.config)
        world.timeline.run_until(setup.end_s)
        return self._priced(world.recorder.series(), plan, topology, setup.end_s)

    def _open(self, world: World, plan: ClusterPlan, config: ControllerConfig) -> None:
        """Plan the controllers' writes of budgets."""
        plan_node_budgets(config, world, plan, self.settings)
        month = self.ledger.month
        change: datetime | None = month.begin
        while change is not None and change < month.end:
            is_open = config.window.is_open(change)
            for budget in config.budgets:
                opening = partial(world.set_budget, budget.name, int(is_open or budget.always))
                world.timeline.at((change - month.begin) / timedelta(seconds=1), opening, BEFORE_THE_MODEL)
            change = config.window.next_change(change)

    def _priced(self, series: ClusterSeries, plan: ClusterPlan, topology: Topology, end_s: float) -> ReplayedUsd | None:
        """Price the nodes of recorded hours at the prices of their time."""
        begin = self.ledger.month.begin
        gaps = [tuple((at - begin) / timedelta(seconds=1) for at in (gap.begin, gap.end)) for gap in self.ledger.gaps]
        changes = {at - begin.timestamp() for kind in self.rates.listed for at in self.rates.changes(kind)}
        prices = [0.0, *sorted(at for at in changes if 0 < at < end_s), end_s]
        edges = sorted({*prices[1:], *(edge for gap in gaps for edge in gap)})
        sums = [0.0, 0.0, 0.0]
        for since, until in pairwise(prices):
            for part, rates in enumerate(self._rates(plan, topology, begin.timestamp() + since)):
                usd = usd_per_day(series, rates, edges)
                if not usd:
                    return None
                sums[part] += sum(_within(usd, edges, (since, until), gaps))
        return ReplayedUsd(*sums)

    def _rates(self, plan: ClusterPlan, topology: Topology, at: float) -> Sequence[Mapping[str, GroupRate]]:
        """Return rates on demand, and the lowest and highest on spot. A plan covers nodes as paid."""
        assumed = self.settings.costs.pricing_assumption
        listed: dict[str, GroupRate] = {}
        low: dict[str, GroupRate] = {}
        high: dict[str, GroupRate] = {}
        for shape in plan.shapes:
            price = mean_price(topology, shape.name, self.mixes, self.rates, at)
            if price is None:
                continue
            group = topology.source_of[shape.name]
            on_spot = topology.settings.node_groups[group].kind is NodeKind.SPOT
            floor = 0 if on_spot or assumed is PricingAssumption.ON_DEMAND else self.planned.get(group, 0)
            planned = price.listed * plan_share(self.settings, group, assumed) if floor else 0.0
            listed[shape.name] = GroupRate(floor=floor, floor_usd=planned, above_usd=price.listed)
            low[shape.name] = GroupRate(floor=0, floor_usd=0.0, above_usd=price.spot_low)
            high[shape.name] = GroupRate(floor=0, floor_usd=0.0, above_usd=price.spot_high)
        return listed, low, high


def _within(
    usd: Sequence[float], edges: Sequence[float], span: tuple[float, float], gaps: Sequence[tuple[float, ...]]
) -> list[float]:
    """Return the dollars of the parts between two edges that lie in the span and in no gap."""
    parts = zip(usd, pairwise((0.0, *edges)), strict=True)
    return [
        part
        for part, (begin, end) in parts
        if span[0] <= begin and end <= span[1] and not any(first <= begin and end <= last for first, last in gaps)
    ]
