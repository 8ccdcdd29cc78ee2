"""The types of nodes that ran, by node group: what an alternative of the month is counted in and priced at. Pure.

A stack file lists the types that a group may have; a month shows the ones that it had. Karpenter chooses the type of
each node, so its group is replayed with the types that ran as its offer, each at its own price. The cluster autoscaler
takes one node as the pattern for all, so its group is replayed with nodes of the size that most capacity had, at the
mean price of the types of that size. Nodes of another size, as in a month in which the group changed its types, are
replayed in that size: within a family a vCPU costs the same in each, so a price per vCPU and GiB would say no more,
and a count of nodes of two sizes at one mean price would say less.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ebbtide.lab.ledger.lives import NodeKey, NodeType
from ebbtide.lab.ledger.month import ON_DEMAND, SPOT, NodeHours
from ebbtide.lab.ledger.rates import Rates
from ebbtide.lab.simulator.strategies.plans import Topology, sizes_on
from ebbtide.lab.simulator.world.world import ClusterPlan
from ebbtide.prices import Capacity, InstanceType, instance_type, instance_type_names, usable
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placement import fits, node_of_type, offered
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.shapes import Reserved
from ebbtide.text.counts import percent

Mix = Mapping[NodeType, float]
"""Node-hours, or nodes, by type."""
NONE: Mix = {}
FURTHER_DAEMONS = Reserved.model_validate({"cpu": "250m", "memory": "256Mi"})
"""Requests of DaemonSets that a stack file may lack, on each node. Source: docs/evidence/ledger-alternatives.md.

A recording does not have them: it has the mean of the shares of CPU and memory that other pods request.
"""


def further_daemons() -> str:
    return f"{FURTHER_DAEMONS.cpu}m and {FURTHER_DAEMONS.memory}Mi on each node of groups without reserved"


def mixes_of(rows: Iterable[NodeHours]) -> Mapping[str, Mix]:
    """Return the month's node-hours by group and type, without nodes that have no price."""
    mixes: dict[str, dict[NodeType, float]] = {}
    for row in rows:
        if row.is_priced and row.hours:
            mix, kind = mixes.setdefault(row.group, {}), NodeType(row.instance_type, row.capacity_type)
            mix[kind] = mix.get(kind, 0.0) + row.hours
    return mixes


