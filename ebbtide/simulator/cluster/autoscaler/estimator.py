"""How many new nodes of one group would take the waiting pods: first fit, biggest pods first, as the autoscaler packs.

The packing is the autoscaler's own, not the best one and not the scheduler's: pods of one kind go on top of what was
packed before, each on the first fitting node after a random one; once one fits nowhere, only the newest node or another
new one is tried. So kinds of one size may take more nodes than they need, and not the same number each time.

Source: kubernetes/autoscaler 1.35.2, estimator/binpacking_estimator.go and decreasing_pod_orderer.go.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.simulator.cluster.autoscaler.rounds import SLOTS, beginning
from ebbtide.simulator.cluster.autoscaler.snapshot import Memory
from ebbtide.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.simulator.cluster.state import Room


@dataclass(frozen=True, slots=True)
class Option:
    """Growing one group: the nodes it takes and the pods, by workload, that they help."""

    group: GroupModel
    nodes: int
    helped: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Estimator:
    memory: Memory
    nodes: int  # that exist or boot: a search passes them by before it meets the new ones

    def estimate(self, group: GroupModel, waiting: Sequence[tuple[WorkloadModel, int]], limit: int) -> Option:
        """`waiting`: kinds of pods that fit an empty node of the group, and how many; at most `limit` new nodes."""
        packing = _Packing(self, group, limit)
        for workload, count in sorted(waiting, key=lambda kind: -_size(kind[0], group)):
            packing.add(workload, count)
        return Option(group, packing.used, packing.helped)


def _size(workload: WorkloadModel, group: GroupModel) -> float:
    return workload.cpu_m / group.cpu_m + workload.memory_mib / group.memory_mib


class _Packing:
    def __init__(self, estimator: Estimator, group: GroupModel, limit: int) -> None:
        self._memory = estimator.memory
        self._others = estimator.nodes
        self._group = group
        self._limit = limit
        self._newest: Room | None = None
        self._listed: list[Room] = []
        self._full = False
        self.helped: Counter[str] = Counter()

    @property
    def used(self) -> int:
        """A last node that took nothing does not count."""
        return sum(room.by_workload != {} for room in self._listed)

    def add(self, workload: WorkloadModel, count: int) -> None:
        left = count
        while left and self._onto_any(workload):
            left -= 1
        while left and not self._full and self._onto_newest(workload):
            left -= 1
        if count > left:
            self.helped[workload.name] += count - left

    def _onto_any(self, workload: WorkloadModel) -> bool:
        rooms, count = self._listed, len(self._listed)
        if not rooms:
            return False
        first = beginning(count, self._memory.rng)
        passed = max(self._memory.after % (self._others + count) - self._others, 0)
        for step in range(count):
            position = (passed + step) % count
            room = rooms[(first + position) % count]
            if room.fits(workload):
                room.take(workload)
                self._memory.after = (self._others + position + 1) % (self._others + count)
                return True
        return False

    def _onto_newest(self, workload: WorkloadModel) -> bool:
        if self._newest is None or not self._newest.fits(workload):
            if self._newest is not None and not self._newest.by_workload:
                return False
            if len(self._listed) >= self._limit:
                self._full = True
                return False
            self._newest = self._launched()
            if not self._newest.fits(workload):
                return False
        self._newest.take(workload)
        return True

    def _launched(self) -> Room:
        room = self._memory.templates.room(self._group)
        if len(self._listed) < SLOTS:
            self._listed.append(room)
        else:
            self._listed.insert(self._memory.rng.randrange(len(self._listed) + 1), room)
        return room
