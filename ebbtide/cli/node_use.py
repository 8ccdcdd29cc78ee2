"""How full a node is, as the cluster autoscaler counts it: requests against what the node can give. Pure."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from ebbtide.cli.controller_status import at
from ebbtide.vocabulary.labels import GPU_RESOURCE

_UNITS = {
    "m": Decimal("0.001"),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def quantity(text: object) -> Decimal:
    """A Kubernetes quantity as a number; 0 for what is missing or written otherwise."""
    found = str(text or "0")
    for suffix in sorted(_UNITS, key=len, reverse=True):
        if found.endswith(suffix):
            found, unit = found.removesuffix(suffix), Decimal(_UNITS[suffix])
            return Decimal(found) * unit if _is_number(found) else Decimal(0)
    return Decimal(found) if _is_number(found) else Decimal(0)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


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
    """All containers together, or the largest init container where that asks for more."""

    def asks(kind: str) -> list[Decimal]:
        containers = at(pod, "spec", kind) or ()
        return [quantity(at(container, "resources", "requests", resource)) for container in containers]

    return max(sum(asks("containers"), Decimal(0)), *asks("initContainers"), Decimal(0))
