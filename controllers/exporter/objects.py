"""What is kept of nodes, pods, HPAs and CronJobs. Pure. Any field may be missing, and nothing is refused.

Units: cores, bytes, whole devices, seconds since 1970. None is what cannot be told, and is told to nobody.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from controllers.adapters.kube_api import Json
from controllers.exporter.quantities import quantity
from ebbtide.vocabulary.labels import CATEGORY, CLOSER, GPU_RESOURCE, NODE_GROUP, NODE_KIND, WORKLOAD

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_CAPACITY_TYPE = "eks.amazonaws.com/capacityType"
_ZONE = "topology.kubernetes.io/zone"
_ENDED = ("Succeeded", "Failed")
_TRUTH = {"True": True, "False": False}


@dataclass(frozen=True, slots=True)
class Amounts:
    cpu: float | None
    memory: float | None
    gpus: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    group: str
    kind: str
    instance_type: str
    capacity_type: str
    zone: str
    capacity: Amounts
    created: float | None
    ready: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    uid: str
    namespace: str
    name: str
    node: str  # "" while it waits for one
    workload: str
    category: str
    ended: bool
    requested: Amounts
    restarts: tuple[tuple[str, int], ...]  # by container, since the pod began
    out_of_memory: tuple[tuple[str, str], ...]  # by container, when the kernel last ended it for its memory
    disruption: str  # why it is or was ended from outside; "" if it is not


@dataclass(frozen=True, slots=True, kw_only=True)
class Hpa:
    namespace: str
    name: str
    scaling_active: bool | None
    able_to_scale: bool | None
    replicas: int | None
    wanted: int | None
    most: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingJob:
    """A CronJob of the closer."""

    name: str
    last_success: float | None
    last_schedule: float | None


def node(item: Json) -> Node:
    labels, capacity = _part(item, "metadata", "labels"), _part(item, "status", "capacity")
    ready = next((it.get("status") for it in _conditions(item) if it.get("type") == "Ready"), None)
    return Node(
        name=item["metadata"]["name"],
        group=labels.get(NODE_GROUP, ""),
        kind=labels.get(NODE_KIND, ""),
        instance_type=labels.get(_INSTANCE_TYPE, ""),
        capacity_type=labels.get(_CAPACITY_TYPE, ""),
        zone=labels.get(_ZONE, ""),
        capacity=Amounts(
            *(_number(capacity[key]) if key in capacity else None for key in ("cpu", "memory", GPU_RESOURCE))
        ),
        created=_instant(_part(item, "metadata").get("creationTimestamp")),
        ready=None if ready is None else ready == "True",  # of a silent node it is Unknown: nothing runs there for sure
    )


def pod(item: Json) -> Pod:
    """Those that have ended too: an eviction may be seen on them first."""
    metadata, spec, status = (_part(item, key) for key in ("metadata", "spec", "status"))
    labels, containers = _part(metadata, "labels"), [*_containers(status)]
    return Pod(
        uid=metadata.get("uid", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        node=spec.get("nodeName") or "",
        workload=labels.get(WORKLOAD, ""),
        category=labels.get(CATEGORY, ""),
        ended=status.get("phase") in _ENDED,
        requested=Amounts(*(_requested(spec, key) for key in ("cpu", "memory", GPU_RESOURCE))),
        restarts=tuple((name, it.get("restartCount") or 0) for name, it in containers),
        out_of_memory=tuple((name, at) for name, it in containers if (at := _out_of_memory(it))),
        disruption=_disruption(item),
    )


def hpa(item: Json) -> Hpa:
    """Before its first look an HPA says that it wants 0: nothing is told until it has a condition."""
    status = _part(item, "status")
    known = {it.get("type"): _TRUTH.get(it.get("status", "")) for it in _conditions(item)}
    return Hpa(
        namespace=item["metadata"].get("namespace", ""),
        name=item["metadata"]["name"],
        scaling_active=known.get("ScalingActive"),
        able_to_scale=known.get("AbleToScale"),
        replicas=status.get("currentReplicas", 0) if known else None,  # the API leaves a 0 out
        wanted=status.get("desiredReplicas", 0) if known else None,
        most=_part(item, "spec").get("maxReplicas"),
    )


def closing_job(item: Json) -> ClosingJob | None:
    """By the label of its pods: it has none itself. None for another CronJob."""
    labels = _part(item, "spec", "jobTemplate", "spec", "template", "metadata", "labels")
    if labels.get(WORKLOAD) != CLOSER:
        return None
    status = _part(item, "status")
    last = [_instant(status.get(key)) for key in ("lastSuccessfulTime", "lastScheduleTime")]
    return ClosingJob(name=item["metadata"]["name"], last_success=last[0], last_schedule=last[1])


def _requested(spec: Mapping[str, Any], resource: str) -> float | None:
    """What the scheduler keeps free for it: what runs at once, or an init container where that asks for more.

    An init container that is always restarted is a sidecar: it runs on beside all that come after it. What the pod asks
    for as a whole goes before the sum of its containers. Source: Kubernetes, "Sidecar containers", resource sharing.
    """
    try:
        sidecars, most = Decimal(0), Decimal(0)
        for container in spec.get("initContainers") or ():
            asked = _ask(container, resource)
            sidecars += asked if container.get("restartPolicy") == "Always" else 0
            most = max(most, sidecars + (0 if container.get("restartPolicy") == "Always" else asked))
        main = sum((_ask(container, resource) for container in spec.get("containers") or ()), sidecars)
        whole = _ask(spec, resource) if resource in _part(spec, "resources", "requests") else max(main, most)
        return float(whole + quantity(_part(spec, "overhead").get(resource, 0)))
    except ValueError:
        return None


def _ask(holder: Mapping[str, Any], resource: str) -> Decimal:
    return quantity(_part(holder, "resources", "requests").get(resource, 0))


def _containers(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from ((it.get("name", ""), it) for it in status.get(kind) or ())


def _out_of_memory(container: Mapping[str, Any]) -> str:
    """When it ended so for the last time that can be seen. Times of one form sort as text; "" if it cannot be seen."""
    ends = [_part(container, state, "terminated") for state in ("state", "lastState")]
    return max((end.get("finishedAt") or "" for end in ends if end.get("reason") == "OOMKilled"), default="")


def _disruption(item: Json) -> str:
    """The condition's reason; pods that the kubelet evicts have had the other sign for longer."""
    for it in _conditions(item):
        if (it.get("type"), it.get("status")) == ("DisruptionTarget", "True"):
            return it.get("reason") or "unknown"
    return "Evicted" if _part(item, "status").get("reason") == "Evicted" else ""


def _conditions(item: Json) -> Sequence[Mapping[str, Any]]:
    return _part(item, "status").get("conditions") or ()


def _part(holder: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """What lies there; empty for what is missing or null."""
    for key in keys:
        holder = holder.get(key) or {}
    return holder


def _number(text: object) -> float | None:
    try:
        return float(quantity(text))
    except ValueError:
        return None


def _instant(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None
