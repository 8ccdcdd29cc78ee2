"""How many nodes a set of workloads takes together: first fit, the largest pods first.

No scheduler packs much tighter, and the one of EKS spreads, so what does not fit here will not fit there either. Nodes
in the same state are counted and not listed: a million replicas take no longer than one.
"""

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ebbtide.prices import Capacity
from ebbtide.settings.placement import PodSize, copies, fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """A group as far as packing goes: what one empty node offers, and how many there may be."""

    each: Capacity
    most: int


@dataclass(frozen=True, slots=True)
class _Alike:
    """Nodes of one group with the same room left."""

    group: str
    room: Capacity
    count: int


@dataclass
class Packing:
    groups: Mapping[str, Nodes]
    opened: dict[str, int] = field(init=False)
    used: list[_Alike] = field(default_factory=list[_Alike])

    def __post_init__(self) -> None:
        self.opened = dict.fromkeys(self.groups, 0)

    def place(self, size: PodSize, replicas: int, within: Collection[str]) -> None:
        """Onto nodes in use, then onto empty ones, and past the most of the first group that suits if need be."""
        used, self.used = self.used, []
        left = replicas
        for alike in used:
            if alike.group in within:
                left = self._fill(alike, size, left)
            else:
                self.used.append(alike)
        suitable = self._suitable(size, within)
        for name in suitable:
            left = self._open(name, size, left, most=max(0, self.groups[name].most - self.opened[name]))
        if left and suitable:
            self._open(suitable[0], size, left, most=left)

    def has_room(self, size: PodSize, within: Collection[str]) -> bool:
        """True if one more pod fits on a node."""
        suitable = [name for name in self._suitable(size, within) if self.opened[name] <= self.groups[name].most]
        empty = any(self.opened[name] < self.groups[name].most for name in suitable)
        return empty or any(copies(size, alike.room) for alike in self.used if alike.group in suitable)

    def _suitable(self, size: PodSize, within: Collection[str]) -> list[str]:
        return [name for name, nodes in self.groups.items() if name in within and fits(size, nodes.each)]

    def _open(self, name: str, size: PodSize, left: int, *, most: int) -> int:
        empty = self.groups[name].each
        count = min(most, -(-left // copies(size, empty)))
        self.opened[name] += count
        return self._fill(_Alike(name, empty, count), size, left)

    def _fill(self, alike: _Alike, size: PodSize, left: int) -> int:
        """Put up to `left` pods on these nodes, one node after the other; what is left over."""
        each = copies(size, alike.room)
        full = min(alike.count, left // each) if each else 0
        rest = min(left - full * each, each) if full < alike.count else 0
        split = ((full, each), (1 if rest else 0, rest), (alike.count - full - (1 if rest else 0), 0))
        self.used += [_Alike(alike.group, _less(alike.room, size, pods), count) for count, pods in split if count]
        return left - full * each - rest


def alike_nodes_needed(each: Capacity, pods: Iterable[tuple[PodSize, int]]) -> int:
    """How many nodes like `each` the pods take; there may be any number of them."""
    return nodes_needed(pods, {"": Nodes(each=each, most=sys.maxsize)})[""]


def nodes_needed(pods: Iterable[tuple[PodSize, int]], groups: Mapping[str, Nodes]) -> dict[str, int]:
    """The nodes of each group that the pods take, given as (size, how many), each of which may come to any group.

    Groups are filled in their order. Pods that no group has room for count on the first that suits, which then needs
    more nodes than its `most`. A pod that fits no empty node is left out.
    """
    return packed([(size, replicas, groups) for size, replicas in pods], groups).opened


def packed(pods: Iterable[tuple[PodSize, int, Collection[str]]], groups: Mapping[str, Nodes]) -> Packing:
    """The same for pods that may come to some groups alone."""
    packing = Packing(groups)
    for size, replicas, within in sorted(pods, key=lambda pod: (pod[0].cpu, pod[0].memory), reverse=True):
        packing.place(size, replicas, within)
    return packing


def _less(room: Capacity, size: PodSize, pods: int) -> Capacity:
    return Capacity(
        cpu=room.cpu - pods * size.cpu,
        memory=room.memory - pods * size.memory,
        gpu=room.gpu - pods * size.gpu,
        pods=room.pods - pods,
    )
