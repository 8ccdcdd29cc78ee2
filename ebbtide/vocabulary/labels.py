"""Label keys, annotations and names that provisioning and the controllers share.

Keys that only provisioning uses are in `ebbtide/provisioning_labels.py`.
"""

from enum import StrEnum

NAMESPACE = "ebbtide"
CONTROLLER = "ebbtide-controller"
"""Name of the controller's Deployment, account, Lease and ConfigMap."""
FIELD_MANAGER = "ebbtide-controller"
CLOSER = "ebbtide-closer"
"""Name of the closer's CronJobs and account, and its field manager."""
WORKLOADS = "ebbtide-workloads"
"""Name of the workload controller's Deployment, account and Lease, and its field manager."""
EXPORTER = "ebbtide-exporter"
"""Name of the exporter's Deployment, account, roles and ConfigMap."""

EVENTS_OF_CLUSTER = "default"
"""Namespace in which Kubernetes accepts Events of objects without a namespace."""

PREFIX = "ebbtide.dev/"

WORKLOAD = PREFIX + "workload"
"""Label of pods, and the only label by which a Deployment selects: selectors cannot change, but categories may."""
CATEGORY = PREFIX + "category"
NODE_GROUP = PREFIX + "node-group"
"""Label of nodes: the name of their group."""
NODE_KIND = PREFIX + "node-kind"
"""Label of nodes: the kind of their group."""
ADOPT = PREFIX + "adopt"
"""Label of a pod in a team's namespace: with "no" the admission policy does not change the pod."""
GPU_RESOURCE = "nvidia.com/gpu"

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation that ranks the pods of one ReplicaSet for removal: lowest first. Set on pods marked idle."""

KEEP_UNTIL = PREFIX + "keep-until"
"""Annotation on a worker Deployment or a budget: an instant (RFC 3339) until which nothing is lowered or opened."""

PAUSED = PREFIX + "paused"
"""Annotation on the same objects: a reason. The controller leaves the object alone until the annotation is removed."""

MAINTENANCE_UNTIL = PREFIX + "maintenance-until"
"""Annotation on a fixed budget that an operator opened: the instant (RFC 3339) at which the maintenance ends."""

SPEC = PREFIX + "spec"
"""Annotation on a RayCluster: the desired spec as JSON. The controller decides when to write each part."""

SLEEP = PREFIX + "sleep"
"""Annotation on a workload that may sleep: when it sleeps, and what wakes it, as JSON (`Sleep`)."""

WAKE_UNTIL = PREFIX + "wake-until"
"""Annotation on the same objects: an instant (RFC 3339) until which the object stays awake, if `wake` has `manual`."""

SLEEP_UNTIL = PREFIX + "sleep-until"
"""Annotation on a Deployment or StatefulSet that may sleep: an instant (RFC 3339) until which an operator lets it
sleep, even in business hours."""

APPLY_UNTIL = PREFIX + "apply-until"
"""Annotation on a RayCluster: an instant (RFC 3339) until which a pending spec may interrupt running work."""

ASLEEP_FOR = PREFIX + "asleep-for"
"""Annotation that the workload controller writes with `spec.suspend`: the `Purpose` of the sleep."""

CLOSED_MINIMUM = 1_000_000
"""`minAvailable` of a closed budget whose pods have no scale: more than a cluster can hold (decision 24)."""


class Category(StrEnum):
    """When a pod may be moved."""

    FIXED = "fixed"  # never: in-memory state, orchestrators
    FLEXIBLE = "flexible"  # outside business hours
    WORKER = "worker"  # never while it lives, but it scales to zero
