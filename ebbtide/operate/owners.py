"""The owner of a pod: the object whose desired number of pods a budget uses, and that a person would edit.

This is the pod's controller, as for Kubernetes' disruption controller, except that a Deployment replaces its
ReplicaSets and a CronJob its Jobs. If an owner cannot be read, the pod's owner reference is returned.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.operate.objects import at, rows_at

_PARENTS = {("apps/v1", "ReplicaSet"): "replicasets", ("batch/v1", "Job"): "jobs"}
_SCALED = {"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"}
_UNSCALED = {"", "CronJob", "DaemonSet", "Job", "Node"}


class Reads(Protocol):
    """The part of the API that finding an owner needs."""

    def get(self, path: str, **query: str) -> Json: ...


class Owner(NamedTuple):
    """An owner of pods; without a kind, it represents all pods of the namespace that have no owner."""

    namespace: str
    api_version: str = ""
    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.kind else "no owner"


class Owners:
    """Finds owners, with one request for each object and for each API group."""

    def __init__(self, api: Reads) -> None:
        self._api = api
        self._known: dict[Owner, Owner] = {}
        self._items: dict[Owner, Json | None] = {}
        self._resources: dict[str, list[Mapping[str, Any]]] = {}

    def of(self, pod: Mapping[str, Any]) -> Owner:
        """Return the pod's owner. Raises `ApiError` only if the server cannot be reached."""
        direct = controller_of(pod)
        if direct not in self._known:
            self._known[direct] = self._parent(direct)
        return self._known[direct]

    def has_scale(self, owner: Owner) -> bool | None:
        """Return True if the owner has a scale subresource; None if the API group cannot be read."""
        if owner.kind in _SCALED or owner.kind in _UNSCALED:
            return owner.kind in _SCALED
        plural = self._plural(owner)
        return None if plural is None else f"{plural}/scale" in self._served(owner)

    def item(self, owner: Owner) -> Json | None:
        """Return the owner itself; None if it cannot be read."""
        if owner not in self._items:
            plural = _PARENTS.get((owner.api_version, owner.kind)) or self._plural(owner)
            path = f"{_root(owner)}/namespaces/{owner.namespace}/{plural}/{owner.name}"
            self._items[owner] = None if plural is None else self._read(path)
        return self._items[owner]

    def _served(self, owner: Owner) -> Mapping[str, object]:
        """Return the kinds of the owner's API group by their names in paths."""
        if owner.api_version not in self._resources:
            self._resources[owner.api_version] = rows_at(self._read(_root(owner)), "resources")
        return {str(row.get("name")): row.get("kind") for row in self._resources[owner.api_version]}

    def _plural(self, owner: Owner) -> str | None:
        served = self._served(owner).items()
        return next((name for name, kind in served if kind == owner.kind and "/" not in name), None)

    def _parent(self, owner: Owner) -> Owner:
        item = self.item(owner) if (owner.api_version, owner.kind) in _PARENTS else None
        parent = owner if item is None else controller_of(item)
        return parent if parent.kind else owner

    def _read(self, path: str) -> Json | None:
        try:
            return self._api.get(path)
        except ApiError as error:
            if error.status in (403, 404):
                return None
            raise


def _root(owner: Owner) -> str:
    return f"/{'apis' if '/' in owner.api_version else 'api'}/{owner.api_version}"


def controller_of(item: Mapping[str, Any]) -> Owner:
    namespace = str(at(item, "metadata", "namespace") or "")
    for reference in rows_at(item, "metadata", "ownerReferences"):
        if reference.get("controller"):
            return Owner(namespace, *(str(reference.get(key) or "") for key in ("apiVersion", "kind", "name")))
    return Owner(namespace)
