"""The parts of a modelled cluster, as plain values.

Units: seconds, millicores, MiB, entire GPUs. A group's sizes are allocatable to pods, DaemonSets subtracted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ebbtide.kube.autoscaler import USUAL_BACKOFF
from ebbtide.kube.taints import Taint, Toleration
from ebbtide.lab.simulator.cluster.capacity import SpotCapacity
from ebbtide.vocabulary.labels import NODE_GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupModel:
    """A node group: one shape, and its limits."""

    name: str
    min: int
    max: int
    cpu_m: int
    memory_mib: int
    gpu: int = 0
    max_pods: int = 110
    priority: int = 0  # with the expander `priority` the group with the highest grows first
    rank: int = 0  # the lowest grows among groups that all expanders find equal; a draw decides between equal ranks
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    boot_s: float = 0.0  # from launch, when billing starts, to a node that takes pods
    boot_step_s: float = 0.0  # the extra delay of each further node launched at the same time
    boot_spread_s: float = 0.0  # the largest random deviation, at most boot_s
    registered_s: float = 0.3  # from the node's registration, when the scheduler sees it, until it takes pods
    initial: int = 0  # booted nodes at the start
    # The tags of the Auto Scaling group; None: the flag for all groups.
    scale_down_unneeded_s: float | None = None
    utilization_threshold: float | None = None
    zones: tuple[str, ...] = ()  # of its nodes, in turn; empty: zones are not modelled
    template_less_cpu_m: int = 0  # CPU that the template lacks until the autoscaler has seen a node

    def most_in(self, zone: str) -> int:
        """The zone's part of `max`: even, with the remainder in the first zones."""
        share, remainder = divmod(self.max, len(self.zones))
        return share + (self.zones.index(zone) < remainder)


LABELS_IGNORED_ANYWHERE = frozenset(
    ("kubernetes.io/hostname", "topology.kubernetes.io/region", "topology.kubernetes.io/zone")
)
LABELS_IGNORED_ON_AWS = LABELS_IGNORED_ANYWHERE | {
    NODE_GROUP,  # set by Ebbtide, and named by a flag
    "eks.amazonaws.com/nodegroup",
    "topology.ebs.csi.aws.com/zone",
}
"""Labels in which similar groups may differ, so the autoscaler balances them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerFlags:
    """The options of the cluster autoscaler that decide node-hours, with its defaults."""

    scan_interval_s: float = 10.0
    scale_down_unneeded_s: float = 600.0
    scale_down_delay_after_add_s: float = 600.0
    scale_down_delay_after_delete_s: float = 10.0  # its default is the scan interval
    scale_down_delay_local: bool = False  # the two delays apply only to the group that changed
    unremovable_recheck_s: float = 300.0
    utilization_threshold: float = 0.5
    max_drain_parallelism: int = 1
    max_scale_down_parallelism: int = 10
    expander: str = "least-waste"
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_system_pods: bool = True
    balance_similar: bool = False
    balancing_ignored_labels: frozenset[str] = LABELS_IGNORED_ON_AWS
    max_graceful_termination_s: float = 600.0
    max_node_provision_s: float = 900.0  # from launch to a node; later the launch has failed
    first_backoff_s: float = USUAL_BACKOFF.total_seconds()  # of a group after a failed launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Accidents:
    """The failures of machines; none by default."""

    failed_boots: float = 0.0  # the share of launches that never become a node
    slow_boots: float = 0.0  # standard deviation of the logarithm of a boot time, whose median is the group's
    image_pull_s: float = 0.0  # the extra start-up time of a workload's first pod on a node
    interruptions_per_hour: Mapping[str, float] = field(default_factory=dict[str, float])  # per node, by group
    missed_notices: float = 0.0  # the share of interruptions without notice
    capacity: SpotCapacity | None = None  # None: every launch has capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadModel:
    """A Deployment: the requests of its pods, and the rules for moving them."""

    name: str
    category: str
    cpu_m: int
    memory_mib: int
    gpu: int = 0
    node_selector: Mapping[str, str] = field(default_factory=dict[str, str])
    groups: frozenset[str] | None = None  # node groups that it may run on, within its selector; None: all
    one_of: frozenset[str] | None = None  # values of the label `ebbtide.dev/node-group` that it requires; None: any
    prefers: str = ""  # a value of this label, with the highest weight; empty: no preference
    one_per_node: bool = False
    anti_affinity_with: tuple[str, ...] = ()  # categories
    pdb_max_unavailable: int | None = None  # None: no budget
    empty_dir: bool = False
    safe_to_evict: bool | None = None
    do_not_disrupt: bool = False  # the annotation of its pods; Karpenter leaves their nodes alone
    deletion_cost: int = 0  # of its pods, from their creation
    grace_s: float = 30.0
    tolerations: tuple[Toleration, ...] = ()
    startup_s: float = 0.0  # from bound to running and ready
    gathers: bool = False  # preferred affinity, by host, with pods of its category
    disks: bool = False  # a StatefulSet whose pods have a disk each, which stays in the zone of its first node
    spreads: bool = True  # softly over hosts: the scheduler's default for a pod without a constraint


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod moved by the autoscaler's drain."""

    at: float
    pod: str
    workload: str
    category: str
    node: str


class StopReason(StrEnum):
    SCALED_IN = "scaled-in"  # its ReplicaSet chose it
    EVICTED = "evicted"  # the autoscaler drains its node
    INTERRUPTED = "interrupted"  # its spot node is interrupted
