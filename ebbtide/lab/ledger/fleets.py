"""Constant fleets: the same nodes all month, with each price change. Pure.

A fleet costs between the plan rate and the list price of every on-demand node: who keeps nodes all month would buy a
plan for them. Spot nodes cost their own bounds. Each fleet names the instance types of its nodes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ebbtide.lab.ledger.lives import NodeKey, NodeType
from ebbtide.lab.ledger.mix import NONE, Mix, kind_of, kinds_that_ran, mix_text, node_of_kind
from ebbtide.lab.ledger.month import ON_DEMAND, SPOT, Alternative, Month
from ebbtide.lab.ledger.rates import Rates, plan_share
from ebbtide.lab.simulator.strategies.constant import fleet_groups
from ebbtide.lab.simulator.strategies.fleet import nodes_of
from ebbtide.lab.simulator.strategies.plans import EBBTIDE, plan_of, sizes_on
from ebbtide.lab.simulator.strategies.steady import steady_nodes
from ebbtide.prices import InstanceType, PricingAssumption
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.capacity.placement import fits, pod_size
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.text.durations import HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNodes:
    """Nodes of one group. `types`: their type, or the ones of which each may be, if none is known to be theirs."""

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
        yield FleetNodes(
            group=name, count=former.nodes, types=tuple(NodeType(kind, capacity_type) for kind in kinds), why=why
        )


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


def fleet_at_the_peak(peaks: Mapping[str, Mapping[NodeType, int]]) -> Iterator[FleetNodes]:
    """Yield the nodes of the instant at which each group had most."""
    for group, nodes in peaks.items():
        for kind, count in sorted(nodes.items()):
            yield FleetNodes(group=group, count=count, types=(kind,))


def fleet_for_workers(
    settings: StackSettings, workers: Mapping[str, int], peaks: Mapping[str, Mapping[NodeType, int]]
) -> tuple[StackSettings, Sequence[FleetNodes]]:
    """Return the stack of a fleet that holds these workers and the services, and its nodes.

    A group has nodes of the type of which most capacity ran when the group had most nodes: its provisioner chose it for
    many pods. If that type does not fit each pod of the group, it is the type by which nodes of the stack are counted.
    Pods of spot groups have the on-demand nodes of `steady_nodes`.
    """
    homes = dict(settings.node_groups)
    for name, group in settings.node_groups.items():
        kind = _for_all_pods(settings, name, peaks.get(name, NONE))
        if kind is not None and group.kind is not NodeKind.SPOT:
            homes[name] = group.model_copy(update={"instance_types": (kind.name,)})
    topology = steady_nodes(settings.model_copy(update={"node_groups": homes}))
    stays = topology.settings
    pods = [(stays.workers[name].node_group, pod_size(stays.workers[name]), count) for name, count in workers.items()]
    nodes: list[FleetNodes] = []
    for group in fleet_groups(stays, plan_of(topology, EBBTIDE)):
        home, kind = settings.node_groups[group.name], stays.node_groups[group.name].types[0]
        placed = [(size, count) for place, size, count in pods if place == group.name]
        count = nodes_of(replace(group, shape=node_of_kind(home, kind)), placed)
        label = _label(home, kind, peaks.get(group.name, NONE))
        nodes.append(FleetNodes(group=group.name, count=count, types=(NodeType(label, ON_DEMAND),)))
    return stays, nodes


def _for_all_pods(settings: StackSettings, name: str, ran: Mix) -> InstanceType | None:
    group, sizes = settings.node_groups[name], sizes_on(settings, name)
    kinds = kinds_that_ran(group, ran)
    return next((kind for kind in kinds if all(fits(size, node_of_kind(group, kind)) for size in sizes)), None)


def _label(group: NodeGroupSettings, kind: InstanceType, ran: Mix) -> str:
    """Return the name by which the type has a price: nodes of one described size may be of any type."""
    names = [other.instance_type for other in sorted(ran, key=ran.__getitem__, reverse=True)]
    return next((name for name in names if kind_of(group, name) == kind), kind.name)


def constant(
    settings: StackSettings, month: Month, rates: Rates, name: str, nodes: Iterable[FleetNodes], *assumptions: str
) -> Alternative:
    """Price nodes that run all month."""
    plan = settings.costs.pricing_assumption
    plan = PricingAssumption.COMPUTE_1Y if plan is PricingAssumption.ON_DEMAND else plan
    low = high = 0.0
    there = [each for each in nodes if each.count]
    for each in there:
        if not each.types or any(kind.instance_type not in rates.listed for kind in each.types if kind.instance_type):
            return unknown(name, f"no price for the nodes of {each.group or 'no group'}")
        usd = [_usd_of_month(each.group, kind, month, rates) for kind in each.types]
        shares = [
            1.0 if kind.capacity_type == SPOT else plan_share(settings, each.group, plan, kind.instance_type)
            for kind in each.types
        ]
        low += each.count * min(bounds[0] * share for bounds, share in zip(usd, shares, strict=True))
        high += each.count * max(bounds[1] for bounds in usd)
    spot = [kind for each in there for kind in each.types if kind.capacity_type == SPOT]
    bare = sorted({kind.instance_type for kind in spot if kind.instance_type not in rates.spot_share})
    return Alternative(
        name=name,
        low_usd=low,
        high_usd=high,
        assumptions=(
            *assumptions,
            f"nodes: {', '.join(each.text for each in there)}",
            f"from {plan} to on-demand list prices for every node{' that is not on spot' if spot else ''}",
            *([f"no typical spot saving is known for {', '.join(bare)}"] if bare else ()),
        ),
    )


def unknown(name: str, why: str) -> Alternative:
    return Alternative(name=name, low_usd=None, high_usd=None, assumptions=(), why=why)


def _usd_of_month(group: str, kind: NodeType, month: Month, rates: Rates) -> tuple[float, float]:
    """Return the bounds of the dollars of a node that runs all month, without a plan."""
    begin, end = month.begin.timestamp(), month.end.timestamp()
    key = NodeKey(node="", group=group, category="", instance_type=kind.instance_type, capacity_type=kind.capacity_type)
    edges = [begin, *(at for at in rates.changes(kind.instance_type) if begin < at < end), end]
    parts = [(rates.usd_bounds(key, first), (last - first) / HOUR_S) for first, last in pairwise(edges)]
    return sum(low * hours for (low, _), hours in parts), sum(high * hours for (_, high), hours in parts)
