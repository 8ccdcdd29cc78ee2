"""How many nodes a set of workloads takes together: first fit, the largest pods first.

No scheduler packs much tighter, and the one of EKS spreads, so what does not fit here will not fit there either. Nodes
in the same state are counted and not listed: a million replicas take no longer than one.
"""

import sys
from collections.abc import Iterable, Mapping
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
    """Nodes with the same room left."""

    room: Capacity
    count: int


@dataclass
class _Packing:
    groups: Mapping[str, Nodes]
    opened: dict[str, int]
    used: list[_Alike] = field(default_factory=list[_Alike])

    def place(self, size: PodSize, replicas: int) -> None:
        """Onto nodes in use, then onto empty ones, and past the most of the first group that suits if need be."""
        used, self.used = self.used, []
        left = replicas
        for alike in used:
            left = self._fill(alike, size, left)
        suitable = [name for name, nodes in self.groups.items() if fits(size, nodes.each)]
        for name in suitable:
            left = self._open(name, size, left, most=max(0, self.groups[name].most - self.opened[name]))
        if left and suitable:
            self._open(suitable[0], size, left, most=left)

    def _open(self, name: str, size: PodSize, left: int, *, most: int) -> int:
        empty = self.groups[name].each
        count = min(most, -(-left // copies(size, empty)))
        self.opened[name] += count
        return self._fill(_Alike(empty, count), size, left)

    def _fill(self, alike: _Alike, size: PodSize, left: int) -> int:
        """Put up to `left` pods on these nodes, one node after the other; what is left over."""
        each = copies(size, alike.room)
        full = min(alike.count, left // each) if each else 0
        rest = min(left - full * each, each) if full < alike.count else 0
        split = ((full, each), (1 if rest else 0, rest), (alike.count - full - (1 if rest else 0), 0))
        self.used += [_Alike(_less(alike.room, size, pods), count) for count, pods in split if count]
        return left - full * each - rest


def alike_nodes_needed(each: Capacity, pods: Iterable[tuple[PodSize, int]]) -> int:
    """How many nodes like `each` the pods take; there may be any number of them."""
    return nodes_needed(pods, {"": Nodes(each=each, most=sys.maxsize)})[""]


def nodes_needed(pods: Iterable[tuple[PodSize, int]], groups: Mapping[str, Nodes]) -> dict[str, int]:
    """The nodes of each group that the pods take, given as (size, how many).

    Groups are filled in their order. Pods that no group has room for count on the first that suits, which then needs
    more nodes than its `most`. A pod that fits no empty node is left out.
    """
    packing = _Packing(groups, dict.fromkeys(groups, 0))
    for size, replicas in sorted(pods, key=lambda pod: (pod[0].cpu, pod[0].memory), reverse=True):
        packing.place(size, replicas)
    return packing.opened


def _less(room: Capacity, size: PodSize, pods: int) -> Capacity:
    return Capacity(
        cpu=room.cpu - pods * size.cpu,
        memory=room.memory - pods * size.memory,
        gpu=room.gpu - pods * size.gpu,
        pods=room.pods - pods,
    )
