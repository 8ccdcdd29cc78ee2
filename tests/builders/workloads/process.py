"""The workload controller as a process, a RayCluster, an account of its own, and a head that answers as recorded."""

import json
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from control_plane.plane.driver import ControlPlane

from components.definitions import crds
from controllers.adapters.kube_api import ApiError
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import SPEC, WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours
from ebbtide.vocabulary.workloads import RayPolicy, WorkloadsConfig
from tests.builders.control_plane import Fresh, events_of, eventually
from tests.builders.operation import ALWAYS_NIGHT, Process, leading
from tests.builders.workloads.loopback import LoopbackServer, Replying
from tests.builders.workloads.specs import ANSWERS, REFUSED

TOKEN = "a-token"
_PATHS = {"/api/component_activities": "activities", "/api/jobs/": "jobs", "/api/v0/actors": "actors"}


class RecordedHead(LoopbackServer):
    """Answers as the real one did while `state` was so; any other bearer of a token is refused."""

    def __init__(self) -> None:
        self.state = "nothing ever ran"
        self.asked = 0
        super().__init__(_Handler)


class _Handler(Replying):
    def answer(self) -> tuple[int, str]:
        head = self.server
        assert isinstance(head, RecordedHead)
        head.asked += 1
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        state = head.state if known else "another token"
        recorded: Any = ANSWERS[state][_PATHS[self.path.partition("?")[0]]]
        return recorded if state in REFUSED else (200, json.dumps(recorded))


class RayProcess(Process):
    def workload(self) -> dict[str, Any]:
        """What `/status` says of the one cluster; empty while it says nothing."""
        found: list[dict[str, Any]] = self.status().get("workloads", [])
        return found[0] if found else {}


@dataclass(frozen=True, kw_only=True)
class RayScene:
    """A RayCluster `flow` that nothing has been written of, and a pool `preprocess` of drivers at zero."""

    plane: ControlPlane
    apps: str
    workers: str
    folder: Path
    head: RecordedHead = field(default_factory=RecordedHead)

    @property
    def file(self) -> Path:
        return self.folder / "config.json"

    @property
    def path(self) -> str:
        return f"/apis/ray.io/v1/namespaces/{self.apps}/rayclusters/flow"

    def config(self, hours: BusinessHours = ALWAYS_NIGHT) -> WorkloadsConfig:
        token = self.folder / "token"
        token.write_text(f"{TOKEN}\n")
        policy = RayPolicy(
            name="flow", namespace=self.apps, head=self.head.url, token_file=str(token), pools=("preprocess",)
        )
        return WorkloadsConfig(namespace=self.apps, hours=hours, ray=(policy,), pool_namespace=self.workers)

    def up(self, wanted: dict[str, Any], **annotations: str) -> None:
        """What Pulumi's provider sends: a server-side apply without force, and no field under `spec`."""
        metadata = {"name": "flow", "annotations": {SPEC: json.dumps(wanted), **annotations}}
        body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata}
        self.plane.api.patch(self.path, body, "application/apply-patch+yaml", fieldManager="pulumi")

    def annotate(self, key: str, value: str | None) -> None:
        self.plane.api.patch(self.path, {"metadata": {"annotations": {key: value}}}, fieldManager="kubectl")

    def autoscale(self, *operations: tuple[str, Any]) -> None:
        """As Ray's autoscaler does: values by index, and no version."""
        ops = [
            {"op": "replace", "path": f"/spec/workerGroupSpecs/{path}", "value": value} for path, value in operations
        ]
        kind = "application/json-patch+json"
        self.plane.api.patch(self.path, ops, kind, fieldManager="autoscaler")  # pyright: ignore[reportArgumentType] - a list

    def pods_gone(self, *, gone: bool = True) -> None:
        """What KubeRay says when the last pod of a suspended cluster has gone, or when it has been resumed."""
        condition = {"type": "RayClusterSuspended", "status": str(gone), "reason": "RayClusterSuspended", "message": ""}
        body = {"status": {"conditions": [{**condition, "lastTransitionTime": "2026-11-23T12:00:00Z"}]}}
        self.plane.api.patch(f"{self.path}/status", body, fieldManager="kuberay")

    def drivers(self, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.workers}/deployments/preprocess"
        self.plane.api.patch(path, {"spec": {"replicas": replicas}})

    def cluster(self) -> dict[str, Any]:
        return self.plane.api.get(self.path)

    def groups(self) -> list[tuple[str, int, int]]:
        """Name, replicas and maximum of each."""
        found = self.cluster().get("spec", {}).get("workerGroupSpecs", [])
        return [(it["groupName"], it["replicas"], it["maxReplicas"]) for it in found]

    def owners(self) -> dict[str, set[str]]:
        """Per field manager: its fields right under `spec`."""
        entries = self.cluster()["metadata"]["managedFields"]
        return {
            it["manager"]: {key.removeprefix("f:") for key in it["fieldsV1"].get("f:spec", {}) if key != "."}
            for it in entries
            if it.get("subresource") != "status"
        }

    def events(self) -> list[dict[str, Any]]:
        return events_of(self.plane.api, self.apps, WORKLOADS)

    def leader(self, name: str = "one") -> AbstractContextManager[RayProcess]:
        account = self.plane.kubeconfig_as(self.apps, WORKLOADS)
        process = RayProcess(name, self, kubeconfig=account, module="controllers.workloads")  # pyright: ignore[reportArgumentType] - file, folder and apps are all it takes
        return leading(process)


