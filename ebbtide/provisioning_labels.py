"""Label keys, namespaces and kinds that only provisioning uses.

Names that the controllers share are in `ebbtide/vocabulary/labels.py`.
"""

from enum import StrEnum

from ebbtide.vocabulary.labels import PREFIX

CUSTOMER = PREFIX + "customer"
POOL = PREFIX + "pool"
SERVICE = PREFIX + "service"
"""Label of a service's autoscalers, Services and routes. KEDA copies it to the HPA that it creates."""

SERVES = PREFIX + "serves"
"""Label of pods that receive a service's requests without a condition or weight: the service's name."""

SHARED_BY = PREFIX + "shared-by"
"""Annotation on a route to pods of several names: the names, comma-separated."""

VOLUME = PREFIX + "volume"
"""Tag of an EBS volume and its snapshots: customer, workload and volume, joined by dots."""

SELF_MADE_SECRETS = PREFIX + "self-made-secrets"
"""Annotation on pods: Secrets for which they wait, and which another pod of the component creates, comma-separated."""

SECRET_KEYS = PREFIX + "secret-keys"
"""Annotation on a Secret: the names of its values, comma-separated, so that it can be created by hand."""

FILES_DIGEST = PREFIX + "files-digest"
"""Annotation on a pod: a digest of the files in its ConfigMaps, so that pods roll when a file changes."""
SECRETS_DIGEST = PREFIX + "secrets-digest"
"""Annotation on a pod: a keyed digest of the stack's Secrets that it uses, so that pods roll when a Secret changes."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Annotation: with "false" the autoscaler keeps the pod's node. No other program reads it."""

WORKER_NAMESPACE = "ebbtide-workers"

NVIDIA = "nvidia.com/"
"""Prefix of NVIDIA's resource names, including slices of a GPU."""
GPU_MEMORY = "nvidia.com/gpu.memory"
"""Label of a node: memory of each GPU in MiB. Source: NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery."""

ARCH = "kubernetes.io/arch"
"""Label of every node: its processor architecture."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
"""Label of Karpenter's nodes: spot or on-demand."""


class Architecture(StrEnum):
    """Processor architecture for which an image is built."""

    AMD64 = "amd64"
    ARM64 = "arm64"
    ANY = "any"


class NodeKind(StrEnum):
    """Purpose of a node group."""

    FIXED = "fixed"
    FLEXIBLE = "flexible"
    GPU = "gpu"
    SPOT = "spot"


class Provisioner(StrEnum):
    """The program that adds and removes the nodes of a group."""

    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "karpenter"


class ReplicasOwner(StrEnum):
    """The one writer of a workload's `spec.replicas`."""

    PULUMI = "pulumi"
    CONTROLLER = "controller"
    HPA = "hpa"
