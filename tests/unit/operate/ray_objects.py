"""A Ray cluster as the API server and the workload controller report it: a test gives the values that matter to it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ebbtide.operate.ray.facts import RayFacts
from ebbtide.operate.ray.view import RayView, ray_view
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import ASLEEP_FOR, SLEEP
from ebbtide.vocabulary.workloads import RayPolicy, Sleep, SleepWhen, Wake, dump_sleep
from tests.builders.components import controller_config, pool_policy
from tests.unit.operate.raw_objects import NOW

POLICY = RayPolicy(name="flow", namespace="ebbtide-ray-flow", head="http://head:8265", pools=("preprocess",))
SLEEPS = dump_sleep(Sleep(when=SleepWhen.IDLE, after=timedelta(hours=2), wake=frozenset({Wake.QUEUE, Wake.MANUAL})))
STATUS = {
    "observedGeneration": 4,
    "state": "ready",
    "desiredWorkerReplicas": 3,
    "readyWorkerReplicas": 2,
    "availableWorkerReplicas": 3,
    "minWorkerReplicas": 0,
    "maxWorkerReplicas": 28,
}
READING = {"kind": "known", "waiting": 7, "inTransit": 0, "running": 2, "oldestWait": 65.0}


def group(name: str, replicas: int = 0, most: int = 8, least: int = 0, **more: Any) -> dict[str, Any]:
    return {"groupName": name, "replicas": replicas, "minReplicas": least, "maxReplicas": most, **more}


def ray_cluster(
    *groups: Mapping[str, Any],
    suspend: bool = False,
    gone: bool = False,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] = STATUS,
    **spec: Any,
) -> dict[str, Any]:
    condition = {
        "type": "RayClusterSuspended",
        "status": str(gone),
        "lastTransitionTime": "2026-11-20T14:00:00Z",
    }
    groups = groups or (group("cpu", 2, 20), group("gpu", 1))
    return {
        "metadata": {
            "name": "flow",
            "namespace": POLICY.namespace,
            "resourceVersion": "7",
            "annotations": {SLEEP: SLEEPS, **(annotations or {})},
        },
        "spec": {"headGroupSpec": {}, "workerGroupSpecs": [*groups], "suspend": suspend, **spec},
        "status": {**status, "conditions": [condition]} if status else {},
    }


def asleep(purpose: str = "rest", **annotations: str) -> dict[str, Any]:
    marks = {ASLEEP_FOR: purpose, **annotations} if purpose else annotations
    return ray_cluster(suspend=True, gone=True, annotations=marks)


def ray_pod(
    group: str, number: int = 1, *, node: str | None = "gpu-1", phase: str = "Running", ending: bool = False
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": f"flow-{group}-worker-{number}",
        "namespace": POLICY.namespace,
        "labels": {
            "ray.io/cluster": "flow",
            "ray.io/group": group,
            "ebbtide.dev/category": "worker",
            "ebbtide.dev/workload": f"flow-{group}",
        },
        "ownerReferences": [{"kind": "RayCluster", "name": "flow", "controller": True}],
    }
    if ending:
        metadata |= {"deletionTimestamp": "2026-11-20T14:59:00Z", "deletionGracePeriodSeconds": 1920}
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient gpu."}
    conditions = [unscheduled] if node is None else [{"type": "Ready", "status": str(phase == "Running")}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": []} if node else {"containers": []},
        "status": {"phase": "Pending" if node is None else phase, "conditions": conditions},
    }


def priced_node(kind: str = "g5.2xlarge", region: str = "us-east-1", **labels: str) -> dict[str, Any]:
    known = {"node.kubernetes.io/instance-type": kind, "topology.kubernetes.io/region": region}
    return {"metadata": {"labels": {**known, **labels}}}


def report(**changes: Any) -> dict[str, Any]:
    """Return a cluster as in the workload controller's `/status`."""
    return {
        "kind": "RayCluster",
        "namespace": POLICY.namespace,
        "name": "flow",
        "state": "awake",
        "why": "not-known-idle",
        "note": "",
        "since": "2026-11-20T14:00:00+00:00",
        "spec": "applied",
        "pending": [],
        "later": [],
        "idleFor": None,
        "activity": "driver: 1 job",
        "reading": "busy",
        "drivers": True,
        **changes,
    }


def ray_facts(**changes: Any) -> RayFacts:
    """Awake with a driver: a head, two workers of cpu and one of gpu."""
    pods = [ray_pod("headgroup", node="fixed-1"), ray_pod("cpu", node="cpu-1"), ray_pod("cpu", 2, node="cpu-1")]
    drivers = {"spec": {"replicas": 3}, "status": {"readyReplicas": 2}}
    nodes = {"fixed-1": priced_node("m7i.2xlarge"), "cpu-1": priced_node("m7i.4xlarge"), "gpu-1": priced_node()}
    values: dict[str, Any] = {
        "now": NOW,
        "policy": POLICY,
        "cluster": ray_cluster(),
        "pods": [*pods, ray_pod("gpu")],
        "pools": {"preprocess": drivers},
        "nodes": nodes,
        "report": report(),
        **changes,
    }
    return RayFacts(**values)


def config() -> ControllerConfig:
    pool = replace(pool_policy(), name="preprocess", deployment="preprocess", max_workers=3)
    return replace(controller_config(pools=()), pools=(pool,))


def document(reading: Mapping[str, Any] = READING) -> dict[str, Any]:
    return {"report": {"pools": [{"name": "preprocess", "reading": reading}]}}


def view(**changes: Any) -> RayView:
    return ray_view(ray_facts(**changes), config(), document())
