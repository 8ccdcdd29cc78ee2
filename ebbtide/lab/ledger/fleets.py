"""Constant fleets: the same nodes all month, with each price change. Pure.

A fleet has the prices that the month's own nodes have: list prices, or the stack file's assumed plan, which then covers
all of it. Spot nodes have bounds. Each fleet names the instance types of its nodes, and what it costs under a plan or
without: who keeps nodes all month would buy one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from sys import maxsize

from ebbtide.lab.ledger.lives import NodeType
from ebbtide.lab.ledger.mix import NONE, Mix, kind_of, kinds_that_ran, mix_text, node_of_kind, price_of
from ebbtide.lab.ledger.month import ON_DEMAND, SPOT, Alternative, Month
from ebbtide.lab.ledger.rates import Rates, plan_share
from ebbtide.lab.ledger.replayed import has_choice, nodes_for
from ebbtide.lab.simulator.strategies.plans import node_weights, sizes_on
from ebbtide.lab.simulator.strategies.steady import steady_nodes, with_steady_nodes
from ebbtide.prices import InstanceType, PricingAssumption
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.capacity.packing import Nodes, Packing
from ebbtide.settings.capacity.placed import resident_pods
from ebbtide.settings.capacity.placement import fits, pod_size
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.text.durations import HOUR_S
from ebbtide.text.money import dollar_range


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNodes:
    """Nodes of one group. `types`: their type, or the ones that each may have."""

    group: str
    count: int
    types: tuple[NodeType, ...]
    why: str = ""  # why these types are assumed; "" if they are known

    @property
    def text(self) -> str:
        names = " or ".join(mix_text({kind: 1.0}) for kind in self.types)
        reason = f", {self.why}" if self.why else ""
        return f"{self.count} {self.group or 'without a group'} ({names}{reason})"


def fleet_before(settings: StackSettings, mixes: Mapping[str, Mix]) -> Iterator[FleetNodes]:
    """Yield the nodes of `costs.before`: of their type in the file, or else of the one that ran most in the group."""
    groups = with_node_sets(settings).node_groups
    for name, former in settings.costs.before.items():
        group = groups.get(name)
        capacity_type = SPOT if group is not None and group.kind is NodeKind.SPOT else ON_DEMAND
        if former.instance_type:
            kinds, why = (former.instance_type,), ""
        else:
            kinds, why = usual_types(group, mixes.get(name, NONE))
        types = tuple(NodeType(kind, capacity_type) for kind in kinds)
        yield FleetNodes(group=name, count=former.nodes, types=types, why=why)


def usual_types(group: NodeGroupSettings | None, mix: Mix) -> tuple[tuple[str, ...], str]:
    """Return the type that had most node-hours in a group, and the reason; without any the first one of the file.

    Of a spot group with GPUs in which none ran no type is the usual one: all of them.
    """
    hours: dict[str, float] = {}
    for kind, amount in mix.items():
        hours[kind.instance_type] = hours.get(kind.instance_type, 0.0) + amount
    if hours:
        return (max(hours, key=lambda name: (hours[name], name)),), "which ran most"
    if group is None:
        return (), ""
    names = tuple(kind.name for kind in group.types)
    return (names, "none ran") if group.gpus_on_spot else (names[:1], "the group's first type")


def fleets_at_the_peak(
    peaks: Mapping[str, Sequence[Mapping[NodeType, int]]], rates: Rates, month: Month
) -> Sequence[Sequence[FleetNodes]]:
    """Return the nodes of the instant at which each group had most: of several such instants the ones that cost least
    and most.
    """
    at = month.begin.timestamp()

    def usd(group: str, nodes: Mapping[NodeType, int]) -> float:
        prices = {kind: price_of(kind, group, rates, at) for kind in nodes}
        return sum(count * (prices[kind].listed + prices[kind].spot_high) for kind, count in nodes.items())

    return [
        [
            FleetNodes(group=group, count=count, types=(kind,))
            for group, instants in peaks.items()
            for kind, count in sorted(of_all(instants, key=partial(usd, group)).items())
        ]
        for of_all in (min, max)
    ]


def fleets_for_workers(
    settings: StackSettings, workers: Mapping[str, int], peaks: Mapping[str, Mapping[NodeType, int]], at: datetime
) -> tuple[StackSettings, Sequence[Sequence[FleetNodes]]]:
    """Return the stack of a constant fleet that holds these workers and the services, and such fleets.

    The first is the tightest packing on nodes of the type of which most capacity ran when the group had most nodes; if
    that type does not fit each pod of the group, of the type by which nodes of the stack are counted. The others are
    what the provisioners have when they place pod by pod on one cluster: of the types that ran when each group had most
    nodes, and of all types that the file offers Karpenter; each also with DaemonSets that the file lacks.
    Pods of spot groups have the on-demand nodes of `steady_nodes`. No group has a limit.
    """
    stays = with_steady_nodes(settings)
    groups = {name: group.model_copy(update={"max": _NO_LIMIT}) for name, group in stays.node_groups.items()}
    stays = stays.model_copy(update={"node_groups": groups})
    ran = {name: nodes for name, nodes in peaks.items() if name in groups and groups[name].kind is not NodeKind.SPOT}
    offers = [ran, {name: nodes for name, nodes in ran.items() if not groups[name].by_karpenter}]
    placed = [
        [
            _on_demand(group, groups[group], ran.get(group, NONE), name, count)
            for (group, name), count in nodes_for(stays, mixes, workers, at, daemons=daemons, seed=seed).items()
        ]
        for mixes in (offers if offers[0] != offers[1] else offers[:1])
        for daemons in (False, True)
        for seed in range(_SEEDS if has_choice(stays) else 1)
    ]
    return stays, [_tightest(settings, workers, ran), *placed]


_SEEDS = 8
"""Seeds: of two groups with equal chances, one is missed by all of them in less than a hundredth."""
_NO_LIMIT = 100_000
"""A fleet that stays may have more nodes of a group than the file's `max`: those of spot nodes are on demand."""


