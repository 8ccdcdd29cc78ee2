"""A controller build with the worst possible decision: it wants everything, at once, with the controller's own token.

The wiring is production's: process, Lease, term, caches and cluster adapter, and a config that calls every budget
flexible and every Deployment a pool. Only the loop is another one. It asks through the adapter first, then through the
API in every form that Kubernetes knows. Each wish is a line on stdout with the API server's answer.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import controllers.scaler.main as production
from controllers import process
from controllers.adapters.kube_api import MERGE_PATCH, ApiError, KubeApi
from controllers.adapters.kube_cluster import KubeCluster
from controllers.ports import Action, Mark, Outcome, Ports, Scale, SetBudget
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import FIELD_MANAGER, WORKLOAD

TARGETS = "FAULTY_TARGETS"
"""Names the file with the paths of the objects: kind (`budgets`, `scalable`, `pods`, `secrets`, `roles`,
`policies`, `collections`) to a list."""

MOST = 1000  # replicas
JSON_PATCH, STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"
Wish: TypeAlias = tuple[str, str, Callable[[], object]]  # what, of which object, and how


class GreedyLoop:
    """In the place of `Loop`."""

    def __init__(self, config: ControllerConfig, ports: Ports) -> None:
        assert isinstance(ports.cluster, KubeCluster)
        self._config, self._cluster, self._done = config, ports.cluster, False
        self._targets: Mapping[str, list[str]] = json.loads(Path(os.environ[TARGETS]).read_text())

    def reconcile(self, now: datetime) -> timedelta:  # noqa: ARG002 - it does not care
        if not self._done:
            for action in self._actions():
                outcome = self._cluster.act(action)
                tell(f"act {action}", "", 200 if outcome is Outcome.DONE else 0)
            for what, path, wish in wishes(self._cluster._api, self._targets):
                tell(what, path, status_of(wish))
            tell("the end", "", 0)
        self._done = True
        return timedelta(seconds=1)

    def stop(self, now: datetime, keep: Set[str] = frozenset()) -> None:
        """It closes nothing on the way out either."""

    def _actions(self) -> Iterator[Action]:
        for budget in self._config.budgets:
            for value in (1, 2):
                yield SetBudget(budget=budget.name, max_unavailable=value, version=None, reason="greed")
        for pool in self._config.pools:
            yield Scale(pool=pool.name, replicas=MOST, version=None, reason="greed")
            for path in self._targets["pods"]:
                yield Mark(pool=pool.name, pod=path.rpartition("/")[2], idle=True, reason="greed")


def tell(what: str, path: str, status: int) -> None:
    print(json.dumps({"wish": what, "path": path, "status": status}), flush=True)


def status_of(wish: Callable[[], object]) -> int:
    try:
        wish()
    except ApiError as error:
        return error.status
    return 200


def wishes(api: KubeApi, targets: Mapping[str, list[str]]) -> Iterator[Wish]:
    for path in targets["budgets"]:
        for value in (1, 2, "100%"):
            yield from changes(api, f"open to {value}", path, ("maxUnavailable", value))
        yield (
            "drop the selector",
            path,
            lambda path=path: api.patch(path, {"spec": {"selector": {"matchLabels": None}}}),
        )
        yield from changes(api, "status of 9", f"{path}/status", ("disruptionsAllowed", 9), section="status")
    for path in targets["scalable"]:
        yield from changes(api, "scale up", f"{path}/scale", ("replicas", MOST))
        yield from changes(api, "scale up directly", path, ("replicas", MOST))
        containers = [{"name": path.rpartition("/")[2], "image": "evil"}]
        image = {"spec": {"template": {"spec": {"containers": containers}}}}
        yield "image", path, lambda path=path, image=image: api.patch(path, image, STRATEGIC)
        yield "restart", path, lambda path=path: api.patch(path, {"spec": {"template": {"metadata": {"labels": {}}}}})
    for path in targets["pods"]:
        yield from of_a_pod(api, path)
    for path in (*targets["secrets"], *targets["collections"]):
        if "secrets" in path:
            yield "read a Secret", path, lambda path=path: api.get(path)
        yield "delete", path, lambda path=path: api.delete(path)
    for kind in ("budgets", "scalable", "pods", "roles", "policies"):
        for path in targets[kind]:
            yield "delete", path, lambda path=path: api.delete(path)
    yield from of_more_rights(api, targets["roles"])


def changes(api: KubeApi, what: str, path: str, change: tuple[str, object], section: str = "spec") -> Iterator[Wish]:
    """One field to one value, in each form that the API takes."""
    field, value = change
    body: Any = {section: {field: value}}
    operations: Any = [{"op": "add", "path": f"/{section}/{field}", "value": value}]
    yield f"{what} by merge", path, lambda: api.patch(path, body, MERGE_PATCH)
    yield f"{what} by strategic merge", path, lambda: api.patch(path, body, STRATEGIC)
    yield f"{what} by JSON patch", path, lambda: api.patch(path, operations, JSON_PATCH)
    yield f"{what} by apply", path, lambda: api.apply(path, {**head_of(path), **body}, manager=FIELD_MANAGER)
    yield f"{what} by PUT", path, lambda: api.replace(path, {**head_of(path), **body})


def head_of(path: str) -> dict[str, Any]:
    name = path.removesuffix("/scale").removesuffix("/status").rpartition("/")[2]
    if path.endswith("/scale"):
        kind = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    elif "poddisruptionbudgets" in path:
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    else:
        kind = {"apiVersion": "apps/v1", "kind": "Deployment" if "/deployments/" in path else "StatefulSet"}
    return {**kind, "metadata": {"name": name}}


def of_a_pod(api: KubeApi, path: str) -> Iterator[Wish]:
    name, label = path.rpartition("/")[2], WORKLOAD.replace("/", "~1")
    relabel: Any = [{"op": "replace", "path": f"/metadata/labels/{label}", "value": "none"}]
    yield "relabel by merge", path, lambda: api.patch(path, {"metadata": {"labels": {WORKLOAD: "none"}}})
    yield "relabel by JSON patch", path, lambda: api.patch(path, relabel, JSON_PATCH)
    yield "annotate", path, lambda: api.patch(path, {"metadata": {"annotations": {"evil": "yes"}}})
    yield "fail it", f"{path}/status", lambda: api.patch(f"{path}/status", {"status": {"phase": "Failed"}})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    yield "evict", path, lambda: api.create(f"{path}/eviction", eviction)
    bound = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "any"}}
    yield "bind", path, lambda: api.create(f"{path}/binding", bound)


def of_more_rights(api: KubeApi, roles: list[str]) -> Iterator[Wish]:
    everything: Any = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    for path in roles:
        yield "widen", path, lambda path=path: api.patch(path, everything)
    admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding: Any = {"metadata": {"name": "evil"}, "roleRef": admin, "subjects": []}
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    yield "become administrator", bindings, lambda: api.create(bindings, binding)
    yield "look around", "/api/v1/pods", lambda: api.get("/api/v1/pods")
    yield "look elsewhere", "kube-system", lambda: api.get("/api/v1/namespaces/kube-system/configmaps")


if __name__ == "__main__":
    production.Loop = GreedyLoop  # pyright: ignore[reportAttributeAccessIssue] - the fault
    process._SYNC = 0.5  # what it may not read never arrives
    sys.exit(production.main(sys.argv[1:]))
