"""Nodes of Karpenter for the pods of a stack, scattered pods that invite it to consolidate, and what moved."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from threading import Thread
from typing import Any

from control_plane.plane.driver import ControlPlane
from control_plane.plane.karpenter import POOL_LABEL, Karpenter

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.vocabulary.labels import NODE_GROUP, NODE_KIND
from tests.builders.control_plane import eventually

TYPES = ("m7i.xlarge", "g5.xlarge")
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
STAYS = {"operator": "Exists", "effect": "NoExecute"}
"""A toleration of a pod that nothing recreates: the controller manager may still see the taint of a node that has just
registered, and then deletes what is bound to it."""
PODS = "/api/v1/namespaces/default/pods"
BIG, FULL = (
    2500,
    3500,
)  # millicores; beside the first a node has room for two pods of a half, beside the second for none
SLOW = 180.0  # seconds; below the five minutes after which Karpenter looks again by itself


def labels(group: str, kind: str = "flexible") -> dict[str, str]:
    return {NODE_KIND: kind, NODE_GROUP: group}


def pod(name: str, group: str, cpu: int, **spec: Any) -> Json:
    """A pod without a budget, which Karpenter may move."""
    container = {"name": "main", "image": "any", "resources": {"requests": {"cpu": f"{cpu}m"}}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "nodeSelector": {NODE_GROUP: group}, **spec},
    }


def fill(plane: ControlPlane, group: str, number: int) -> list[str]:
    """So many nodes with one big pod each, the last one full; their names. While the pods last, their nodes stay."""
    names = [f"{group}-big-{index}" for index in range(number)]
    for name in names:
        big = pod(name, group, FULL if name == names[-1] else BIG, tolerations=[STAYS])
        plane.api.create(
            PODS, {**big, "metadata": {"name": name, "annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
        )
    return [
        eventually(lambda name=name: node_of(plane, name), what=f"a node for {name}", patience=SLOW) for name in names
    ]


def node_of(plane: ControlPlane, name: str) -> str:
    return str(plane.api.get(f"{PODS}/{name}")["spec"].get("nodeName", ""))


def clear(plane: ControlPlane, group: str, number: int) -> None:
    """Delete the big pods, and wait until they are gone."""
    names = {f"{group}-big-{index}" for index in range(number)}
    for name in names:
        plane.api.delete(f"{PODS}/{name}")
    eventually(
        lambda: not names & {it["metadata"]["name"] for it in plane.api.get(PODS)["items"]}, what="the big pods to end"
    )


def is_live(found: Json) -> bool:
    conditions = found.get("status", {}).get("conditions", ())
    is_ready = any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)
    return is_ready and "deletionTimestamp" not in found["metadata"]


def placed(plane: ControlPlane) -> dict[str, str]:
    """Uid and node of every ready pod on a node of Karpenter."""
    nodes = {node["metadata"]["name"] for node in plane.api.get("/api/v1/nodes", labelSelector=POOL_LABEL)["items"]}
    return {
        it["metadata"]["uid"]: it["spec"]["nodeName"]
        for it in plane.api.get("/api/v1/pods")["items"]
        if is_live(it) and it["spec"]["nodeName"] in nodes
    }


def looked_again(karpenter: Karpenter) -> None:
    """Wait for a whole look that began after this: one may be under way."""
    before = karpenter.looks()
    eventually(lambda: karpenter.looks() >= before + 2, what="Karpenter to look twice", patience=SLOW)


class Watched:
    """How few pods of a workload were ready at a time, and how many came, by a watch."""

    def __init__(self, plane: ControlPlane, namespace: str, selector: str) -> None:
        self._ready: dict[str, bool] = {}
        self.least: int | None = None
        self.fewer: list[str] = []  # the events after which fewer were ready than ever before
        path = f"/api/v1/namespaces/{namespace}/pods"
        self._watch = plane.api.watch(path, 600, labelSelector=selector)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def begin(self, number: int) -> None:
        """From now on, when so many are ready."""
        eventually(lambda: self._count() == number, what=f"{number} ready pods")
        self.least = number

    def stop(self) -> None:
        self._watch.stop()
        self._thread.join()

    def _count(self) -> int:
        return sum(tuple(self._ready.values()))

    def _run(self) -> None:
        with suppress(ApiError):  # the control plane ended first, after a failure
            for event in self._watch:
                uid = event["object"]["metadata"]["uid"]
                self._ready[uid] = event["type"] != "DELETED" and is_live(event["object"])
                if self.least is not None and self._count() < self.least:
                    self.least = self._count()
                    self.fewer.append(f"{self.least} ready: {event}")


def budget(name: str, namespace: str, selector: Mapping[str, str], allowed: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": dict(selector)}},
    }


def set_allowed(plane: ControlPlane, namespace: str, name: str, allowed: int) -> None:
    """As the controller writes a budget; return when its status says so."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}"
    plane.api.patch(path, {"spec": {"maxUnavailable": allowed}})
    eventually(lambda: _is_seen(plane.api.get(path), allowed), what=f"the status of {name}")


def _is_seen(found: Json, allowed: int) -> bool:
    status = found["status"]
    return status["observedGeneration"] == found["metadata"]["generation"] and status["disruptionsAllowed"] == allowed


def told(begun: datetime, *happened: list[tuple[datetime, str]]) -> str:
    """What Karpenter and the controllers did, with seconds since `begun`."""
    rows = sorted(row for rows in happened for row in rows)
    return "\n".join(f"{(at - begun).total_seconds():6.1f} s  {what}" for at, what in rows if at >= begun)
