"""Estimate the cost of the recorded pods on nodes of other types. Pure.

Each shape is packed in the same way, over the same hours: as kube-scheduler spreads, a pod goes to the emptiest node
that has space, no pod is moved while it runs, and an empty node is removed. So one long job keeps a large node, as in a
cluster. Real clusters take more node-hours than this, on every shape.
"""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ebbtide.lab.advice.classes import slots
from ebbtide.lab.advice.demand import NODE_OVERHEAD_S
from ebbtide.prices import Capacity, NoPrice, instance_type, on_demand, spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placement import fits, node_of
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.sections.node_groups import NodeGroupSettings

LEAST_GAIN = 0.05
"""Share of the group's cost that other nodes have to save: a change of types replaces all its nodes."""

Stay: TypeAlias = tuple[float, float, PodSize]
"""A pod's first and last hour (later hours are larger), and its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A group on nodes of some types, and the pods' cost there over the evidence."""

    types: tuple[str, ...]
    node_hours: float
    usd: float  # of all node-hours


def price(group: NodeGroupSettings, region: str) -> float:
    """Return US dollars an hour of the group's most expensive type: AWS may give any. Raises `NoPrice`."""
    hourly_price = spot_typical if group.kind is NodeKind.SPOT else on_demand
    return max(hourly_price(region, kind) for kind in group.types)


def shape_of(
    group: NodeGroupSettings, region: str, stays: Sequence[Stay], hours: float, types: tuple[str, ...], least: int
) -> Shape | None:
    """Pack the pods on at least `least` nodes of these types; None if a pod does not fit. Raises `NoPrice`."""
    on_types = group.with_types(types)
    node = node_of(on_types)
    if not all(fits(size, node) for _, _, size in stays):
        return None
    total = node_hours(stays, node, least, hours)
    return Shape(types=types, node_hours=total, usd=total * price(on_types, region))


def cheaper(
    group: NodeGroupSettings,
    region: str,
    stays: Sequence[Stay],
    hours: float,
    eligible: Sequence[PodSize],
    least: int,
) -> Shape | None:
    """Return the cheapest of all steady types that fit the recorded pods and the `eligible` ones; None without any."""
    shapes: list[Shape] = []
    for types in _candidates(group, region):
        node = node_of(group.with_types(types))
        if all(fits(size, node) for size in eligible):
            try:
                shape = shape_of(group, region, stays, hours, types, least)
            except NoPrice:
                continue
            shapes += [shape] if shape is not None else []
    return min(shapes, key=lambda shape: (shape.usd, shape.types), default=None)


def _candidates(group: NodeGroupSettings, region: str) -> Iterator[tuple[str, ...]]:
    """Yield types of one shape, with the same GPU model: recorded use does not say how long jobs take on another.

    A spot group keeps its number of types: each is a separate pool of AWS' spare capacity.
    """
    now = group.types[0]
    for slot in slots(region, "on-demand"):
        first = instance_type(slot.types[0])
        same_model = (first.arch, first.gpu_model) == (now.arch, now.gpu_model)
        enough = group.kind is not NodeKind.SPOT or len(slot.types) >= len(group.instance_types)
        if slot.copies == 1 and same_model and enough:
            yield slot.types


def most_nodes(group: NodeGroupSettings, types: tuple[str, ...], zones: int) -> int:
    """Return a `max` that allows the group as much capacity as now, or as many GPUs."""
    now, then = group.types[0], instance_type(types[0])
    ratio = now.gpu / then.gpu if then.gpu else max(now.vcpu / then.vcpu, now.memory_mib / then.memory_mib)
    return max(zones, group.min, math.ceil(group.max * ratio))


def node_hours(stays: Sequence[Stay], node: Capacity, least: int, hours: float) -> float:
    """Return the hours of all nodes, at least `least` at a time, with the start and end of each further one."""
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

    def can_hold(self, size: PodSize) -> bool:
        return self.pods > 0 and size.cpu <= self.cpu and size.memory <= self.memory and size.gpu <= self.gpu

    def take(self, size: PodSize, sign: int = 1) -> None:
        self.cpu -= sign * size.cpu
        self.memory -= sign * size.memory
        self.gpu -= sign * size.gpu
        self.pods -= sign


@dataclass(slots=True)
class _Packing:
    capacity: Capacity
    nodes: dict[int, _Node] = field(default_factory=dict[int, _Node])
    ends: list[tuple[float, int, int]] = field(default_factory=list[tuple[float, int, int]])
    sizes: list[PodSize] = field(default_factory=list[PodSize])
    changes: dict[float, int] = field(default_factory=dict[float, int])
    opened: int = 0

    def place(self, start: float, end: float, size: PodSize) -> None:
        candidates = [(self._free(node), -number) for number, node in self.nodes.items() if node.can_hold(size)]
        number = -max(candidates)[1] if candidates else self._open(start)
        self.nodes[number].take(size)
        self.sizes.append(size)
        heapq.heappush(self.ends, (end, number, len(self.sizes) - 1))

    def end_until(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            end, number, pod = heapq.heappop(self.ends)
            node = self.nodes[number]
            node.take(self.sizes[pod], -1)
            if node.pods == self.capacity.pods:
                del self.nodes[number]
                self.changes[end] = self.changes.get(end, 0) - 1

    def _open(self, at: float) -> int:
        self.opened += 1
        self.nodes[self.opened] = _Node(self.capacity.cpu, self.capacity.memory, self.capacity.gpu, self.capacity.pods)
        self.changes[at] = self.changes.get(at, 0) + 1
        return self.opened

    def _free(self, node: _Node) -> float:
        return node.cpu / self.capacity.cpu + node.memory / self.capacity.memory
