"""Constant fleets: the same nodes all month, with each price change. Pure.

A fleet has the prices that the month's own nodes have: list prices, or the stack file's assumed plan, which then covers
all of it. Spot nodes have bounds. Each fleet names the instance types of its nodes, and what it costs under a plan or
without: who keeps nodes all month would buy one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ebbtide.lab.ledger.lives import NodeType
from ebbtide.lab.ledger.mix import NONE, Mix, kind_of, kinds_that_ran, mix_text, node_of_kind, price_of
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
    """From `least` to `most` nodes of one group. `types`: their type, or the ones that each may have."""

    group: str
    least: int
    most: int
    types: tuple[NodeType, ...]
    why: str = ""  # why these types are assumed; "" if they are known

    @property
    def text(self) -> str:
        names = " or ".join(mix_text({kind: 1.0}) for kind in self.types)
        reason = f", {self.why}" if self.why else ""
        count = " to ".join(dict.fromkeys((str(self.least), str(self.most))))
        return f"{count} {self.group or 'without a group'} ({names}{reason})"


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
        yield FleetNodes(group=name, least=former.nodes, most=former.nodes, types=types, why=why)


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
            yield FleetNodes(group=group, least=count, most=count, types=(kind,))


def fleet_for_workers(
    settings: StackSettings, workers: Mapping[str, int], peaks: Mapping[str, Mapping[NodeType, int]]
) -> tuple[StackSettings, Sequence[FleetNodes]]:
    """Return the stack of a fleet that holds these workers and the services, and its nodes.

    A group has nodes of the type of which most capacity ran when the group had most nodes: its provisioner chose it for
    many pods. If that type does not fit each pod of the group, it is the type by which nodes of the stack are counted.
    Pods of spot groups have the on-demand nodes of `steady_nodes`. The number is that of the tightest packing, and one
    more in each group with workers: a scheduler places pods one by one, beside DaemonSets that the stack file lacks.
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
        least = nodes_of(replace(group, shape=node_of_kind(home, kind)), placed)
        most = least + any(count for _, count in placed)
        label = NodeType(_label(home, kind, peaks.get(group.name, NONE)), ON_DEMAND)
        nodes.append(FleetNodes(group=group.name, least=least, most=most, types=(label,)))
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
    settings: StackSettings, month: Month, rates: Rates, name: str, nodes: Sequence[FleetNodes], *assumptions: str
) -> Alternative:
    """Price nodes that run all month under the stack's assumed plan, which covers them all, or else on demand."""
    there = [each for each in nodes if each.most]
    for each in there:
        if not each.types or any(kind.instance_type not in rates.listed for kind in each.types if kind.instance_type):
            return unknown(name, f"no price for the nodes of {each.group or 'no group'}")
    fleet = _Fleet(settings=settings, month=month, rates=rates, nodes=there)
    assumed = settings.costs.pricing_assumption
    other = PricingAssumption.COMPUTE_1Y if assumed is PricingAssumption.ON_DEMAND else PricingAssumption.ON_DEMAND
    spot = {kind.instance_type for each in there for kind in each.types if kind.capacity_type == SPOT}
    bare = sorted(spot - rates.spot_share.keys())
    low, high = fleet.usd(assumed)
    return Alternative(
        name=name,
        low_usd=low,
        high_usd=high,
        spot_usd=fleet.spot_usd(),
        assumptions=(
            *assumptions,
            f"nodes: {', '.join(each.text for each in there)}",
            f"every node {_priced(assumed)}; {_priced(other)} they cost {usd_text(fleet.usd(other))}",
            *([f"no typical spot saving is known for {', '.join(bare)}"] if bare else ()),
        ),
    )


def _priced(assumption: PricingAssumption) -> str:
    return "at list prices" if assumption is PricingAssumption.ON_DEMAND else f"under {assumption}"


def usd_text(usd: tuple[float, float]) -> str:
    return " to ".join(dict.fromkeys(f"${bound:,.0f}" for bound in usd))


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
            low += each.least * min(listed + spot_low for listed, spot_low, _ in prices)
            high += each.most * max(listed + spot_high for listed, _, spot_high in prices)
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
