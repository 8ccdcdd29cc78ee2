"""Label keys, annotations and manager names that the controller reads or writes: each has its one home here.

`category` says how a pod may be moved. A Deployment selects by `workload` alone, since selectors cannot change and a
workload may move from fixed to flexible. What only the provisioning side needs is in `ebbtide/labels.py`.
"""

from enum import StrEnum

PREFIX = "ebbtide.dev/"

WORKLOAD = PREFIX + "workload"
CATEGORY = PREFIX + "category"

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation that ranks the pods of one ReplicaSet for removal: lowest first. Set on pods marked idle."""

KEEP_UNTIL = PREFIX + "keep-until"
"""Annotation on a worker Deployment or a budget: an instant (RFC 3339) until which nothing is lowered or opened."""

PAUSED = PREFIX + "paused"
"""Annotation on the same objects: why the controller leaves this one alone until the annotation goes."""

MAINTENANCE_UNTIL = PREFIX + "maintenance-until"
"""Annotation on a fixed budget: the instant (RFC 3339) at which the maintenance ends that an operator opened it for."""

CONTROLLER = "ebbtide-controller"
"""Name of the controller's Deployment, account, Lease and ConfigMap."""

FIELD_MANAGER = "ebbtide-controller"
CLOSER = "ebbtide-closer"
"""Name of the closer's CronJobs and account, and its field manager."""

NAMESPACE = "ebbtide"

CLOSED_MINIMUM = 1_000_000
"""`minAvailable` of a closed budget of pods that have no scale: more than a cluster can hold (decision 24)."""


class Category(StrEnum):
    """How a pod may be moved."""

    FIXED = "fixed"  # never: in-memory state, orchestrators
    FLEXIBLE = "flexible"  # outside business hours
    WORKER = "worker"  # never while it lives, but it scales to zero
