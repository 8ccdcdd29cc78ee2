"""Growing: which pods wait, whether nodes that exist or boot would take them, and how many nodes of which group to add.

New pods are given 2 s to arrive together. A waiting GPU pod younger than 30 s holds back *every* scale-up, and all
scale-down with it: the real autoscaler hopes that a GPU node is about to become ready.
"""

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from ebbtide.simulator.cluster.autoscaler.estimator import Estimator, Option
from ebbtide.simulator.cluster.autoscaler.expander import Expander
from ebbtide.simulator.cluster.autoscaler.reach import Fleet
from ebbtide.simulator.cluster.autoscaler.snapshot import Memory
from ebbtide.simulator.cluster.model import AutoscalerFlags, GroupModel, WorkloadModel
from ebbtide.simulator.cluster.scheduler import Placement
from ebbtide.simulator.cluster.state import ClusterState, Pod

PODS_ARRIVE_S = 2.0
GPU_PODS_ARRIVE_S = 30.0


def too_new_until(pods: Sequence[Pod], second: float) -> float:
    """When these pods, all of them waiting and at least one, are old enough to be helped.

    A pod's creation is written down in whole seconds of the wall clock, which is `second` into one at the start.
    """

    def born(pods: Iterable[Pod]) -> float:
        return math.floor(min(pod.created_at for pod in pods) + second) - second

    until = born(pods) + PODS_ARRIVE_S
    gpu = [pod for pod in pods if pod.spec.gpu]
    return max(until, born(gpu) + GPU_PODS_ARRIVE_S) if gpu else until


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    groups: frozenset[str]
    pods: int  # that it helps
    takes_s: float  # to launch the nodes


class ScaleUp:
    def __init__(
        self,
        state: ClusterState,
        machines: Fleet,
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
        self.paused: Callable[[str], bool] = lambda _: False  # groups, by name, whose launches failed lately

    def help(self, pods: Iterable[Pod]) -> Growth | None:
        """Launch nodes for pods that fit nowhere; None when no group can help."""
        workloads = {name: deployment.spec for name, deployment in self._state.deployments.items()}
        counts = Counter(pod.workload for pod in pods)
        options = [
            option
            for group in self._state.groups.values()
            if (option := self._option(group, [(workloads[name], count) for name, count in counts.items()])).nodes
        ]
        if not options:
            return None
        best = self._expander.best(options, workloads)
        similar = self._similar(best.group, [workloads[name] for name in best.helped])
        grown: list[GroupModel] = []
        for _ in range(best.nodes):
            grown.append(min(self._open(similar), key=lambda group: self._machines.counts[group.name]))
            self._machines.launch(grown[-1])
        return Growth(
            groups=frozenset(group.name for group in grown),
            pods=sum(best.helped.values()),
            takes_s=sum(group.boot_step_s for group in grown),
        )

    def _option(self, group: GroupModel, waiting: Sequence[tuple[WorkloadModel, int]]) -> Option:
        empty = self._memory.templates.room(group)
        fitting = [kind for kind in waiting if self._placement.takes(group, kind[0]) and empty.fits(kind[0])]
        similar = self._open(self._similar(group, [workload for workload, _ in fitting]))
        if not fitting or group not in similar:
            return Option(group, 0, {})
        room = sum(twin.max - self._machines.counts[twin.name] for twin in similar)
        nodes = sum(not node.leaving for node in self._state.nodes.values())
        return Estimator(self._memory, nodes).estimate(group, fitting, room)

    def _open(self, groups: Iterable[GroupModel]) -> list[GroupModel]:
        return [
            group for group in groups if self._machines.counts[group.name] < group.max and not self.paused(group.name)
        ]

    def _similar(self, group: GroupModel, workloads: Sequence[WorkloadModel]) -> list[GroupModel]:
        """The group itself and, when they are to be kept in balance, those alike that take the same pods."""
        if not self._balance:
            return [group]
        return [
            group,
            *(
                twin
                for twin in self._state.groups.values()
                if twin is not group
                and _shape(twin, self._ignored_labels) == _shape(group, self._ignored_labels)
                and all(self._placement.takes(twin, workload) for workload in workloads)
            ),
        ]


def _shape(group: GroupModel, ignored: Container[str]) -> tuple[object, ...]:
    labels = {key: value for key, value in group.labels.items() if key not in ignored}
    return group.cpu_m, group.memory_mib, group.gpu, group.max_pods, group.taints, tuple(sorted(labels.items()))
