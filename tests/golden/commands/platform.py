"""One cluster with an example of each thing that operators' commands show, on a Friday morning in New York."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from ebbtide.vocabulary.controller_config import BudgetPolicy
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import KEEP_UNTIL, MAINTENANCE_UNTIL, PAUSED, SLEEP_UNTIL, WAKE_UNTIL
from ebbtide.vocabulary.workloads import (
    FloorPolicy,
    NodePoolPolicy,
    PlannedEvent,
    RayPolicy,
    SleepPolicy,
    WorkloadsConfig,
)
from tests.builders.components import controller_config, pool_policy
from tests.unit.operate.raw_objects import budget, node, pod
from tests.unit.operate.ray_objects import POLICY, priced_node, ray_cluster, ray_pod, report
from tests.unit.operate.test_status import DOCUMENT, KNOWN, POOL
from tests.unit.operate.test_why_service import DEPLOYMENT, GATEWAY, HPAS, ROUTES, SCALED, condition, hpa, route, scaled

SYSTEM = "/api/v1/namespaces/ebbtide"
APPS = "/apis/apps/v1/namespaces"
BUDGETS = "/apis/policy/v1/namespaces/ebbtide/poddisruptionbudgets"
RAY = "/apis/ray.io/v1/namespaces"
SCALER, WORKLOADS = (f"{SYSTEM}/pods/ebbtide-{name}-a:8080/proxy/status" for name in ("controller", "workloads"))
_SOON = timedelta(minutes=15)
_OFFICE = controller_config().hours

CONFIG = replace(
    controller_config(),
    pools=(
        replace(pool_policy(), queues=("train", "late"), growth_per_minute=4, jobs_per_worker=2),
        replace(pool_policy("preprocess"), max_workers=3, safe_stop=False),
        pool_policy("gone"),
    ),
    budgets=(BudgetPolicy(name="api", namespace="ebbtide"), BudgetPolicy(name="web", namespace="ebbtide", always=True)),
    never_opened=(BudgetPolicy(name="db", namespace="ebbtide"), BudgetPolicy(name="lost", namespace="ebbtide")),
)
OTHER_RAY = RayPolicy(name="nightly", namespace="ebbtide-ray-nightly", head="http://nightly:8265")
DOCUMENTED = WorkloadsConfig(
    namespace="ebbtide",
    hours=_OFFICE,
    ray=(POLICY, OTHER_RAY),
    floors=(
        FloorPolicy(
            name="embedder-small",
            namespace="ebbtide",
            keda=True,
            least=1,
            most=12,
            lead=timedelta(minutes=7),
            open=4,
            events=(PlannedEvent(day=date(2026, 11, 23), at=9 * 60, lasting=timedelta(hours=3), pods=8),),
        ),
    ),
    sleepers=(
        SleepPolicy(name="hub", namespace="ebbtide", kind="StatefulSet", replicas=2, asleep=0, lead=_SOON),
        SleepPolicy(
            name="notes",
            namespace="ebbtide",
            kind="Deployment",
            replicas=1,
            asleep=0,
            lead=_SOON,
            idle_after=timedelta(hours=2),
            manual=False,
        ),
        SleepPolicy(name="ended", namespace="ebbtide", kind="Deployment", replicas=3, asleep=1, lead=_SOON, never=True),
    ),
    node_pools=(NodePoolPolicy(name="general", drains=5), NodePoolPolicy(name="gpu", drains=1)),
    drain_guard=timedelta(minutes=35),
)
STATUS: Mapping[str, Any] = {
    **DOCUMENT,
    "readings": {"consecutiveFailures": 3, "lastAnswer": "2026-11-20T14:58:00Z"},
    "report": {
        **DOCUMENT["report"],
        "pools": [
            {**POOL, "floor": 2, "note": "at most 4 more a minute"},
            {
                **POOL,
                "name": "preprocess",
                "reading": {"why": "restarted 4 min ago", "seen": {**KNOWN, "waiting": 0}},
                "workers": 3,
                "wanted": 3,
                "reason": "demand-untrusted",
                "failing": 0,
                "unreachable": 1,
            },
            {"name": "gone", "reading": {"why": "timeout"}, "reason": "demand-unknown", "workers": 0, "wanted": None},
        ],
        "budgets": [
            {"name": "api", "maxUnavailable": 1, "wanted": 0, "reason": "business-hours"},
            {"name": "web", "maxUnavailable": 1, "wanted": 1, "reason": "disruption-window-open", "note": "surge 1"},
        ],
    },
}
ROWS = [
    report(pending=["headGroupSpec.image"]),
    report(
        namespace=OTHER_RAY.namespace,
        name="nightly",
        state="asleep",
        why="idle",
        reading="idle",
        activity="idle",
        idleFor=7300.0,
        drivers=False,
    ),
    {
        "kind": "StatefulSet",
        "namespace": "ebbtide",
        "name": "hub",
        "state": "awake",
        "why": "business-hours",
        "note": "",
        "replicas": 2,
        "until": "2026-11-21T00:00:00+00:00",
    },
    {
        "kind": "Deployment",
        "namespace": "ebbtide",
        "name": "notes",
        "state": "awake",
        "why": "in-use",
        "note": "the pod notes-0 has no limit",
        "activity": "notes-0: 0.31 cores",
        "replicas": 1,
    },
    {"kind": "NodePool", "name": "general", "state": "held", "why": "another-manager", "note": "flux manages it"},
]


def deployment(
    name: str, replicas: int, notes: Mapping[str, str] = {}, *, ready: int = 0, space: str = "ebbtide"
) -> Any:
    owned: Mapping[str, Any] = {
        "manager": "ebbtide-controller",
        "operation": "Apply",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }
    return {
        "metadata": {
            "name": name,
            "namespace": space,
            "annotations": notes,
            "labels": {"ebbtide.dev/workload": name},
            "resourceVersion": "7",
            "managedFields": [owned],
        },
        "spec": {"replicas": replicas},
        "status": {"readyReplicas": ready or replicas},
    }


def _scaler_pod(name: str) -> Any:
    return pod(f"ebbtide-{name}-a", labels={"ebbtide.dev/workload": f"ebbtide-{name}"})


def _node(name: str, kind: str, instance: str, **changes: Any) -> dict[str, Any]:
    item = node(kind, **changes)
    types = {"node.kubernetes.io/instance-type": instance, "topology.kubernetes.io/region": "us-east-1"}
    item["metadata"] |= {"name": name, "labels": {**item["metadata"]["labels"], **types}}
    item["status"]["conditions"] = [{"type": "Ready", "status": str(changes.get("ready", True))}]
    return item


NODES: dict[str, Any] = {
    "fixed-1": _node("fixed-1", "fixed", "m7i.2xlarge"),
    "flexible-1": _node("flexible-1", "flexible", "m7i.4xlarge"),
    "flexible-2": _node("flexible-2", "flexible", "x99.huge", ready=False, age=timedelta(minutes=4)),
    "cpu-1": _node("cpu-1", "flexible", "m7i.4xlarge"),
    "gpu-1": _node("gpu-1", "gpu", "g5.2xlarge", allocatable={"cpu": "8", "memory": "30Gi", "nvidia.com/gpu": "1"}),
    "general-1": {
        **priced_node("m7i.xlarge", **{"karpenter.sh/nodepool": "general"}),
        "spec": {"taints": []},
        "status": {"allocatable": {"cpu": "4", "memory": "15Gi"}},
    },
}
NODES["flexible-2"]["spec"]["unschedulable"] = True
NODES["general-1"]["metadata"] |= {"name": "general-1", "creationTimestamp": "2026-11-20T13:00:00Z"}
RAY_PODS = [
    ray_pod("headgroup", node="fixed-1"),
    ray_pod("cpu", node="cpu-1"),
    ray_pod("cpu", 2, node="cpu-1"),
    ray_pod("gpu"),
    ray_pod("gpu", 2, node=None),
]
DAEMON = pod(
    "logs-x",
    namespace="kube-system",
    labels={},
    meta={"ownerReferences": [{"kind": "DaemonSet", "name": "logs", "controller": True}]},
    spec={"nodeName": "flexible-1"},
)
PODS = [
    pod("api-1-a", spec={"nodeName": "flexible-1"}),
    pod("api-1-b", spec={"nodeName": None}),
    pod("db-0", labels={"ebbtide.dev/workload": "db", "ebbtide.dev/category": "fixed"}, spec={"nodeName": "fixed-1"}),
    pod(
        "train-1-a",
        namespace="ebbtide-workers",
        labels={"ebbtide.dev/workload": "train", "ebbtide.dev/category": "worker"},
        spec={"nodeName": "flexible-1"},
        meta={"deletionTimestamp": "2026-11-20T14:59:00Z", "deletionGracePeriodSeconds": 43200},
    ),
    pod("bare", namespace="team", labels={}, meta={"ownerReferences": []}, spec={"nodeName": "flexible-1"}),
    pod("api-1-c", spec={"nodeName": "general-1"}, annotations={"karpenter.sh/do-not-disrupt": "true"}),
    DAEMON,
    *RAY_PODS,
]
_GENERAL = {
    "metadata": {"name": "general"},
    "spec": {
        "limits": {"nodes": "20", "cpu": "64"},
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [
                {"nodes": "0", "reasons": ["Underutilized", "Drifted"]},
                {"nodes": "1", "schedule": "0 9 * * *", "duration": "8h"},
            ],
        },
    },
    "status": {"resources": {"nodes": "3"}},
}
_HELD: Mapping[str, Any] = {"metadata": {"annotations": {PAUSED: "new driver on the nodes"}, "managedFields": []}}
_AUTOSCALER = {
    "spec": {
        "template": {
            "spec": {"containers": [{"command": ["./cluster-autoscaler", "--scale-down-unneeded-time=2m"], "args": []}]}
        }
    }
}
_CANDIDATES = (
    "time: 2026-11-20 14:59:00\nautoscalerStatus: Running\nclusterWide:\n  scaleDown: {status: NoCandidates}\n"
)


def objects() -> dict[str, Any]:
    return {
        f"{SYSTEM}/configmaps/ebbtide-controller": {"data": {"config.json": dump(CONFIG)}},
        f"{SYSTEM}/configmaps/ebbtide-workloads": {"data": {"workloads.json": dump(DOCUMENTED)}},
        f"{SYSTEM}/pods": {"items": [_scaler_pod("controller"), _scaler_pod("workloads"), *PODS[:3]]},
        SCALER: STATUS,
        WORKLOADS: {"workloads": ROWS},
        f"{APPS}/ebbtide-workers/deployments/train": deployment("train", 3, ready=2, space="ebbtide-workers"),
        f"{APPS}/ebbtide-workers/deployments/preprocess": deployment(
            "preprocess", 3, {KEEP_UNTIL: "2026-11-21T04:00:00Z"}, ready=2, space="ebbtide-workers"
        ),
        f"{BUDGETS}/api": budget("api", max_unavailable=1, meta=_HELD["metadata"]),
        f"{BUDGETS}/web": budget("web", max_unavailable=1, allowed=1),
        f"{BUDGETS}/db": budget(
            "db", max_unavailable=1, meta={"annotations": {MAINTENANCE_UNTIL: "2026-11-20T16:30:00Z"}}
        ),
        "/apis/policy/v1/poddisruptionbudgets": {"items": [budget("api"), budget("db")]},
        f"{RAY}/{POLICY.namespace}/rayclusters/flow": ray_cluster(),
        f"{RAY}/{OTHER_RAY.namespace}/rayclusters/nightly": ray_cluster(suspend=True, gone=True),
        f"/api/v1/namespaces/{POLICY.namespace}/pods": {"items": RAY_PODS},
        f"/api/v1/namespaces/{OTHER_RAY.namespace}/pods": 403,
        f"{APPS}/ebbtide/statefulsets/hub": deployment("hub", 2, {WAKE_UNTIL: "2026-11-20T23:00:00Z"}),
        f"{APPS}/ebbtide/deployments/notes": deployment("notes", 1, {SLEEP_UNTIL: "2026-11-20T18:00:00Z"}),
        f"{APPS}/ebbtide/deployments/ended": deployment("ended", 3),
        f"{APPS}/ebbtide/deployments": {"items": [_left_asleep("reports")]},
        f"{APPS}/ebbtide/statefulsets": 403,
        "/apis/karpenter.sh/v1/nodepools/general": _GENERAL,
        HPAS: {
            "items": [
                _scaling(hpa(condition("ScalingLimited", "True", "TooManyReplicas", "the desired count is above")))
            ]
        },
        SCALED: {"items": [scaled()]},
        ROUTES: {"items": [route(condition("ResolvedRefs", "False", "BackendNotFound", "no Service embedder-large"))]},
        GATEWAY: {"status": {"conditions": [condition("Programmed", "True")]}},
        DEPLOYMENT: {"spec": {"replicas": 4}, "status": {"readyReplicas": 3}},
        "/api/v1/nodes": {"items": [*NODES.values()]},
        **{f"/api/v1/nodes/{name}": item for name, item in NODES.items()},
        "/api/v1/pods": {"items": PODS},
        f"{APPS}/kube-system/deployments/cluster-autoscaler": _AUTOSCALER,
        "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status": {"data": {"status": _CANDIDATES}},
        "/api/v1/namespaces/ebbtide-workers/pods": {"items": [_worker()]},
    }


def _scaling(item: Any) -> Any:
    item["spec"]["scaleTargetRef"] = {"kind": "Deployment", "name": "embedder-small"}
    return item


def _left_asleep(name: str) -> Any:
    item = deployment(name, 0)
    item["metadata"]["managedFields"][0]["manager"] = "ebbtide-workloads"
    return item


def _worker() -> Any:
    return {
        "metadata": {"name": "train-1-a", "labels": {"ebbtide.dev/workload": "train"}},
        "status": {"phase": "Running", "containerStatuses": [{"ready": True}]},
    }


def away() -> dict[str, Any]:
    """The same cluster while no controller answers."""
    return {**objects(), f"{SYSTEM}/pods": {"items": []}}
