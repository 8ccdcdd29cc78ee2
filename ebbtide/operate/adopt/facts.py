"""Objects that `ebbtide adopt` reads: pods of the team's namespaces with their owners, budgets, nodes. Only reads.

Kubernetes counts the pods of a budget by the controller of a pod: a ReplicaSet's Deployment, or the controller itself.
So owners are followed that far and no further, and discovery says if the controller's kind has a scale subresource.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from controllers.adapters.kube_api import ApiError, Json, KubeApi
from ebbtide.operate.api import items, one_line, readable
from ebbtide.operate.objects import at, rows_at
from ebbtide.operate.why.node import autoscaler_flags
from ebbtide.recording.drainable import Item

_MADE_FOR_ONE_RUN = ("ReplicaSet", "Job")
"""Controllers that an owner creates again and again."""


class Owner(NamedTuple):
    """A pod's workload: its controller, or the owner of that, if the controller is one of many."""

    kind: str
    name: str
    controller: str  # kind of the pod's controller
    has_scale: bool | None  # of the controller; None: unknown
    item: Item | None = None  # None: it could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptFacts:
    namespaces: Sequence[str]
    pods: Sequence[Item]  # of these namespaces
    owners: Mapping[str, Owner]  # by "namespace/name" of the pod; without those that no controller creates
    budgets: Sequence[Item] = ()  # of these namespaces
    nodes: Sequence[Item] = ()
    flags: Mapping[str, str] | None = None  # of the autoscaler's command line; None: not found
    unread: Sequence[str] = ()


def adopt_facts(api: KubeApi, namespaces: Sequence[str]) -> AdoptFacts:
    """Read all objects. Raises `ApiError` if the pods cannot be read; all else may be missing."""
    unread: list[str] = []
    pods = [pod for namespace in namespaces for pod in items(api, f"/api/v1/namespaces/{namespace}/pods")]
    budgets = [
        budget
        for namespace in namespaces
        for budget in readable(
            f"budgets of {namespace}",
            unread,
            lambda path=f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets": items(api, path),
        )
        or ()
    ]
    reader = _Owners(api, unread)
    owners = {key_of(pod): owner for pod in pods if (owner := reader.owner(pod)) is not None}
    return AdoptFacts(
        namespaces=namespaces,
        pods=pods,
        owners=owners,
        budgets=budgets,
        nodes=readable("nodes", unread, lambda: items(api, "/api/v1/nodes")) or (),
        flags=readable("the autoscaler's flags", unread, lambda: autoscaler_flags(api)),
        unread=unread,
    )


def key_of(item: Item) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def controller_of(item: object) -> Item | None:
    """Return the owner reference of the controller."""
    return next((owner for owner in rows_at(item, "metadata", "ownerReferences") if owner.get("controller")), None)


class _Kind(NamedTuple):
    plural: str
    has_scale: bool


class _Owners:
    """Reads each API and each list of owners once. A refused read is noted once."""

    def __init__(self, api: KubeApi, unread: list[str]) -> None:
        self._api, self._unread = api, unread
        self._kinds, self._all = cache(self._read_kinds), cache(self._read_all)

    def owner(self, pod: Item) -> Owner | None:
        reference = controller_of(pod)
        if reference is None:
            return None
        kind, name, version = reference["kind"], reference["name"], reference["apiVersion"]
        served = self._kinds(version).get(kind)
        item = self._all(version, kind, pod["metadata"]["namespace"]).get(name)
        has_scale, controller = (None if served is None else served.has_scale), kind
        above = controller_of(item) if kind in _MADE_FOR_ONE_RUN else None
        if above is not None:
            kind, name = above["kind"], above["name"]
            item = self._all(above["apiVersion"], kind, pod["metadata"]["namespace"]).get(name)
        return Owner(kind, name, controller, has_scale, item)

    def _read_kinds(self, version: str) -> dict[str, _Kind]:
        try:
            listed = rows_at(self._api.get(_root(version)), "resources")
        except ApiError as error:
            self._note(f"the kinds of {version}: {one_line(error)}")
            return {}
        names = {str(resource["name"]) for resource in listed}
        plain = [resource for resource in listed if "/" not in str(resource["name"])]
        return {each["kind"]: _Kind(each["name"], f"{each['name']}/scale" in names) for each in plain}

    def _read_all(self, version: str, kind: str, namespace: str) -> dict[str, Json]:
        served = self._kinds(version).get(kind)
        if served is None:
            return {}
        try:
            listed = items(self._api, f"{_root(version)}/namespaces/{namespace}/{served.plural}")
        except ApiError as error:
            self._note(f"{served.plural} of {namespace}: {one_line(error)}")
            return {}
        return {item["metadata"]["name"]: item for item in listed}

    def _note(self, line: str) -> None:
        if line not in self._unread:
            self._unread.append(line)


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def template_labels(owner: Owner | None) -> Mapping[str, str] | None:
    """Return the labels in the pod template of an owner; None if it has no template that could be read."""
    item = None if owner is None else owner.item
    for path in (("spec", "template"), ("spec", "jobTemplate", "spec", "template")):
        labels: Mapping[str, str] | None = at(item, *path, "metadata", "labels")
        if labels:
            return labels
    return None
