"""Raw objects as the API server returns them, with defaults: a test gives the values that matter to it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from controllers.adapters.kube_api import ApiError

NOW = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)  # a Friday, 10:00 in New York
OWNED = [{"kind": "ReplicaSet", "name": "api-1", "controller": True}]


class Cluster:
    """Answers as given: a list, an object, or the status of a refusal; 404 for the rest."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def get(self, path: str, **_: str) -> dict[str, Any]:
        answer = self._answers.get(path, 404)
        if isinstance(answer, int):
            raise ApiError(answer, f"GET {path}: no")
        return {"items": answer} if isinstance(answer, list) else answer


def pod(name: str = "api-1-a", **changes: Any) -> dict[str, Any]:
    """A ready pod of a Deployment. `meta`, `spec` and `status` are merged over the defaults."""
    meta, spec, status = (changes.get(part, {}) for part in ("meta", "spec", "status"))
    requests = {"cpu": changes.get("cpu", "1"), "memory": "1Gi", **changes.get("extra", {})}
    return {
        "metadata": {
            "name": name,
            "namespace": changes.get("namespace", "ebbtide"),
            "labels": changes.get("labels", {"ebbtide.dev/workload": "api"}),
            "annotations": changes.get("annotations", {}),
            "ownerReferences": OWNED,
            **meta,
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "resources": {"requests": requests}}], **spec},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **status},
    }


def budget(
    name: str = "api", *, allowed: int = 0, max_unavailable: int = 0, policy: str = "IfHealthyBudget", **changes: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ebbtide", "generation": 2, **changes.get("meta", {})},
        "spec": {
            "maxUnavailable": max_unavailable,
            "selector": changes.get("selector", {"matchLabels": {"ebbtide.dev/workload": name}}),
            "unhealthyPodEvictionPolicy": policy,
        },
        "status": {
            "observedGeneration": 2,
            "disruptionsAllowed": allowed,
            "currentHealthy": 2,
            "desiredHealthy": 3,
            **changes.get("status", {}),
        },
    }


def node(kind: str = "flexible", *, age: timedelta = timedelta(hours=5), **changes: Any) -> dict[str, Any]:
    allocatable: Mapping[str, str] = changes.get("allocatable", {"cpu": "16", "memory": "60Gi"})
    return {
        "metadata": {
            "name": "node-1",
            "labels": {"ebbtide.dev/node-kind": kind, "ebbtide.dev/node-group": kind},
            "annotations": changes.get("annotations", {}),
            "creationTimestamp": (NOW - age).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "spec": {"taints": changes.get("taints", [])},
        "status": {"allocatable": allocatable},
    }
