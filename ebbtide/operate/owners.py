"""The owner of a pod: the object whose intended number of pods a budget counts, and that a person would edit.

That is the pod's controller, as for Kubernetes' disruption controller, except that a Deployment stands for its
ReplicaSets and a CronJob for its Jobs. An owner that cannot be read is named as the pod names it.
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
    """An owner of pods; without a kind it stands for all pods of the namespace that nothing owns."""

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
        self._resources: dict[str, list[Mapping[str, Any]]] = {}

    def of(self, pod: Mapping[str, Any]) -> Owner:
        """Return the pod's owner. Raises `ApiError` only if the server cannot be reached."""
        direct = _controller(pod)
        if direct not in self._known:
            self._known[direct] = self._parent(direct)
        return self._known[direct]

    def has_scale(self, owner: Owner) -> bool | None:
        """Return True if the owner has a scale subresource; None if the API group cannot be read."""
        if owner.kind in _SCALED or owner.kind in _UNSCALED:
            return owner.kind in _SCALED
        if owner.api_version not in self._resources:
            self._resources[owner.api_version] = rows_at(self._read(f"/apis/{owner.api_version}"), "resources")
        resources = {str(row.get("name")): row.get("kind") for row in self._resources[owner.api_version]}
        plurals = [name for name, kind in resources.items() if kind == owner.kind and "/" not in name]
        return f"{plurals[0]}/scale" in resources if plurals else None

    def _parent(self, owner: Owner) -> Owner:
        plural = _PARENTS.get((owner.api_version, owner.kind))
        if plural is None:
            return owner
        item = self._read(f"/apis/{owner.api_version}/namespaces/{owner.namespace}/{plural}/{owner.name}")
        parent = owner if item is None else _controller(item)
        return parent if parent.kind else owner

    def _read(self, path: str) -> Json | None:
        try:
            return self._api.get(path)
        except ApiError as error:
            if error.status in (403, 404):
                return None
            raise


def _controller(item: Mapping[str, Any]) -> Owner:
    namespace = str(at(item, "metadata", "namespace") or "")
    for reference in rows_at(item, "metadata", "ownerReferences"):
        if reference.get("controller"):
            return Owner(namespace, *(str(reference.get(key) or "") for key in ("apiVersion", "kind", "name")))
    return Owner(namespace)