def mix_text(mix: Mix) -> str:
    """Return `m7i.2xlarge`, or `m7i.2xlarge 75 %, m7i.4xlarge on spot 25 %` of the node-hours."""
    total = sum(mix.values())
    parts = [
        (f"{kind.instance_type or 'a type without a name'}{' on spot' if kind.capacity_type == SPOT else ''}", amount)
        for kind, amount in sorted(mix.items(), key=lambda entry: (-entry[1], entry[0]))
    ]
    return ", ".join(name if len(parts) == 1 else f"{name} {percent(amount / total)}" for name, amount in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A stack with the node types of a month. `offers` are the names of Karpenter's types, by group that ran."""

    settings: StackSettings
    offers: Mapping[str, frozenset[str]]

    def offered(self, plan: ClusterPlan, topology: Topology) -> ClusterPlan:
        """Return the plan whose NodePools offer only these types.

        The plan is made with all types of the stack file: a kubelet reserves what the largest of them needs.
        """
        pools = tuple(
            replace(pool, types=tuple(kind for kind in pool.types if topology.type_of(kind.shape.name).name in names))
            if (names := self.offers.get(pool.name))
            else pool
            for pool in plan.node_pools
        )
        return replace(plan, node_pools=pools)

    def with_further_daemons(self) -> "Ran":
        """Return the stack whose nodes have `FURTHER_DAEMONS`, too.

        A group with `reserved` in the file is unchanged. So is a group with pods that would no longer fit any node:
        these pods ran, so its DaemonSets are smaller.
        """
        groups = {name: self._with_further_daemons(name, group) for name, group in self.settings.node_groups.items()}
        return replace(self, settings=self.settings.model_copy(update={"node_groups": groups}))

    def _with_further_daemons(self, name: str, group: NodeGroupSettings) -> NodeGroupSettings:
        if group.reserved != Reserved():
            return group
        smaller = group.model_copy(update={"reserved": FURTHER_DAEMONS})
        kinds = [kind for kind in group.types if kind.name in self.offers.get(name, {kind.name})]
        placed = (size for size in sizes_on(self.settings, name) if _fits_one(size, group, kinds))
        return smaller if all(_fits_one(size, smaller, kinds) for size in placed) else group


def with_types_that_ran(settings: StackSettings, mixes: Mapping[str, Mix]) -> Ran:
    """Return the stack whose groups have the types that ran in them.

    A group in which none ran keeps its types, and so does one whose pods need a type that did not run: Karpenter is
    then offered the smallest one beside those that ran.
    """
    groups, offers = dict(settings.node_groups), dict[str, frozenset[str]]()
    for name, group in settings.node_groups.items():
        kinds = [*kinds_that_ran(group, mixes.get(name, NONE))]
        if not kinds:
            continue
        sizes = sizes_on(settings, name)
        if group.by_karpenter:
            wanted = [*kinds, *_missing(group, kinds, sizes)]
            offers[name] = frozenset(kind.name for kind in wanted)
            further = tuple(kind.name for kind in kinds if kind.name not in group.instance_types)
            groups[name] = group.model_copy(update={"instance_types": (*group.instance_types, *further)})
            continue
        alike = [kind for kind in kinds if group.gpus_on_spot or kind.shape == kinds[0].shape]
        if all(fits(size, node_of_kind(group, kind)) for kind in alike for size in sizes):
            groups[name] = group.model_copy(update={"instance_types": tuple(kind.name for kind in alike)})
    return Ran(settings=settings.model_copy(update={"node_groups": groups}), offers=offers)


def kinds_that_ran(group: NodeGroupSettings, mix: Mix) -> Iterator[InstanceType]:
    """Yield the types whose size is known, those of most capacity first, each once."""
    known = {kind.instance_type: kind_of(group, kind.instance_type) for kind in mix}
    capacity: dict[InstanceType, float] = {}
    for kind, amount in mix.items():
        if (size := known[kind.instance_type]) is not None:
            capacity[size] = capacity.get(size, 0.0) + amount * max(size.gpu, size.vcpu)
    yield from sorted(capacity, key=lambda size: (-capacity[size], size.name))


def kind_of(group: NodeGroupSettings, name: str) -> InstanceType | None:
    """Return a node's type, also one that the group no longer lists; None if nothing states its size."""
    kind = group.type_like(name)
    if kind is None and group.shape is None and name in instance_type_names():
        return instance_type(name)
    return kind


def node_of_kind(group: NodeGroupSettings, kind: InstanceType) -> Capacity:
    """Return what pods can request of the group's node of one type."""
    return node_of_type(group, kind) if group.by_karpenter else offered(usable(kind), group.reserved)


def _fits_one(size: PodSize, group: NodeGroupSettings, kinds: Iterable[InstanceType]) -> bool:
    return any(fits(size, node_of_kind(group, kind)) for kind in kinds)


def _missing(
    group: NodeGroupSettings, kinds: Sequence[InstanceType], sizes: Iterable[PodSize]
) -> Iterator[InstanceType]:
    """Yield the smallest types of the stack file that pods need which fit none that ran."""
    for size in sizes:
        if not _fits_one(size, group, kinds):
            able = [kind for kind in group.types if fits(size, node_of_kind(group, kind))]
            if able:
                yield min(able, key=lambda kind: (kind.gpu, kind.vcpu, kind.memory_mib, kind.name))


@dataclass(frozen=True, slots=True)
class NodePrice:
    """Dollars per hour of a node: its part that is on demand, and the bounds of its part that is on spot."""

    listed: float
    spot_low: float
    spot_high: float


def price_of(kind: NodeType, group: str, rates: Rates, at: float) -> NodePrice:
    """Return the price of an instant, without a plan."""
    key = NodeKey(node="", group=group, category="", instance_type=kind.instance_type, capacity_type=kind.capacity_type)
    low, high = rates.usd_bounds(key, at)
    return NodePrice(0.0, low, high) if kind.capacity_type == SPOT else NodePrice(low, 0.0, 0.0)


def mean_price(topology: Topology, node: str, mixes: Mapping[str, Mix], rates: Rates, at: float) -> NodePrice | None:
    """Return the price of a modelled node: the mean price of the types that it represents, weighted by their hours.

    `node`: a group, or a shape of a NodePool. Without any that ran it is the price of its type; None without a price.
    """
    name, kind = topology.source_of[node], topology.type_of(node)
    group = topology.settings.node_groups[name]
    capacity_type = SPOT if group.kind is NodeKind.SPOT else ON_DEMAND
    ran = mixes.get(name, NONE)
    alike = {other: hours for other, hours in ran.items() if _stands_for(group, kind, other.instance_type)}
    alike = alike or {NodeType(kind.name, capacity_type): 1.0}
    if any(other.instance_type and other.instance_type not in rates.listed for other in alike):
        return None
    total = sum(alike.values())
    prices = [(price_of(other, name, rates, at), hours / total) for other, hours in alike.items()]
    return NodePrice(
        listed=sum(price.listed * share for price, share in prices),
        spot_low=sum(price.spot_low * share for price, share in prices),
        spot_high=sum(price.spot_high * share for price, share in prices),
    )


def _stands_for(group: NodeGroupSettings, kind: InstanceType, name: str) -> bool:
    other = kind_of(group, name)
    return other is not None and (other.name == kind.name if group.by_karpenter else other.shape == kind.shape)
