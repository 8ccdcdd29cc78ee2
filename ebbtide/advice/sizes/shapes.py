"""What the pods that ran would cost on nodes of other types. Pure.

Each shape is packed in the same way, over the same hours: a pod goes to the emptiest node with room, as kube-scheduler
spreads, nothing is moved while it runs, and a node goes when it is empty. So a large node is kept by one long job here
as it is in a cluster. Real clusters take more node-hours than this, on every shape.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ebbtide.advice.demand import NODE_OVERHEAD_S
from ebbtide.advice.slots import slots
from ebbtide.prices import Capacity, NoPrice, instance_type, on_demand, spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.placement import fits, node_of
from ebbtide.settings.sections.node_groups import NodeGroupSettings

LEAST_GAIN = 0.05
"""Other nodes have to save this share of the group: a change of types replaces every node of it."""

Stay: TypeAlias = tuple[float, float, PodSize]
"""A pod's first and last hour, later ones being larger, and its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A group on nodes of some types: what the pods cost there, by the hour of the evidence."""

    types: tuple[str, ...]
    node_hours: float
    usd: float  # of all of them


def price(kind: NodeKind, region: str, types: Iterable[str]) -> float:
    """US dollars an hour of the dearest: AWS may give any of them. Raises `NoPrice`."""
    of = spot_typical if kind is NodeKind.SPOT else on_demand
    return max(of(region, name) for name in types)


def shape_of(
    group: NodeGroupSettings, region: str, stays: Sequence[Stay], hours: float, types: tuple[str, ...], least: int
) -> Shape | None:
    """The pods on at least so many nodes of these types; None where one of them does not fit. Raises `NoPrice`."""
    node = node_of(group.model_copy(update={"instance_types": types}))
    if not all(fits(size, node) for _, _, size in stays):
        return None
    taken = node_hours(stays, node, least, hours)
    return Shape(types=types, node_hours=taken, usd=taken * price(group.kind, region, types))


def cheaper(
    group: NodeGroupSettings,
    region: str,
    stays: Sequence[Stay],
    hours: float,
    also: Sequence[PodSize],
    least: int,
) -> Shape | None:
    """The cheapest of all steady types on which the pods and `also`, those that may come, fit; None without any."""
    found: list[Shape] = []
    for types in _candidates(group, region):
        node = node_of(group.model_copy(update={"instance_types": types}))
        if all(fits(size, node) for size in also):
            try:
                shape = shape_of(group, region, stays, hours, types, least)
            except NoPrice:
                continue
            found += [shape] if shape is not None else []
    return min(found, key=lambda it: (it.usd, it.types), default=None)


def _candidates(group: NodeGroupSettings, region: str) -> Iterator[tuple[str, ...]]:
    """Types of one shape. Of GPUs the same model alone: on another one jobs take another time, which use cannot tell.

    A spot group keeps as many types as it has: each is a pool that AWS may have room in.
    """
    now = instance_type(group.instance_types[0])
    for slot in slots(region, "on-demand"):
        first = instance_type(slot.types[0])
        alike = (first.arch, first.gpu_model) == (now.arch, now.gpu_model)
        enough = group.kind is not NodeKind.SPOT or len(slot.types) >= len(group.instance_types)
        if slot.copies == 1 and alike and enough:
            yield slot.types


def most_nodes(group: NodeGroupSettings, types: tuple[str, ...], zones: int) -> int:
    """A `max` under which the group may hold as much as now; of a group with GPUs as many of these."""
    now, then = instance_type(group.instance_types[0]), instance_type(types[0])
    ratio = now.gpu / then.gpu if then.gpu else max(now.vcpu / then.vcpu, now.memory_mib / then.memory_mib)
    return max(zones, group.min, math.ceil(group.max * ratio))


def node_hours(stays: Sequence[Stay], node: Capacity, least: int, hours: float) -> float:
    """Of nodes that are there at least, and with what starting and ending one takes."""
    packing = _Packing(node)
    for start, end, size in sorted(stays, key=lambda stay: (stay[0], -stay[2].gpu, -stay[2].cpu, -stay[2].memory)):
        packing.end_until(start)
        packing.place(start, end, size)
    packing.end_until(float("inf"))
    return _at_least(packing.changes, least, hours) + max(0, packing.opened - least) * NODE_OVERHEAD_S / 3600


def _at_least(changes: Mapping[float, int], least: int, hours: float) -> float:
    total, nodes, before = 0.0, 0, 0.0
    for at in sorted(changes):
        now = min(max(at, 0.0), hours)
        total += max(nodes, least) * (now - before)
        before, nodes = now, nodes + changes[at]
    return total + max(nodes, least) * (hours - before)


@dataclass(slots=True)
class _Node:
    cpu: int
    memory: int
    gpu: int
    pods: int

    def has_room(self, size: PodSize) -> bool:
        return self.pods > 0 and size.cpu <= self.cpu and size.memory <= self.memory and size.gpu <= self.gpu

    def take(self, size: PodSize, sign: int = 1) -> None:
        self.cpu -= sign * size.cpu
        self.memory -= sign * size.memory
        self.gpu -= sign * size.gpu
        self.pods -= sign


@dataclass(slots=True)
class _Packing:
    each: Capacity
    nodes: dict[int, _Node] = field(default_factory=dict[int, _Node])
    ends: list[tuple[float, int, int]] = field(default_factory=list[tuple[float, int, int]])
    sizes: list[PodSize] = field(default_factory=list[PodSize])
    changes: dict[float, int] = field(default_factory=dict[float, int])
    opened: int = 0

    def place(self, start: float, end: float, size: PodSize) -> None:
        having_room = [(self._free(node), -number) for number, node in self.nodes.items() if node.has_room(size)]
        number = -max(having_room)[1] if having_room else self._open(start)
        self.nodes[number].take(size)
        self.sizes.append(size)
        heapq.heappush(self.ends, (end, number, len(self.sizes) - 1))

    def end_until(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            end, number, pod = heapq.heappop(self.ends)
            node = self.nodes[number]
            node.take(self.sizes[pod], -1)
            if node.pods == self.each.pods:
                del self.nodes[number]
                self.changes[end] = self.changes.get(end, 0) - 1

    def _open(self, at: float) -> int:
        self.opened += 1
        self.nodes[self.opened] = _Node(self.each.cpu, self.each.memory, self.each.gpu, self.each.pods)
        self.changes[at] = self.changes.get(at, 0) + 1
        return self.opened

    def _free(self, node: _Node) -> float:
        return node.cpu / self.each.cpu + node.memory / self.each.memory