def _tightest(settings: StackSettings, workers: Mapping[str, int], ran: Mapping[str, Mix]) -> Sequence[FleetNodes]:
    """Return the tightest packing. A service that several groups take has room beside pods that no other group takes,
    and otherwise nodes of the cheapest group.
    """
    homes = dict(settings.node_groups)
    for name, group in settings.node_groups.items():
        kind = _for_all_pods(settings, name, ran.get(name, NONE))
        if kind is not None:
            homes[name] = group.model_copy(update={"instance_types": (kind.name,)})
    stays = steady_nodes(settings.model_copy(update={"node_groups": homes})).settings
    kinds = {name: group.types[0] for name, group in stays.node_groups.items()}
    usd = node_weights(stays)
    names = sorted(kinds, key=lambda name: (usd[name], name))
    packing = Packing(
        {name: Nodes(each=node_of_kind(settings.node_groups[name], kinds[name]), most=maxsize) for name in names}
    )
    for name, group in stays.node_groups.items():
        packing.open(name, group.min)
    residents = [(pod.size, pod.initial, pod.groups(stays.node_groups)) for pod in resident_pods(stays)]
    pools = [(stays.workers[name], count) for name, count in workers.items()]
    pods = [*residents, *((pod_size(pool), count, (pool.node_group,)) for pool, count in pools)]
    for size, count, groups in sorted(pods, key=lambda pod: (len(pod[2]) > 1, -pod[0].cpu, -pod[0].memory)):
        packing.place(size, count, groups)
    return [
        _on_demand(name, settings.node_groups[name], ran.get(name, NONE), kinds[name].name, packing.opened[name])
        for name in stays.node_groups
    ]


def _on_demand(group: str, home: NodeGroupSettings, ran: Mix, name: str, count: int) -> FleetNodes:
    """Return nodes under the name by which their type has a price: nodes of one described size may be of any type."""
    kind = kind_of(home, name)
    names = [other.instance_type for other in sorted(ran, key=ran.__getitem__, reverse=True)]
    label = next((other for other in names if kind_of(home, other) == kind), name)
    return FleetNodes(group=group, count=count, types=(NodeType(label, ON_DEMAND),))


