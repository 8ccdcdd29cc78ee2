"""Which group grows when several could help; names joined by commas are tried in turn, and what still ties is drawn.

How many new nodes of one group would take the waiting pods: first fit, biggest pods first, as the autoscaler packs.

The packing is the autoscaler's own, not the best one and not the scheduler's: pods of one kind go on top of what was
packed before, each on the first fitting node after a random one; once one fits nowhere, only the newest node or another
new one is tried. So kinds of one size may take more nodes than they need, and not the same number each time.

Source: kubernetes/autoscaler 1.35.2, estimator/binpacking_estimator.go and decreasing_pod_orderer.go.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.simulator.cluster.autoscaler.snapshot import SLOTS, Memory, beginning
from ebbtide.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.simulator.cluster.state import Room


@dataclass(frozen=True, slots=True)
class Option:
    """Growing one group: the nodes it takes and the pods, by workload, that they help."""

    group: GroupModel
    nodes: int
    helped: Mapping[str, int]
    zone: str = ""  # where the nodes have to be; empty: anywhere


@dataclass(frozen=True, slots=True)
class Estimator:
    memory: Memory
    nodes: int  # that exist or boot: a search passes them by before it meets the new ones

    def estimate(
        self, group: GroupModel, waiting: Sequence[tuple[WorkloadModel, int]], limit: int, zone: str = ""
    ) -> Option:
        """`waiting`: kinds of pods that fit an empty node of the group, and how many; at most `limit` new nodes."""
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
        left = list(options)
        for narrow in self._filters:
            left = narrow(left, workloads)
        return left[0] if len(left) == 1 else self._rng.choice(left)


def _least_waste(options: Sequence[Option], workloads: Workloads) -> list[Option]:
    """The sum of the unused shares of CPU and memory on the new nodes; GPUs do not count, as in the real one."""

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
