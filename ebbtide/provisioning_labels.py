"""Label keys, taints, namespaces and kinds that only provisioning uses.

What the controllers read or write too is in `ebbtide/vocabulary/labels.py`.
"""

from enum import StrEnum

from ebbtide.vocabulary.labels import PREFIX

CUSTOMER = PREFIX + "customer"
POOL = PREFIX + "pool"
SERVICE = PREFIX + "service"
"""Label of what sizes the pods of a service and leads to them. KEDA copies it to the HPA that it makes."""

SERVES = PREFIX + "serves"
"""Label of the pods that take the requests of a service which no condition and no weight leads elsewhere: its name."""

SHARED_BY = PREFIX + "shared-by"
"""Annotation on a route to pods of several names: these names, comma-separated."""

VOLUME = PREFIX + "volume"
"""Tag on a disk of EBS and on its snapshots: the customer, the workload and its volume, with dots between them."""

SELF_MADE_SECRETS = PREFIX + "self-made-secrets"
"""Annotation on pods: Secrets that they wait for and that a program of the same part makes, comma-separated."""

SECRET_KEYS = PREFIX + "secret-keys"
"""Annotation on a Secret: the names of its values, comma-separated, for whoever must make it by hand."""

FILES_DIGEST = PREFIX + "files-digest"
"""Annotation on a pod: changes with the files that its ConfigMaps hold, so that the pods roll."""
SECRETS_DIGEST = PREFIX + "secrets-digest"
"""Annotation on a pod: a keyed digest of what it takes from the stack's Secrets, so that it rolls with them."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Annotation: with "false" the autoscaler leaves the pod's node alone, and nobody else asks it."""

WORKER_NAMESPACE = "ebbtide-workers"

NVIDIA = "nvidia.com/"
"""What the names of NVIDIA's resources begin with, those of slices of a GPU too."""
GPU_MEMORY = "nvidia.com/gpu.memory"
"""Label of a node: MiB of each of its GPUs. Source: NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery."""
GPU_TAINT_KEY = "nvidia.com/gpu"
GPU_TAINT_VALUE = "true"


ARCH = "kubernetes.io/arch"
"""Label of every node: the processor that it has."""


class Architecture(StrEnum):
    """Processor architecture that an image is built for."""

    AMD64 = "amd64"
    ARM64 = "arm64"
    ANY = "any"


class NodeKind(StrEnum):
    """Purpose of a node group."""

    FIXED = "fixed"
    FLEXIBLE = "flexible"
    GPU = "gpu"
    SPOT = "spot"


class ReplicasOwner(StrEnum):
    """Who writes `spec.replicas` of a workload; exactly one."""

    PULUMI = "pulumi"
    CONTROLLER = "controller"
    HPA = "hpa"
