"""One worker pool and one flexible budget, and the three who write them: the program, the controller, an operator."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import Any

from control_plane.plane.driver import ControlPlane

from components.ownership import MAX_UNAVAILABLE, REPLICAS
from controllers.adapters.kube_api import APPLY, Json, KubeApi
from controllers.adapters.kube_cluster import KubeCluster
from controllers.ports import Outcome, Scale, SetBudget
from ebbtide.operate.release import owners_of
from tests.control_plane.support.kube import budget, config_of, deployment

DONE = Outcome.DONE
POST_MANAGER = "pulumi-kubernetes"
APPLY_MANAGER = "pulumi-kubernetes-7c1d2e3f"
IGNORED = (REPLICAS, MAX_UNAVAILABLE)
_TAKEN_OVER = (("kubectl", "Apply"), ("kubectl", "Update"), ("before-first-apply", "Update"), (POST_MANAGER, "Update"))

Entry = Mapping[str, Any]


class Provisioner:
    """A stand-in for the Kubernetes provider of Pulumi (4.29 and later), which needs an engine.

    It sends what the provider sends: a creation is a POST; an update reads the object, takes over what kubectl and
    the POST own, leaves an ignored field out if only others own it, sends its live value otherwise, and applies
    without force. A preview takes nothing over, and forces while the entry of the POST is there.
    """

    def __init__(self, api: KubeApi, *, ignore: Sequence[str] = IGNORED, force: bool = False) -> None:
        self._api, self._ignore, self._force = api, ignore, force

    def create(self, path: str, body: Json) -> Json:
        return self._api._answer("POST", path.rpartition("/")[0], {"fieldManager": POST_MANAGER}, body)

    def update(
        self,
        path: str,
        body: Json,
        *,
        after_reading: Callable[[], object] = lambda: None,
        before_applying: Callable[[], object] = lambda: None,
    ) -> Json:
        """Raises `ApiError` 409 where somebody else owns a field that is sent with another value."""
        live = self._api.get(path)
        after_reading()
        entries: Sequence[Entry] = live["metadata"]["managedFields"]
        moved = _moved(entries)
        if moved != entries:  # not bound to the version that was read, as the provider's is not
            live = self._api.patch(path, {"metadata": {"managedFields": moved}})
        before_applying()
        return self._apply(path, self._sent(body, live), force=self._force)

    def preview(self, path: str, body: Json) -> Json:
        live = self._api.get(path)
        posted = any(_is(entry, POST_MANAGER, "Update") for entry in live["metadata"]["managedFields"])
        return self._apply(path, self._sent(body, live), force=posted or self._force, dryRun="All")

    def _apply(self, path: str, body: Json, *, force: bool, **query: str) -> Json:
        return self._api.patch(path, body, APPLY, fieldManager=APPLY_MANAGER, force=str(force).lower(), **query)

    def _sent(self, body: Json, live: Json) -> Json:
        sent = deepcopy(body)
        for field in self._ignore:
            parent, name = field.split(".")
            owners = owners_of(live["metadata"]["managedFields"], (parent, name))
            if owners and APPLY_MANAGER not in owners:
                sent[parent].pop(name, None)
            elif name in live[parent]:
                sent[parent][name] = live[parent][name]
        return sent


def _moved(entries: Sequence[Entry]) -> list[Entry]:
    """The same list, with what kubectl and the POST own in the entry of our applies."""
    taken = [entry for entry in entries if any(_is(entry, *other) for other in _TAKEN_OVER)]
    ours = [entry for entry in entries if _is(entry, APPLY_MANAGER, "Apply")]
    if not taken:
        return [*entries]
    fields: Json = reduce(_union, (entry["fieldsV1"] for entry in (*ours, *taken)), {})
    whole = {**taken[0], "manager": APPLY_MANAGER, "operation": "Apply", "fieldsV1": fields}
    return [*(entry for entry in entries if entry not in taken and entry not in ours), whole]


def _is(entry: Entry, manager: str, operation: str) -> bool:
    """Names are compared by how they begin, as the provider does."""
    begins = str(entry["manager"]).startswith(manager)
    return begins and entry["operation"] == operation and not entry.get("subresource")


def _union(one: Json, other: Json) -> Json:
    return {**one, **{key: _union(one.get(key, {}), inner) for key, inner in other.items()}}


@dataclass(frozen=True, kw_only=True)
class Program:
    """What the stack file says at one time."""

    image: str = "worker:1"
    label: str = "a"
    memory: str = "1Gi"

    def deployment(self, namespace: str, **spec: Any) -> Json:
        body = deployment("train", namespace, image=self.image)
        body["metadata"]["labels"]["test"] = self.label
        body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"memory": self.memory}}
        return _with(body, spec)

    def budget(self, namespace: str, **spec: Any) -> Json:
        body = budget("api", namespace)
        body["metadata"]["labels"] = {"test": self.label}
        return _with(body, spec)


def _with(body: Json, spec: Mapping[str, Any]) -> Json:
    """None leaves a field out."""
    changed = {key: value for key, value in {**body["spec"], **spec}.items() if value is not None}
    return {**body, "spec": changed}


class Site:
    """The pool `train` and the budget `api` in a namespace of their own, and the controller's writes to them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.api, self.namespace = plane, plane.api, namespace
        self.pool = f"/apis/apps/v1/namespaces/{namespace}/deployments/train"
        self.budget = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/api"
        config = config_of(["train"], ["api"], namespace)
        self._controller = KubeCluster(self.api, config, may_write=lambda: True, notify=lambda: None)

    def create(self, by: Provisioner, program: Program, **fields: Any) -> None:
        by.create(self.pool, program.deployment(self.namespace, **_only("replicas", fields)))
        by.create(self.budget, program.budget(self.namespace, **_only("maxUnavailable", fields)))

    def update(self, by: Provisioner, program: Program, **fields: Any) -> None:
        by.update(self.pool, program.deployment(self.namespace, **_only("replicas", fields)))
        by.update(self.budget, program.budget(self.namespace, **_only("maxUnavailable", fields)))

    def scale(self, replicas: int) -> None:
        """By the controller."""
        assert self._controller.act(Scale(pool="train", replicas=replicas, version=None, reason="test")) is DONE

    def open(self, value: int) -> None:
        """Or close, by the controller."""
        act = SetBudget(budget="api", max_unavailable=value, version=None, reason="test")
        assert self._controller.act(act) is DONE

    @property
    def replicas(self) -> int:
        return int(self.api.get(self.pool)["spec"].get("replicas", 0))

    @property
    def opening(self) -> int | None:
        return self.api.get(self.budget)["spec"].get("maxUnavailable")

    @property
    def image(self) -> str:
        return str(self.api.get(self.pool)["spec"]["template"]["spec"]["containers"][0]["image"])

    def owners(self, field: str) -> list[str]:
        """Of `spec.replicas` or `spec.maxUnavailable`."""
        item = self.api.get(self.pool if field == REPLICAS else self.budget)
        return owners_of(item["metadata"]["managedFields"], field.split("."))


def _only(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name]} if name in fields else {}
