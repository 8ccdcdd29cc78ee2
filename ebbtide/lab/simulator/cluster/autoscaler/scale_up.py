"""Scale-up decisions: the group that grows for pods without a node, and the number of new nodes.

A scale-up waits 2 s for more new pods. A waiting GPU pod younger than 30 s delays *every* scale-up and scale-down: the
real autoscaler expects that a GPU node becomes ready soon.
"""

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ebbtide.lab.simulator.cluster.autoscaler.expander import Estimator, Expander, Option
from ebbtide.lab.simulator.cluster.autoscaler.reach import MachineControl
from ebbtide.lab.simulator.cluster.autoscaler.snapshot import Memory
from ebbtide.lab.simulator.cluster.model import AutoscalerFlags, GroupModel, WorkloadModel
from ebbtide.lab.simulator.cluster.scheduler import Placement
from ebbtide.lab.simulator.cluster.state import ClusterState, Pod

PODS_ARRIVE_S = 2.0
GPU_PODS_ARRIVE_S = 30.0


def too_new_until(pods: Sequence[Pod], second: float) -> float:
    """The time at which these waiting pods (at least one) are old enough for a scale-up.

    Creation times are rounded down to a second of the wall clock; `second`: the part of it that has passed at time 0.
    """

    def born(pods: Iterable[Pod]) -> float:
        return math.floor(min(pod.created_at for pod in pods) + second) - second

    until = born(pods) + PODS_ARRIVE_S
    gpu = [pod for pod in pods if pod.spec.gpu]
    return max(until, born(gpu) + GPU_PODS_ARRIVE_S) if gpu else until


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    groups: frozenset[str]
    pods: int  # helped
    takes_s: float  # to launch the nodes


class ScaleUp:
    def __init__(
        self,
        state: ClusterState,
        machines: MachineControl,
        placement: Placement,
        flags: AutoscalerFlags,
        memory: Memory,
    ) -> None:
        self._state = state
        self._machines = machines
        self._placement = placement
        self._balance = flags.balance_similar
        self._ignored_labels = flags.balancing_ignored_labels
        self._memory = memory
        self._expander = Expander(flags.expander, memory.rng)
        self.paused_zones: Callable[[GroupModel], frozenset[str]] = lambda _: frozenset()  # launches failed recently

    def help(self, pods: Iterable[Pod]) -> Growth | None:
        """Launch nodes for pods that fit nowhere; None if no group can help."""
        workloads = {name: deployment.spec for name, deployment in self._state.deployments.items()}
        counts = Counter(pod.kind for pod in pods)
        waiting = [_Waiting(workloads[name], zone, pods) for (name, zone), pods in counts.items()]
        options = [
            option
            for group in self._state.autoscaled.values()
            for zone in _zones_needed(group, waiting)
            if (option := self._option(group, zone, waiting)).nodes
        ]
        if not options:
            return None
        best = self._expander.best(options, workloads)
        similar = self._similar(best.group, best.zone, [workloads[name] for name in best.helped])
        grown: list[GroupModel] = []
        for _ in range(best.nodes):
            grown.append(min(self._open(similar), key=lambda group: self._machines.counts[group.name]))
            self._machines.launch(grown[-1], zone=best.zone or self._zone_for(grown[-1]))
        return Growth(
            groups=frozenset(group.name for group in grown),
            pods=sum(best.helped.values()),
            takes_s=sum(group.boot_step_s for group in grown),
        )

    def _option(self, group: GroupModel, zone: str, waiting: Sequence["_Waiting"]) -> Option:
        empty = self._memory.templates.room(group)
        fitting = [
            (workload, pods)
            for workload, disk, pods in waiting
            if disk in ("", zone) and self._placement.takes(group, workload) and empty.fits(workload)
        ]
        similar = self._open(self._similar(group, zone, [workload for workload, _ in fitting]))
        if not fitting or group not in similar or zone in self.paused_zones(group):
            return Option(group, 0, {})
        limit = sum(self._left_in_zones(twin) for twin in similar)
        nodes = sum(not node.leaving for node in self._state.nodes.values())
        if zone:
            limit = min(limit, self._left(group)[zone])
        return Estimator(self._memory, nodes).estimate(group, fitting, limit, zone)

    def _open(self, groups: Iterable[GroupModel]) -> list[GroupModel]:
        return [group for group in groups if self._left_in_zones(group) > 0]

    def _left_in_zones(self, group: GroupModel) -> int:
        """Return the nodes that the group may still get in zones that do not pause."""
        paused = self.paused_zones(group)
        if not paused:
            return group.max - self._machines.counts[group.name]
        return sum(left for zone, left in self._left(group).items() if zone not in paused) if group.zones else 0

    def _left(self, group: GroupModel) -> dict[str, int]:
        """Return the nodes that each zone of the group may still get."""
        nodes = Counter(node.zone for node in self._state.nodes.values() if node.shape is group)
        return {zone: max(0, group.most_in(zone) - nodes[zone]) for zone in group.zones}

    def _zone_for(self, group: GroupModel) -> str:
        """Return the zone of the next node; empty: any."""
        paused = self.paused_zones(group)
        if not paused:
            return ""
        left = {zone: number for zone, number in self._left(group).items() if zone not in paused}
        return max(left, key=lambda zone: left[zone])

    def _similar(self, group: GroupModel, zone: str, workloads: Sequence[WorkloadModel]) -> list[GroupModel]:
        """The group and, if groups are balanced, similar ones that take the same pods."""
        if zone or not self._balance:
            return [group]
        return [
            group,
            *(
                twin
                for twin in self._state.autoscaled.values()
                if twin is not group
                and _shape(twin, self._ignored_labels) == _shape(group, self._ignored_labels)
                and all(self._placement.takes(twin, workload) for workload in workloads)
            ),
        ]


class _Waiting(NamedTuple):
    workload: WorkloadModel
    zone: str  # of the pods' disks; empty: any
    pods: int


def _zones_needed(group: GroupModel, waiting: Iterable[_Waiting]) -> list[str]:
    """The group's zones with disks of waiting pods; the real autoscaler has a separate group for each zone."""
    return sorted({kind.zone for kind in waiting if kind.zone in group.zones}) or [""]


def _shape(group: GroupModel, ignored: Container[str]) -> tuple[object, ...]:
    labels = {key: value for key, value in group.labels.items() if key not in ignored}
    return group.cpu_m, group.memory_mib, group.gpu, group.max_pods, group.taints, tuple(sorted(labels.items()))
