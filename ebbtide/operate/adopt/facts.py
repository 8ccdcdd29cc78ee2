"""Objects that `ebbtide adopt` reads: pods of the team's namespaces with their owners, budgets and nodes. Read-only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controllers.adapters.kube_api import KubeApi
from ebbtide.operate.api import items, readable
from ebbtide.operate.objects import at
from ebbtide.operate.owners import Owners
from ebbtide.operate.why.node import autoscaler_flags
from ebbtide.operate.why.node_pins import pod_name
from ebbtide.recording.drainable import Item

OF_A_NODE = ("DaemonSet", "Node")
"""Owner kinds whose pods belong to one node; the policy leaves these pods alone."""


class PodOwner(NamedTuple):
    """A pod's owner, as far as adoption needs it."""

    kind: str
    name: str
    has_scale: bool | None  # None: unknown
    item: Item | None = None  # None: it could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptFacts:
    namespaces: Sequence[str]
    pods: Sequence[Item]  # of these namespaces
    owners: Mapping[str, PodOwner]  # by the pod's "namespace/name"; none for bare pods and pods of a node
    budgets: Sequence[Item] = ()  # of these namespaces
    nodes: Sequence[Item] = ()
    flags: Mapping[str, str] | None = None  # the autoscaler's command-line flags; None: not found
    unread: Sequence[str] = ()


def adopt_facts(api: KubeApi, namespaces: Sequence[str]) -> AdoptFacts:
    """Read all objects. Raises `ApiError` if the pods cannot be read; `unread` lists what else could not be."""
    unread: list[str] = []
    pods = [pod for namespace in namespaces for pod in items(api, f"/api/v1/namespaces/{namespace}/pods")]
    paths = [f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets" for namespace in namespaces]
    owners = _owners(api, pods)
    unread += sorted({f"objects of kind {owner.kind}" for owner in owners.values() if owner.item is None})
    return AdoptFacts(
        namespaces=namespaces,
        pods=pods,
        owners=owners,
        budgets=readable("budgets", unread, lambda: [each for path in paths for each in items(api, path)]) or (),
        nodes=readable("nodes", unread, lambda: items(api, "/api/v1/nodes")) or (),
        flags=readable("the autoscaler's flags", unread, lambda: autoscaler_flags(api)),
        unread=unread,
    )


def _owners(api: KubeApi, pods: Iterable[Item]) -> dict[str, PodOwner]:
    owners = Owners(api)
    found = {pod_name(pod): owners.of(pod) for pod in pods}
    return {
        key: PodOwner(owner.kind, owner.name, owners.has_scale(owner), owners.item(owner))
        for key, owner in found.items()
        if owner.kind and owner.kind not in OF_A_NODE
    }


def template_labels(owner: PodOwner | None) -> Mapping[str, str] | None:
    """Return the labels in the owner's pod template; None if no template could be read."""
    item = None if owner is None else owner.item
    for path in (("spec", "template"), ("spec", "jobTemplate", "spec", "template")):
        labels: Mapping[str, str] | None = at(item, *path, "metadata", "labels")
        if labels:
            return labels
    return None
