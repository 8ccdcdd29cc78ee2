"""Label keys, annotations, taints and manager names: each has its one home here.

`category` says how a pod may be moved and is set on pods; `node-group` says which group a node belongs to and
`node-kind` which kind that group is, and both are set on nodes. A Deployment selects by `workload` alone, since
selectors cannot change and a workload may move from fixed to flexible.
"""

from enum import StrEnum

PREFIX = "ebbtide.dev/"

WORKLOAD = PREFIX + "workload"
CATEGORY = PREFIX + "category"
CUSTOMER = PREFIX + "customer"
POOL = PREFIX + "pool"
NODE_GROUP = PREFIX + "node-group"
NODE_KIND = PREFIX + "node-kind"

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation that ranks the pods of one ReplicaSet for removal: lowest first. Set on pods marked idle."""

SECRET_KEYS = PREFIX + "secret-keys"
"""Annotation on a Secret: the names of its values, comma-separated, for whoever must make it by hand."""

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
WORKER_NAMESPACE = "ebbtide-workers"

GPU_RESOURCE = "nvidia.com/gpu"
GPU_TAINT_KEY = "nvidia.com/gpu"
GPU_TAINT_VALUE = "true"


class Category(StrEnum):
    """How a pod may be moved."""

    FIXED = "fixed"  # never: in-memory state, orchestrators
    FLEXIBLE = "flexible"  # outside business hours
    WORKER = "worker"  # never while it lives, but it scales to zero


class NodeKind(StrEnum):
    """What a node group is for."""

    FIXED = "fixed"
    FLEXIBLE = "flexible"
    GPU = "gpu"
    SPOT = "spot"


class ReplicasOwner(StrEnum):
    """Who writes `spec.replicas` of a workload; exactly one."""

    PULUMI = "pulumi"
    CONTROLLER = "controller"
    HPA = "hpa"
