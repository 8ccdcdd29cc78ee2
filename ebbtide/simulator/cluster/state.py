"""What exists in the modelled cluster: nodes and the room on them, Deployments, their pods, and who is told of both.

Every index is kept by the pod or node that changes, so no event costs a walk over all pods.
"""

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ebbtide.simulator.cluster.model import GroupModel, StopReason, WorkloadModel


class Room:
    """What is free on a node, and who is there as far as placement asks. Copies are cheap, for what-if questions."""

    __slots__ = ("by_category", "by_workload", "cpu_m", "gpu", "memory_mib", "pods_left", "repelled")

    def __init__(self, group: GroupModel) -> None:
        self.cpu_m = group.cpu_m
        self.memory_mib = group.memory_mib
        self.gpu = group.gpu
        self.pods_left = group.max_pods
        self.by_workload: dict[str, int] = {}
        self.by_category: dict[str, int] = {}
        self.repelled: dict[str, int] = {}  # categories that pods here refuse to be with, and how many refuse

    def copy(self) -> "Room":
        twin = Room.__new__(Room)
        twin.cpu_m, twin.memory_mib = self.cpu_m, self.memory_mib
        twin.gpu, twin.pods_left = self.gpu, self.pods_left
        twin.by_workload = self.by_workload.copy()
        twin.by_category = self.by_category.copy()
        twin.repelled = self.repelled.copy()
        return twin

    def fits(self, workload: WorkloadModel) -> bool:
        """Resources, and required anti-affinity both ways. A full node is told from its counts, not its pods."""
        if (
            workload.cpu_m > self.cpu_m
            or workload.memory_mib > self.memory_mib
            or workload.gpu > self.gpu
            or self.pods_left < 1
            or workload.category in self.repelled
            or (workload.one_per_node and workload.name in self.by_workload)
        ):
            return False
        return not any(category in self.by_category for category in workload.anti_affinity_with)

    def take(self, workload: WorkloadModel) -> None:
        self._change(workload, 1)

    def give_back(self, workload: WorkloadModel) -> None:
        self._change(workload, -1)

    def _change(self, workload: WorkloadModel, by: int) -> None:
        self.cpu_m -= by * workload.cpu_m
        self.memory_mib -= by * workload.memory_mib
        self.gpu -= by * workload.gpu
        self.pods_left -= by
        count(self.by_workload, workload.name, by)
        count(self.by_category, workload.category, by)
        for category in workload.anti_affinity_with:
            count(self.repelled, category, by)


def count(counts: dict[str, int], key: str, by: int) -> None:
    """Keep only what is there: a key that is present means "at least one"."""
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        del counts[key]


PodKind: TypeAlias = tuple[str, str]
"""Workload and zone: pods that any node answers alike."""


@dataclass(slots=True, eq=False)
class Node:
    name: str
    shape: GroupModel
    launched_at: float
    ready_at: float
    room: Room
    pods: dict[str, "Pod"] = field(default_factory=dict[str, "Pod"])  # by name; terminating ones included
    ready: bool = False
    leaving: bool = False  # the autoscaler is removing it: takes no pods, not counted, still billed
    images: set[str] = field(default_factory=set[str])  # workloads whose image is here, where that matters
    unwanted: bool = False  # marked by the autoscaler as likely to go: the scheduler prefers others
    stopping: dict[str, int] = field(default_factory=dict[str, int])  # of its pods those that stop, by workload
    zone: str = ""  # empty: nobody asks

    @property
    def group(self) -> str:
        return self.shape.name


@dataclass(slots=True, eq=False)
class Pod:
    name: str
    workload: str
    created_at: float
    spec: WorkloadModel
    node: Node | None = None
    running_since: float | None = None
    deletion_cost: int = 0
    cost_seen: int = 0  # its deletion cost in the ReplicaSet controller's cache, which may lag
    stopping: bool = False
    failed_last: int = 0  # the number of the scheduler's last attempt that found no node
    slot: int | None = None  # which of its set's disks is its own
    zone: str = ""  # where its disk is, and so the pod; empty: it may go anywhere

    @property
    def kind(self) -> "PodKind":
        return self.workload, self.zone

    def may_run_on(self, node: Node) -> bool:
        """As far as its disk goes."""
        return not self.zone or self.zone == node.zone

    @property
    def healthy(self) -> bool:
        """Counts as available for its budget."""
        return self.running_since is not None and not self.stopping


@dataclass(slots=True, eq=False)
class Deployment:
    spec: WorkloadModel
    wanted: int = 0
    max_unavailable: int | None = None
    pods: dict[str, Pod] = field(default_factory=dict[str, Pod])  # by name, oldest first; terminating ones included
    staying: int = 0  # pods that are not terminating
    healthy: int = 0
    born: int = 0  # pods ever created, for their names
    disks: dict[int, str] = field(default_factory=dict[int, str])  # their zones, by slot; they outlive their pods
    changed: dict[str, Pod | None] = field(default_factory=dict[str, Pod | None])  # since somebody asked; None: gone

    @property
    def disruptions_allowed(self) -> int | None:
        """How many more pods may be moved now; None when nothing limits it."""
        if self.max_unavailable is None:
            return None
        if self.wanted <= 0 or (self.max_unavailable == 0 and self.healthy <= self.wanted):
            return 0
        return max(0, self.healthy - max(0, self.wanted - self.max_unavailable))


class Listener(Protocol):
    """Told by the model at the virtual instant. Calls back into the model are fine: they take effect as events."""

    def pod_running(self, pod: Pod) -> None: ...

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:
        """SIGTERM to a running pod: seconds until its process exits by itself, or None, which promises a later
        `ClusterModel.pod_exited`. When the grace period is over it is killed in any case.
        """
        ...

    def pod_gone(self, pod: Pod, killed: bool) -> None:  # noqa: FBT001 - one fact about the pod, always named
        """The pod no longer exists; also told of pods that never ran (they were not asked to stop)."""
        ...

    def nodes_changed(self) -> None:
        """A node was launched, became ready, began to leave or is gone."""
        ...


@dataclass(slots=True)
class ClusterState:
    groups: dict[str, GroupModel]
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    deployments: dict[str, Deployment] = field(default_factory=dict[str, Deployment])
    unschedulable: dict[str, Pod] = field(default_factory=dict[str, Pod])  # by name: tried, and no node took it
    uncertain: dict[str, Node] = field(default_factory=dict[str, Node])  # launches that may come late, or never
    version: int = 0  # raised by every change
    watchers: list[dict[str, Node]] = field(default_factory=list[dict[str, Node]])
    """Where each watcher finds the nodes that changed in what the scheduler asks; it clears its own."""

    def touch(self, node: Node) -> None:
        """Call it after every change of a node or of the room on it."""
        for changed in self.watchers:
            changed[node.name] = node

    def mark(self, node: Node, *, unwanted: bool) -> None:
        """The autoscaler's soft taint, put on or taken off."""
        if node.unwanted != unwanted:
            node.unwanted = unwanted
            self.touch(node)
