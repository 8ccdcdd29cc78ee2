"""How many new nodes of one group would take the waiting pods: first fit, biggest pods first, as the autoscaler packs.

The packing is the autoscaler's own, not the best one and not the scheduler's: pods of one kind go on top of what was
packed before, going round the nodes; once one fits nowhere, only the newest node or another new one is tried.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.simulator.cluster.state import Room


@dataclass(frozen=True, slots=True)
class Option:
    """Growing one group: the nodes it takes and the pods, by workload, that they help."""

    group: GroupModel
    nodes: int
    helped: Mapping[str, int]


def estimate(group: GroupModel, waiting: Sequence[tuple[WorkloadModel, int]], limit: int) -> Option:
    """`waiting`: kinds of pods that fit an empty node of the group, and how many; at most `limit` new nodes."""
    packing = _Packing(group, limit)
    for workload, count in sorted(waiting, key=lambda kind: -_size(kind[0], group)):
        packing.add(workload, count)
    return Option(group, packing.used, packing.helped)


def _size(workload: WorkloadModel, group: GroupModel) -> float:
    return workload.cpu_m / group.cpu_m + workload.memory_mib / group.memory_mib


class _Packing:
    def __init__(self, group: GroupModel, limit: int) -> None:
        self._group = group
        self._limit = limit
        self._rooms: list[Room] = []
        self._start = 0
        self._full = False
        self.helped: Counter[str] = Counter()

    @property
    def used(self) -> int:
        """A last node that took nothing does not count."""
        return sum(room.by_workload != {} for room in self._rooms)

    def add(self, workload: WorkloadModel, count: int) -> None:
        left = count
        while left and self._onto_any(workload):
            left -= 1
        while left and not self._full and self._onto_newest(workload):
            left -= 1
        if count > left:
            self.helped[workload.name] += count - left

    def _onto_any(self, workload: WorkloadModel) -> bool:
        for step in range(len(self._rooms)):
            index = (self._start + step) % len(self._rooms)
            if self._rooms[index].fits(workload):
                self._rooms[index].take(workload)
                self._start = (index + 1) % len(self._rooms)
                return True
        return False

    def _onto_newest(self, workload: WorkloadModel) -> bool:
        if not (self._rooms and self._rooms[-1].fits(workload)):
            if self._rooms and not self._rooms[-1].by_workload:
                return False
            if len(self._rooms) >= self._limit:
                self._full = True
                return False
            self._rooms.append(Room(self._group))
            if not self._rooms[-1].fits(workload):
                return False
        self._rooms[-1].take(workload)
        return True
