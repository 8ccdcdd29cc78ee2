"""How full a node is, as the cluster autoscaler counts it: requests against what the node can give. Pure."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from ebbtide.operate.objects import at
from ebbtide.units.quantities import read_quantity
from ebbtide.vocabulary.labels import GPU_RESOURCE


def quantity(text: object) -> Decimal:
    """A Kubernetes quantity as a number; 0 for what is missing or written otherwise."""
    return read_quantity(text) or Decimal(0)


def utilisation(node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], *, daemons_count: bool) -> float:
    """The larger of CPU and memory; on a node with GPUs the GPUs alone, since they are what costs."""
    resources = [GPU_RESOURCE] if quantity(at(node, "status", "allocatable", GPU_RESOURCE)) else ["cpu", "memory"]
    counted = [pod for pod in pods if _counts(pod, daemons_count=daemons_count)]
    shares: list[float] = []
    for resource in resources:
        room = quantity(at(node, "status", "allocatable", resource))
        if room:
            shares.append(float(sum((requested(pod, resource) for pod in counted), Decimal(0)) / room))
    return max(shares, default=0.0)


def _counts(pod: Mapping[str, Any], *, daemons_count: bool) -> bool:
    ended = at(pod, "status", "phase") in ("Succeeded", "Failed")
    daemon = any(owner.get("kind") == "DaemonSet" for owner in at(pod, "metadata", "ownerReferences") or ())
    return not ended and (daemons_count or not daemon)


def requested(pod: Mapping[str, Any], resource: str) -> Decimal:
    """The total of all containers, or the largest init container where that asks for more."""

    def asks(kind: str) -> list[Decimal]:
        containers = at(pod, "spec", kind) or ()
        return [quantity(at(container, "resources", "requests", resource)) for container in containers]

    return max(sum(asks("containers"), Decimal(0)), *asks("initContainers"), Decimal(0))