@contextmanager
def make_ray_scene(plane: ControlPlane, fresh: Fresh, folder: Path) -> Generator[RayScene]:
    _define(plane)
    scene = RayScene(plane=plane, apps=fresh.namespace("ray"), workers=fresh.namespace("workers"), folder=folder)
    plane.api.create(f"/api/v1/namespaces/{scene.apps}/serviceaccounts", {"metadata": {"name": WORKLOADS}})
    ray = [
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "resourceNames": ["flow"], "verbs": ["patch"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [WORKLOADS],
            "verbs": ["get", "update"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    pools = [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}]
    for namespace, rules in ((scene.apps, ray), (scene.workers, pools)):
        _grant(plane, namespace, scene.apps, rules)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{scene.apps}/leases"
    plane.api.create(leases, {"metadata": {"name": WORKLOADS}})
    labels = {"app": "preprocess"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "worker", "image": "worker"}]}}
    deployment = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    deployments = f"/apis/apps/v1/namespaces/{scene.workers}/deployments"
    plane.api.create(deployments, {"metadata": {"name": "preprocess"}, "spec": deployment})
    scene.file.write_text(dump(scene.config()))
    try:
        yield scene
    finally:
        scene.head.shutdown()
        scene.head.server_close()


def _define(plane: ControlPlane) -> None:
    """KubeRay's definition of a RayCluster; stays, for it is the same for all tests."""
    (crd,) = [it for it in crds("kuberay") if it.name == "rayclusters.ray.io"]
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.name}"
    metadata = {"name": crd.name, "annotations": crd.annotations}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}

    def served() -> bool:
        """An apply makes it anew, too, once another test's has gone; the whole is sent only where it is not there."""
        try:
            found = plane.api.get(path)
        except ApiError:
            plane.api.apply(path, {**kind, "metadata": metadata, "spec": crd.spec}, manager="kuberay")
            return False
        return "deletionTimestamp" not in found["metadata"] and "items" in plane.api.get("/apis/ray.io/v1/rayclusters")

    eventually(served, what="the definition")


def _grant(plane: ControlPlane, namespace: str, home: str, rules: Sequence[dict[str, Any]]) -> None:
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    plane.api.create(f"{rbac}/roles", {"metadata": {"name": WORKLOADS}, "rules": [*rules]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": WORKLOADS}
    account = {"kind": "ServiceAccount", "name": WORKLOADS, "namespace": home}
    plane.api.create(f"{rbac}/rolebindings", {"metadata": {"name": WORKLOADS}, "roleRef": role, "subjects": [account]})
