"""Raw objects of the API server and documents of the controller; a missing key reads as None."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeAlias, cast

from controllers.exporter import requests
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, GPU_RESOURCE

Document: TypeAlias = Mapping[str, Any]

_LEAST = "minAvailable "
_UNITS: Mapping[str, Decimal] = {"cpu": Decimal(1000), "memory": Decimal(1) / 2**20}


def at(document: object, *path: str) -> Any:
    """Return the value at a path of keys; None if any is missing."""
    for key in path:
        if not isinstance(document, Mapping):
            return None
        document = cast("Document", document).get(key)
    return document


def words_at(document: object, *path: str) -> Mapping[str, str]:
    """Return the text mapping at a path, such as labels or annotations; empty if there is none."""
    mapping: Mapping[str, str] | None = at(document, *path)
    return mapping or {}


def rows_at(document: object, *path: str) -> list[Document]:
    """Return the objects of the list at a path."""
    value = at(document, *path)
    rows = cast("Sequence[object]", value) if isinstance(value, list) else ()
    return [cast("Document", row) for row in rows if isinstance(row, Mapping)]


def annotations_of(item: Document) -> Mapping[str, str]:
    return words_at(item, "metadata", "annotations")


def labels_of(item: Document) -> Mapping[str, str]:
    return words_at(item, "metadata", "labels")


def max_unavailable_of(budget: Document) -> Any:
    """Return a budget's maxUnavailable, or its minimum as a text such as "minAvailable 2".

    It is 0 if the budget has neither, or a minimum that no cluster reaches.
    """
    stated, least = at(budget, "spec", "maxUnavailable"), at(budget, "spec", "minAvailable")
    if stated is not None:
        return stated
    shut = least is None or (isinstance(least, int) and least >= CLOSED_MINIMUM)
    return 0 if shut else f"{_LEAST}{least}"


def budget_limit(max_unavailable: object) -> str:
    """Return a budget's limit with the name of its field."""
    text = str(max_unavailable)
    return text if text.startswith(_LEAST) else f"maxUnavailable {text}"


def sync_failure(budget: Document) -> str:
    """Return why Kubernetes cannot calculate the budget, which then allows no disruption; empty if it can."""
    for row in rows_at(budget, "status", "conditions"):
        if (row.get("type"), row.get("reason")) == ("DisruptionAllowed", "SyncFailed"):
            return str(row.get("message") or "no reason given")
    return ""


def parse_instant(text: object) -> datetime | None:
    """Parse an RFC 3339 instant; None if it is invalid or has no zone."""
    try:
        parsed = datetime.fromisoformat(text) if isinstance(text, str) else None
        return parsed.astimezone(UTC) if parsed is not None and parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def rfc3339(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def quantity(text: object) -> Decimal:
    """Parse a Kubernetes quantity; return 0 if it is missing or malformed."""
    try:
        return requests.quantity(text)
    except ValueError:
        return Decimal(0)


def utilisation(node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], *, daemons_count: bool) -> float:
    """Return requests over allocatable as the cluster autoscaler does: GPUs if the node has any, else CPU or memory."""
    resources = [GPU_RESOURCE] if quantity(at(node, "status", "allocatable", GPU_RESOURCE)) else ["cpu", "memory"]
    counted = [pod for pod in pods if _counts(pod, daemons_count=daemons_count)]
    shares: list[float] = []
    for resource in resources:
        allocatable = quantity(at(node, "status", "allocatable", resource))
        if allocatable:
            shares.append(float(sum((requested(pod, resource) for pod in counted), Decimal(0)) / allocatable))
    return max(shares, default=0.0)


def _counts(pod: Mapping[str, Any], *, daemons_count: bool) -> bool:
    ended = at(pod, "status", "phase") in ("Succeeded", "Failed")
    daemon = any(owner.get("kind") == "DaemonSet" for owner in at(pod, "metadata", "ownerReferences") or ())
    return not ended and (daemons_count or not daemon)


def requested(pod: Mapping[str, Any], resource: str) -> Decimal:
    """Return the scheduler's reservation for the pod: cores, bytes or devices; 0 if an amount is malformed."""
    try:
        return requests.requested(pod, resource)
    except ValueError:
        return Decimal(0)


def requested_units(pod: Mapping[str, Any], resource: str) -> int:
    """Return the reservation in a stack file's units, rounded up: millicores, MiB or devices."""
    return math.ceil(requested(pod, resource) * _UNITS.get(resource, 1))
