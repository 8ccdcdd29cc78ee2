"""The state of the modelled cluster: nodes and their free resources, Deployments, pods, and listeners.

Each change of a pod or node updates the indexes, so no event walks over all pods.
"""

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ebbtide.lab.simulator.cluster.model import GroupModel, StopReason, WorkloadModel


class Room:
    """The free resources of a node, and counts of its pods for placement. Copies are cheap, for what-if questions."""

    __slots__ = ("by_category", "by_workload", "cpu_m", "gpu", "memory_mib", "pods_left", "repelled")

    def __init__(self, group: GroupModel) -> None:
        self.cpu_m = group.cpu_m
        self.memory_mib = group.memory_mib
        self.gpu = group.gpu
        self.pods_left = group.max_pods
        self.by_workload: dict[str, int] = {}
        self.by_category: dict[str, int] = {}
        self.repelled: dict[str, int] = {}  # the number of pods here that refuse a category, by category

    def copy(self) -> "Room":
        twin = Room.__new__(Room)
        twin.cpu_m, twin.memory_mib = self.cpu_m, self.memory_mib
        twin.gpu, twin.pods_left = self.gpu, self.pods_left
        twin.by_workload = self.by_workload.copy()
        twin.by_category = self.by_category.copy()
        twin.repelled = self.repelled.copy()
        return twin

    def fits(self, workload: WorkloadModel) -> bool:
        """Check resources, and required anti-affinity in both directions."""
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
    """Change a count; a count of 0 has no key."""
    changed = counts.get(key, 0) + by
    if changed:
        counts[key] = changed
    else:
        del counts[key]


PodKind: TypeAlias = tuple[str, str]
"""Workload and zone: pods of one kind have the same result on any node."""


@dataclass(slots=True, eq=False)
class Node:
    name: str
    shape: GroupModel
    launched_at: float
    ready_at: float
    room: Room
    pods: dict[str, "Pod"] = field(default_factory=dict[str, "Pod"])  # by name; terminating ones included
    ready: bool = False
    leaving: bool = False  # the autoscaler removes it: takes no pods, not counted, still billed
    images: set[str] = field(default_factory=set[str])  # workloads whose image is on the node, if pulls are modelled
    unwanted: bool = False  # marked by the autoscaler for removal: the scheduler prefers others
    stopping: dict[str, int] = field(default_factory=dict[str, int])  # its stopping pods, by workload
    zone: str = ""  # empty: zones are not modelled
    lacking: bool = False  # requested while its zone has no capacity: no machine exists, and nothing is billed

    @property
    def group(self) -> str:
        return self.shape.name

    @property
    def registered_at(self) -> float:
        """When the scheduler first sees the node, which takes no pods yet."""
        return self.ready_at - self.shape.registered_s


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
    do_not_disrupt: bool = False  # Karpenter leaves its node alone
    stopping: bool = False
    failed_last: int = 0  # the number of the scheduler's last attempt that found no node
    slot: int | None = None  # the number of its disk in its set
    zone: str = ""  # of its disk; empty: any

    @property
    def kind(self) -> "PodKind":
        return self.workload, self.zone

    def may_run_on(self, node: Node) -> bool:
        """True if the pod's disk is in the node's zone, or the pod has no disk in a zone."""
        return not self.zone or self.zone == node.zone

    @property
    def healthy(self) -> bool:
        """True if the pod's budget counts it as available."""
        return self.running_since is not None and not self.stopping


@dataclass(slots=True, eq=False)
class Deployment:
    spec: WorkloadModel
    replicas: int = 0  # requested
    max_unavailable: int | None = None
    pods: dict[str, Pod] = field(default_factory=dict[str, Pod])  # by name, oldest first; terminating ones included
    staying: int = 0  # pods that are not terminating
    healthy: int = 0
    born: int = 0  # pods ever created, for their names
    disks: dict[int, str] = field(default_factory=dict[int, str])  # their zones, by slot; they outlive their pods
    changed: dict[str, Pod | None] = field(default_factory=dict[str, Pod | None])  # since the last query; None: deleted

    @property
    def disruptions_allowed(self) -> int | None:
        """The number of pods that may be moved now; None without a budget."""
        if self.max_unavailable is None:
            return None
        if self.replicas <= 0 or (self.max_unavailable == 0 and self.healthy <= self.replicas):
            return 0
        return max(0, self.healthy - max(0, self.replicas - self.max_unavailable))


class Listener(Protocol):
    """Callbacks of the model. They may call the model: changes take effect as events."""

    def pod_running(self, pod: Pod) -> None: ...

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:
        """SIGTERM to a running pod: return the seconds until its process exits, or None if `ClusterModel.pod_exited`
        follows. After the grace period it is killed in any case.
        """
        ...

    def pod_gone(self, pod: Pod, killed: bool) -> None:  # noqa: FBT001 - a property of the pod
        """The pod no longer exists. Also called for pods that never ran, without `pod_stopping`."""
        ...

    def nodes_changed(self) -> None:
        """A node was launched, became ready, began to leave or was terminated."""
        ...


@dataclass(slots=True)
class ClusterState:
    groups: dict[str, GroupModel]
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    deployments: dict[str, Deployment] = field(default_factory=dict[str, Deployment])
    unschedulable: dict[str, Pod] = field(default_factory=dict[str, Pod])  # by name: pods that no node took
    uncertain: dict[str, Node] = field(default_factory=dict[str, Node])  # launches that may be late or fail
    by_zone: frozenset[str] = frozenset()  # groups whose capacity is modelled: each of their zones pauses separately
    version: int = 0  # incremented by every change
    autoscaled: dict[str, GroupModel] = field(init=False)  # groups that the cluster autoscaler scales; by default all
    watchers: list[dict[str, Node]] = field(default_factory=list[dict[str, Node]])
    """For each watcher the nodes whose scheduling properties changed; the watcher clears it."""

    def __post_init__(self) -> None:
        self.autoscaled = self.groups

    def touch(self, node: Node) -> None:
        """Record a change of a node or of its free resources."""
        for changed in self.watchers:
            changed[node.name] = node

    def mark(self, node: Node, *, unwanted: bool) -> None:
        """Set or remove the autoscaler's soft taint."""
        if node.unwanted != unwanted:
            node.unwanted = unwanted
            self.touch(node)
