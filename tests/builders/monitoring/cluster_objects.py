"""Nodes, pods, an HPA and a CronJob in the form of the API server, and an API that lists them and tells changes."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from controllers.adapters.kube_api import Json, KubeApi

CREATED = "2026-11-23T05:58:00Z"


def node(name: str = "n1", **labels: str) -> Json:
    """A GPU node of a group of EKS."""
    named = {
        "ebbtide.dev/node-group": "gpu",
        "ebbtide.dev/node-kind": "gpu",
        "node.kubernetes.io/instance-type": "g5.xlarge",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "topology.kubernetes.io/zone": "us-east-1a",
        **labels,
    }
    capacity = {"cpu": "4", "memory": "16069060Ki", "pods": "58", "nvidia.com/gpu": "1"}
    allocatable = {"cpu": "3920m", "memory": "15Gi", "pods": "58", "nvidia.com/gpu": "1"}
    status = {"capacity": capacity, "allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": named, "creationTimestamp": CREATED}, "status": status}


def container(cpu: str = "1500m", memory: str = "2Gi", **more: Any) -> Json:
    return {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def pod(name: str = "train-1", *containers: Json, node: str = "n1", uid: str = "", **status: Any) -> Json:
    """A worker of the pool `train` that asks for a GPU."""
    gpu = {"nvidia.com/gpu": "1"}
    asks = {"requests": {"cpu": "1500m", "memory": "2Gi", **gpu}, "limits": gpu}
    labels = {"ebbtide.dev/workload": "train", "ebbtide.dev/category": "worker"}
    metadata = {"name": name, "namespace": "ebbtide-workers", "uid": uid or f"uid-of-{name}", "labels": labels}
    spec: Json = {"containers": [*containers] or [{"name": "main", "resources": asks}]}
    if node:
        spec["nodeName"] = node
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running", **status}}


def ended(reason: str, at: str = "2026-11-23T11:59:00Z") -> Json:
    return {"terminated": {"exitCode": 137, "reason": reason, "finishedAt": at}}


def container_status(restarts: int = 0, *, state: Json | None = None, last: Json | None = None) -> Json:
    now = state or {"running": {"startedAt": CREATED}}
    return {"name": "main", "restartCount": restarts, "state": now, "lastState": last or {}}


def disrupted(reason: str = "EvictionByEvictionAPI") -> Json:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason}


def hpa(**conditions: str) -> Json:
    told = {"AbleToScale": "True", "ScalingActive": "True", **conditions}
    status = {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "conditions": [{"type": kind, "status": status} for kind, status in told.items()],
    }
    return {"metadata": {"name": "api", "namespace": "ebbtide"}, "spec": {"maxReplicas": 6}, "status": status}


CLOSED_AT = datetime(2026, 11, 23, 11, 50, tzinfo=UTC)


def closing_job(workload: str = "ebbtide-closer", at: datetime = CLOSED_AT) -> Json:
    template = {"metadata": {"labels": {"ebbtide.dev/workload": workload}}}
    instants = {"lastScheduleTime": at, "lastSuccessfulTime": at + timedelta(seconds=9)}
    status = {key: f"{instant:%Y-%m-%dT%H:%M:%SZ}" for key, instant in instants.items()}
    spec = {"jobTemplate": {"spec": {"template": template}}}
    return {"metadata": {"name": "ebbtide-closer-0650", "namespace": "ebbtide"}, "spec": spec, "status": status}


def deployment(name: str = "notes", replicas: int = 0, *owners: str) -> Json:
    """Its number is the workload controller's, written through `scale`, unless others are named. Helm does
    not write through `scale`."""
    entries: list[Json] = [
        {
            "manager": owner,
            "time": CREATED,
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
            **({} if owner == "helm" else {"subresource": "scale"}),
        }
        for owner in owners or ("ebbtide-workloads",)
    ]
    metadata = {"name": name, "namespace": "ebbtide", "resourceVersion": "1", "creationTimestamp": CREATED}
    return {"metadata": {**metadata, "managedFields": entries}, "spec": {"replicas": replicas}}


def event(kind: str, item: Json) -> Json:
    return {"type": kind, "object": item}


class Script:
    """Stands for the API server: each path has a list, and then the events of one watch, which ends behind them."""

    def __init__(self, lists: Mapping[str, Sequence[Json]], events: Mapping[str, Sequence[Json]] | None = None) -> None:
        self.lists, self.events = dict(lists), dict(events or {})

    def get(self, path: str, **_: str) -> Json:
        return {"items": [_versioned(it) for it in self.lists[path]], "metadata": {"resourceVersion": "1"}}

    def watch(self, path: str, _: float, **__: str) -> "_Events":
        return _Events([{**it, "object": _versioned(it["object"])} for it in self.events.get(path, ())])

    @property
    def api(self) -> KubeApi:
        return cast("KubeApi", self)


class _Events:
    def __init__(self, events: Sequence[Json]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Json]:
        yield from self._events

    def stop(self) -> None:
        """It has ended."""


def _versioned(item: Json) -> Json:
    """With what each object of the API has."""
    given = deepcopy(item)
    given["metadata"].setdefault("resourceVersion", "1")
    return given
