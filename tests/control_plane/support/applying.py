"""Rendered files on an API server: sent as `kubectl apply --server-side` sends them, written to as the controller does.

Raw requests, since kubectl takes a second for what the server does in a few milliseconds.
"""

import hashlib
import json
import shlex
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import APPLY, ApiError, Json, KubeApi
from controllers.adapters.kube_cluster import KubeCluster
from controllers.ports import Outcome, Scale, SetBudget, Unknown
from ebbtide.operate.release import AUTOSCALER
from ebbtide.recording.record import without_garbage_collection
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE
from tests.builders.control_plane import eventually

NEW_KIND = "CustomResourceDefinition"


_TOLD_BY_THE_SERVER = (NEW_KIND, "APIService")
"""Kinds whose status the API server writes by itself, at any time."""


class State(NamedTuple):
    """Not the `resourceVersion`, nor when somebody's fields were last written: of a list with several keys the API
    server writes the owners in the order of texts or of numbers, by which way a write came. So an apply after a write
    by another way changes that order, these two and nothing else (seen in 1.35).
    """

    content: str  # a digest of all else; moves with every write, were it of one field's owner
    generation: int  # moves with what is asked for


class Applying:
    """Applies objects in their order. `paths` are all that were applied, to be looked at and deleted."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._collections: dict[tuple[str, str], tuple[str, bool]] = {}  # to the plural, and whether in a namespace
        self.paths: list[str] = []

    def apply(self, objects: Sequence[Json]) -> dict[str, State]:
        """One pass. Raises `ApiError` for what is refused: an unknown field, or one with another owner."""
        states: dict[str, State] = {}
        for each in objects:
            (path,) = self.know([each])  # of a kind that an object before it may have made known
            answer = self._api.patch(path, each, APPLY, fieldManager="kubectl", fieldValidation="Strict", force="false")
            states[path] = state_of(self._known(path) if each["kind"] == NEW_KIND else answer)
        return states

    def _known(self, path: str) -> Json:
        """Once the server serves the kind, which it does a moment after it was told of it."""

        def established() -> Json | None:
            item = self._api.get(path)
            group, version = item["spec"]["group"], item["spec"]["versions"][0]["name"]
            served = {one["name"] for one in self._api.get(f"/apis/{group}/{version}")["resources"]}
            told = {one["type"] for one in item.get("status", {}).get("conditions") or () if one["status"] == "True"}
            return (
                item if item["spec"]["names"]["plural"] in served and told >= {"NamesAccepted", "Established"} else None
            )

        return eventually(established, what=f"{path} to be served")

    def know(self, objects: Sequence[Json]) -> list[str]:
        """Their paths; from now on they are looked at and deleted, whoever applies them."""
        paths = [self._path_of(each) for each in objects]
        self.paths += [path for path in paths if path not in self.paths]
        return paths

    def knows(self, one: Json) -> bool:
        return self._path_of(one) in self.paths

    def now(self) -> dict[str, State]:
        return {path: state_of(self._api.get(path)) for path in self.paths}

    def _path_of(self, item: Mapping[str, Any]) -> str:
        version, metadata = item["apiVersion"], item["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, item["kind"]) not in self._collections:
            found = self._api.get(root)["resources"]
            plain = {one["kind"]: (one["name"], one["namespaced"]) for one in found if "/" not in one["name"]}
            self._collections.update({(version, kind): facts for kind, facts in plain.items()})
        plural, namespaced = self._collections[version, item["kind"]]
        space = f"/namespaces/{metadata['namespace']}" if namespaced else ""
        return f"{root}{space}/{plural}/{metadata['name']}"

    def delete(self) -> None:
        """All of it. A namespace and a Job are finalized by hand: the controllers that do it may not be there."""
        for path in reversed([path for path in self.paths if "/customresourcedefinitions/" not in path]):
            self._api.delete(path)  # kinds stay, and are the same for all stacks
            if "/jobs/" in path:  # whose pods are orphaned first, by the garbage collector
                with suppress(ApiError):  # it is gone where there is one
                    self._api.patch(path, {"metadata": {"finalizers": None}})
            if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
                try:
                    self._api.replace(f"{path}/finalize", {**self._api.get(path), "spec": {"finalizers": []}})
                except ApiError as error:
                    if error.status != 404:
                        raise
        self.paths = []


def followed(plane: ControlPlane, folder: Path) -> str:
    """The steps of APPLY.md, as they stand there; what the last apply accepted."""
    accepted = ""
    for line in (folder / "APPLY.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("kubectl "):
            words = shlex.split(line.replace("…", "x").replace("-f kubernetes/", f"-f {folder}/kubernetes/"))[1:]
            applies = words[0] == "apply"
            told = plane.kubectl(*words, *(("--validate=strict", "--output=name") if applies else ()))
            accepted = told if applies else accepted
    return accepted


@without_garbage_collection()
def objects_in(folder: Path) -> list[Json]:
    """What `ebbtide render` wrote, in the order in which kubectl takes it."""
    files = sorted((folder / "kubernetes").iterdir())
    return [each for file in files for each in yaml.load_all(file.read_bytes(), yaml.CSafeLoader) if each]


@contextmanager
def controller_of(plane: ControlPlane, config: ControllerConfig) -> Generator[KubeCluster]:
    """The controller's own adapter, with its own token and the rendered rights, once it sees the cluster."""
    api = plane.api_as(NAMESPACE, CONTROLLER)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{CONTROLLER}"
    eventually(lambda: api.get(lease), what="the rights of the controller to be known")
    cluster = KubeCluster(api, config, may_write=lambda: True, notify=lambda: None)
    cluster.start()
    try:
        eventually(lambda: not cluster.trouble(), what="the controller to see the cluster")
        yield cluster
    finally:
        cluster.close()


