"""The cached parts of nodes, pods, HPAs and CronJobs. Pure. Any field may be missing, and no object is refused.

Units: cores, bytes, devices, seconds since 1970. None: unknown, and omitted from the metrics.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any

from controllers.adapters.kube_api import Json
from controllers.adapters.replica_writers import has_put_to_sleep
from controllers.exporter.requests import quantity, requested
from ebbtide.vocabulary.exporter import AdoptedRule
from ebbtide.vocabulary.labels import ADOPT, CATEGORY, CLOSER, GPU_RESOURCE, NODE_GROUP, NODE_KIND, WORKLOAD, WORKLOADS
from ebbtide.vocabulary.workloads import subject_of

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_CAPACITY_TYPES = ("eks.amazonaws.com/capacityType", "karpenter.sh/capacity-type")
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
    node: str  # "" while it is not scheduled
    workload: str
    category: str
    labels: Mapping[str, str]
    adoptable: bool  # False if no rule may adopt the pod
    ended: bool
    requested: Amounts
    restarts: tuple[tuple[str, int], ...]  # by container
    out_of_memory: tuple[tuple[str, str], ...]  # by container: time of the last OOM kill
    disruption: str  # reason of its eviction; "" if there is none


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
    ready = next((entry.get("status") for entry in _conditions(item) if entry.get("type") == "Ready"), None)
    return Node(
        name=item["metadata"]["name"],
        group=labels.get(NODE_GROUP, ""),
        kind=labels.get(NODE_KIND, ""),
        instance_type=labels.get(_INSTANCE_TYPE, ""),
        capacity_type=next((labels[key] for key in _CAPACITY_TYPES if key in labels), ""),
        zone=labels.get(_ZONE, ""),
        capacity=Amounts(
            *(_number(capacity[key]) if key in capacity else None for key in ("cpu", "memory", GPU_RESOURCE))
        ),
        created=_instant(_part(item, "metadata").get("creationTimestamp")),
        ready=None if ready is None else ready == "True",  # Unknown, for a silent node, counts as not ready
    )


def pod(item: Json) -> Pod:
    """Convert a pod, even an ended one: an eviction may be visible only then."""
    metadata, spec, status = (_part(item, key) for key in ("metadata", "spec", "status"))
    labels, containers = _part(metadata, "labels"), [*_containers(status)]
    return Pod(
        uid=metadata.get("uid", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        node=spec.get("nodeName") or "",
        workload=labels.get(WORKLOAD, ""),
        category=labels.get(CATEGORY, ""),
        labels=_shared_labels(tuple(sorted(labels.items()))),
        adoptable=_is_adoptable(metadata, labels),
        ended=status.get("phase") in _ENDED,
        requested=Amounts(*(_requested(item, key) for key in ("cpu", "memory", GPU_RESOURCE))),
        restarts=tuple((name, state.get("restartCount") or 0) for name, state in containers),
        out_of_memory=tuple((name, at) for name, state in containers if (at := _out_of_memory(state))),
        disruption=_disruption(item),
    )


@lru_cache(maxsize=4096)
def _shared_labels(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return one mapping for equal labels: pods of one workload share it, or at least its texts.

    Without sharing, labels would be three quarters of the cache.
    """
    return {intern(key): intern(value) for key, value in labels}


def _is_adoptable(metadata: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return False for pods that the admission policy ignores: pods of DaemonSets or of a node, or with a label."""
    kinds = {owner.get("kind") for owner in metadata.get("ownerReferences") or ()}
    return not kinds & {"DaemonSet", "Node"} and labels.get(ADOPT) != "no"


def unlabelled(rule: AdoptedRule, pods: Collection[Pod]) -> int:
    """Count the pods that match the rule and lack its label."""
    return sum(
        pod.namespace == rule.namespace
        and pod.workload != rule.name
        and not pod.ended
        and pod.adoptable
        and all(pod.labels.get(label.key) in label.values for label in rule.selector)
        for pod in pods
    )


def asleep(kind: str, item: Json) -> str | None:
    """Return the name of a Deployment or StatefulSet that the workload controller put to sleep; None for others."""
    metadata = item["metadata"]
    named = subject_of(kind, metadata.get("namespace", ""), metadata["name"])
    return named if has_put_to_sleep(WORKLOADS, item) else None


def hpa(item: Json) -> Hpa:
    """An HPA without conditions has not read its metrics yet, so its replicas are unknown, not 0."""
    status = _part(item, "status")
    conditions = {entry.get("type"): _TRUTH.get(entry.get("status", "")) for entry in _conditions(item)}
    return Hpa(
        namespace=item["metadata"].get("namespace", ""),
        name=item["metadata"]["name"],
        scaling_active=conditions.get("ScalingActive"),
        able_to_scale=conditions.get("AbleToScale"),
        replicas=status.get("currentReplicas", 0) if conditions else None,  # the API omits a 0
        wanted=status.get("desiredReplicas", 0) if conditions else None,
        most=_part(item, "spec").get("maxReplicas"),
    )


def closing_job(item: Json) -> ClosingJob | None:
    """Convert a CronJob of the closer, recognized by its pods' label; return None for another CronJob."""
    labels = _part(item, "spec", "jobTemplate", "spec", "template", "metadata", "labels")
    if labels.get(WORKLOAD) != CLOSER:
        return None
    status = _part(item, "status")
    success, schedule = (_instant(status.get(key)) for key in ("lastSuccessfulTime", "lastScheduleTime"))
    return ClosingJob(name=item["metadata"]["name"], last_success=success, last_schedule=schedule)


def _requested(item: Json, resource: str) -> float | None:
    try:
        return float(requested(item, resource))
    except ValueError:
        return None


def _containers(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from ((state.get("name", ""), state) for state in status.get(kind) or ())


def _out_of_memory(container: Mapping[str, Any]) -> str:
    """Return the time of the last visible OOM kill, or "". Times of one format sort as text."""
    ends = [_part(container, state, "terminated") for state in ("state", "lastState")]
    return max((end.get("finishedAt") or "" for end in ends if end.get("reason") == "OOMKilled"), default="")


def _disruption(item: Json) -> str:
    """Return the reason for an eviction. Before the condition existed, kubelets set the reason in the status."""
    for entry in _conditions(item):
        if (entry.get("type"), entry.get("status")) == ("DisruptionTarget", "True"):
            return entry.get("reason") or "unknown"
    return "Evicted" if _part(item, "status").get("reason") == "Evicted" else ""


def _conditions(item: Json) -> Sequence[Mapping[str, Any]]:
    return _part(item, "status").get("conditions") or ()


def _part(holder: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the nested object; an empty one if it is missing or null."""
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
