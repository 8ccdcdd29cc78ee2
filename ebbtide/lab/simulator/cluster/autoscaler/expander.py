"""The expander chooses the group that grows, and the estimator counts its new nodes.

Expanders joined by commas filter in turn; then the group's rank decides, and a draw between equal ranks. The estimate
is first fit, largest pods first, by the autoscaler's packing, which is neither optimal nor the scheduler's: each pod
goes to the first fitting node after a random one. After one fits nowhere, only the newest node or another new one is
tried. So pods of one size may take more nodes than needed, and a different number each time.

Source: kubernetes/autoscaler 1.35.2, estimator/binpacking_estimator.go and decreasing_pod_orderer.go.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.lab.simulator.cluster.autoscaler.snapshot import SLOTS, Memory, beginning
from ebbtide.lab.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.lab.simulator.cluster.state import Room


@dataclass(frozen=True, slots=True)
class Option:
    """A scale-up of one group: its new nodes, and the pods that they help, by workload."""

    group: GroupModel
    nodes: int
    helped: Mapping[str, int]
    zone: str = ""  # of the nodes; empty: any


@dataclass(frozen=True, slots=True)
class Estimator:
    memory: Memory
    nodes: int  # existing or booting ones, which a search passes before new ones

    def estimate(
        self, group: GroupModel, waiting: Sequence[tuple[WorkloadModel, int]], limit: int, zone: str = ""
    ) -> Option:
        """`waiting`: workloads that fit an empty node, with their numbers of pods. `limit`: of new nodes."""
        packing = _Packing(self, group, limit)
        for workload, count in sorted(waiting, key=lambda kind: -_size(kind[0], group)):
            packing.add(workload, count)
        return Option(group, packing.used, packing.helped, zone)


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
        """The number of new nodes with a pod."""
        return sum(room.by_workload != {} for room in self._listed)

    def add(self, workload: WorkloadModel, count: int) -> None:
        unplaced = count
        while unplaced and self._onto_any(workload):
            unplaced -= 1
        while unplaced and not self._full and self._onto_newest(workload):
            unplaced -= 1
        if count > unplaced:
            self.helped[workload.name] += count - unplaced

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


Workloads = Mapping[str, WorkloadModel]
Filter = Callable[[Sequence[Option], Workloads], list[Option]]


class Expander:
    def __init__(self, names: str, rng: random.Random) -> None:
        unknown = [name for name in names.split(",") if name not in EXPANDERS]
        if unknown:
            raise ValueError(f"expander: wanted one of {', '.join(EXPANDERS)}, found {unknown[0]!r}")
        self._filters = [EXPANDERS[name] for name in names.split(",")]
        self._rng = rng

    def best(self, options: Sequence[Option], workloads: Workloads) -> Option:
        remaining = list(options)
        for narrow in self._filters:
            remaining = narrow(remaining, workloads)
        remaining = _lowest(remaining, lambda option: option.group.rank)
        return remaining[0] if len(remaining) == 1 else self._rng.choice(remaining)


def _least_waste(options: Sequence[Option], workloads: Workloads) -> list[Option]:
    """Choose by the unused shares of CPU and memory on the new nodes; GPUs do not count, as in the real one."""

    def waste(option: Option) -> float:
        cpu = sum(workloads[name].cpu_m * count for name, count in option.helped.items())
        memory = sum(workloads[name].memory_mib * count for name, count in option.helped.items())
        all_cpu, all_memory = option.nodes * option.group.cpu_m, option.nodes * option.group.memory_mib
        return (all_cpu - cpu) / all_cpu + (all_memory - memory) / all_memory

    return _lowest(options, waste)


def _lowest(options: Sequence[Option], score: Callable[[Option], float]) -> list[Option]:
    scores = [score(option) for option in options]
    return [option for option, value in zip(options, scores, strict=True) if value == min(scores)]


EXPANDERS: Mapping[str, Filter] = {
    "least-waste": _least_waste,
    "most-pods": lambda options, _: _lowest(options, lambda option: -sum(option.helped.values())),
    "least-nodes": lambda options, _: _lowest(options, lambda option: option.nodes),
    "priority": lambda options, _: _lowest(options, lambda option: -option.group.priority),
    "random": lambda options, _: list(options),
}