def _for_all_pods(settings: StackSettings, name: str, ran: Mix) -> InstanceType | None:
    group, sizes = settings.node_groups[name], sizes_on(settings, name)
    kinds = kinds_that_ran(group, ran)
    return next((kind for kind in kinds if all(fits(size, node_of_kind(group, kind)) for size in sizes)), None)


def constant(
    settings: StackSettings,
    month: Month,
    rates: Rates,
    name: str,
    fleets: Sequence[Sequence[FleetNodes]],
    *assumptions: str,
) -> Alternative:
    """Price nodes that run all month under the stack's assumed plan, which covers them all, or else on demand.

    `fleets`: which of them it is is unknown.
    """
    there = [[each for each in nodes if each.count] for nodes in fleets]
    every = [each for nodes in there for each in nodes]
    for each in every:
        if not each.types or any(kind.instance_type not in rates.listed for kind in each.types if kind.instance_type):
            return unknown(name, f"no price for the nodes of {each.group or 'no group'}")
    priced = [_Fleet(settings=settings, month=month, rates=rates, nodes=nodes) for nodes in there]
    assumed = settings.costs.pricing_assumption
    other = PricingAssumption.COMPUTE_1Y if assumed is PricingAssumption.ON_DEMAND else PricingAssumption.ON_DEMAND
    spot = {kind.instance_type for each in every for kind in each.types if kind.capacity_type == SPOT}
    bare = sorted(spot - rates.spot_share.keys())
    bounds = [fleet.usd(assumed) for fleet in priced]
    low, high = _hull(bounds)
    ends = (next(nodes for nodes, usd in zip(there, bounds, strict=True) if end in usd) for end in (low, high))
    texts = [", ".join(each.text for each in nodes) for nodes in ends]
    otherwise = dollar_range(*_hull([fleet.usd(other) for fleet in priced]))
    return Alternative(
        name=name,
        low_usd=low,
        high_usd=high,
        spot_usd=_hull([fleet.spot_usd() for fleet in priced]),
        assumptions=(
            *assumptions,
            f"nodes: {', or '.join(dict.fromkeys(texts))}",
            f"{'on-demand' if spot else 'all'} nodes {_priced(assumed)}; the fleet costs {otherwise} {_priced(other)}",
            *([f"no typical spot saving is known for {', '.join(bare)}"] if bare else ()),
        ),
    )


def _hull(bounds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _priced(assumption: PricingAssumption) -> str:
    return "at list prices" if assumption is PricingAssumption.ON_DEMAND else f"under {assumption}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fleet:
    settings: StackSettings
    month: Month
    rates: Rates
    nodes: Sequence[FleetNodes]

    def usd(self, plan: PricingAssumption) -> tuple[float, float]:
        """Return the bounds of the fleet's dollars."""
        low = high = 0.0
        for each in self.nodes:
            prices = [self._price(each.group, kind, plan) for kind in each.types]
            low += each.count * min(listed + spot_low for listed, spot_low, _ in prices)
            high += each.count * max(listed + spot_high for listed, _, spot_high in prices)
        return low, high

    def spot_usd(self) -> tuple[float, float]:
        """Return the part of spot nodes in these bounds."""
        on_spot = [each for each in self.nodes if any(kind.capacity_type == SPOT for kind in each.types)]
        return replace(self, nodes=on_spot).usd(PricingAssumption.ON_DEMAND)

    def _price(self, group: str, kind: NodeType, plan: PricingAssumption) -> tuple[float, float, float]:
        """Return the dollars of a node that runs all month: on demand, and the bounds on spot."""
        begin, end = self.month.begin.timestamp(), self.month.end.timestamp()
        share = (
            1.0 if plan is PricingAssumption.ON_DEMAND else plan_share(self.settings, group, plan, kind.instance_type)
        )
        edges = [begin, *(at for at in self.rates.changes(kind.instance_type) if begin < at < end), end]
        spans = [(price_of(kind, group, self.rates, at), (until - at) / HOUR_S) for at, until in pairwise(edges)]
        return (
            share * sum(price.listed * hours for price, hours in spans),
            sum(price.spot_low * hours for price, hours in spans),
            sum(price.spot_high * hours for price, hours in spans),
        )


def unknown(name: str, why: str) -> Alternative:
    return Alternative(name=name, low_usd=None, high_usd=None, assumptions=(), why=why)