def write_all(cluster: KubeCluster, config: ControllerConfig, *, workers: int, opening: int) -> None:
    """Replicas of every pool and `maxUnavailable` of every flexible budget, bound to the version seen."""
    for pool in config.pools:
        eventually(partial(_scale, cluster, pool.name, workers), what=f"the controller to scale {pool.name}")
    for budget in config.budgets:
        eventually(partial(_set, cluster, budget.name, opening), what=f"the controller to write {budget.name}")


def _scale(cluster: KubeCluster, pool: str, workers: int) -> bool:
    seen = cluster.observe()
    if isinstance(seen, Unknown):
        return False
    version = seen.pools[pool].version if pool in seen.pools else None
    return cluster.act(Scale(pool=pool, replicas=workers, version=version, reason="test")) is Outcome.DONE


def _set(cluster: KubeCluster, budget: str, opening: int) -> bool:
    seen = cluster.observe()
    if isinstance(seen, Unknown):
        return False
    version = seen.budgets[budget].version if budget in seen.budgets else None
    act = SetBudget(budget=budget, max_unavailable=opening, version=version, reason="test")
    return cluster.act(act) is Outcome.DONE


def scale_as_autoscaler(api: KubeApi, path: str, replicas: int) -> None:
    """As a HorizontalPodAutoscaler writes: the whole `scale`, under the controller manager's name."""
    scale = api.get(f"{path}/scale")
    spec = {**scale.get("spec", {}), "replicas": replicas}
    api.patch(f"{path}/scale", {"spec": spec}, fieldManager=AUTOSCALER)


def state_of(item: Json) -> State:
    told = item.get("kind") in _TOLD_BY_THE_SERVER
    dropped = ("apiVersion", "kind", *(["status"] if told else []))  # a list's items have neither of the first two
    rest = {key: it for key, it in item.items() if key not in dropped}
    left_out = ("resourceVersion", "managedFields")
    rest["metadata"] = {key: it for key, it in item["metadata"].items() if key not in left_out}
    owners = [
        {**each, "time": ""}
        for each in item["metadata"].get("managedFields", ())
        if not (told and each.get("subresource") == "status")
    ]
    text = json.dumps([rest, owners], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return State(digest, item["metadata"].get("generation", 0))


@contextmanager
def quiet_plane() -> Generator[ControlPlane]:
    """Without nodes and controllers, and so without anybody but the test who writes."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane(with_nodes=False) as plane:
        yield plane
