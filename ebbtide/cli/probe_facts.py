"""What a cluster says of itself, for `ebbtide probe`: a few bounded reads, asked side by side, nothing written.

What may not be seen is `None` or a `Denied` and never taken for absent. Access reviews are sent with POST and store
nothing. A cluster of a thousand nodes is not listed: of each set of nodes only the first fifty are looked at.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE, WORKER_NAMESPACE

NODES_LOOKED_AT = 50
_SIDE_BY_SIDE = 8  # requests at a time: a far away API server answers each in a tenth of a second
_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Asked(Protocol):
    """The part of the API that a probe needs."""

    def get(self, path: str, **query: str) -> Json: ...

    def create(self, path: str, body: Mapping[str, Any]) -> Json: ...


class Denied(NamedTuple):
    """The caller may not see it."""


class Right(NamedTuple):
    """One verb on one resource; in the whole cluster where the namespace is empty."""

    verb: str
    group: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}" + (f" in {self.namespace}" if self.namespace else "")


Seen: TypeAlias = Json | Denied | None
"""The object; `None` where there is none."""

NodeLabels: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    version: str  # "v1.35.2"; empty where the server does not tell
    apis: frozenset[str]  # group and version: "policy/v1"
    admission_policies: bool  # ValidatingAdmissionPolicy of v1
    identity: Seen  # the namespace kube-system
    namespaces: Mapping[str, Seen]  # Ebbtide's two
    storage_classes: Seen  # a list
    nodes: Mapping[str, Seen]  # by set of nodes: a list of the first of them
    controller: Seen  # the Deployment of one that runs here
    config: Seen  # its ConfigMap
    autoscaler_status: Seen  # a ConfigMap of the cluster autoscaler
    denied: frozenset[Right]


def facts_of(api: Asked, sets: Mapping[str, NodeLabels], rights: Sequence[Right]) -> Facts:
    """Raises `ApiError` where the server cannot be asked at all."""
    version = str(api.get("/version").get("gitVersion", ""))  # first and alone: an unreachable server is told once
    here = f"/api/v1/namespaces/{NAMESPACE}"
    paths = {
        "identity": "/api/v1/namespaces/kube-system",
        "system": here,
        "workers": f"/api/v1/namespaces/{WORKER_NAMESPACE}",
        "storage": "/apis/storage.k8s.io/v1/storageclasses",
        "controller": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{CONTROLLER}",
        "config": f"{here}/configmaps/{CONTROLLER}",
        "autoscaler": "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status",
        "groups": "/apis",
        "admission": "/apis/admissionregistration.k8s.io/v1",
    }
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        allowed = [pool.submit(_allowed, api, right) for right in rights]
        nodes = {name: pool.submit(_nodes, api, labels) for name, labels in sets.items()}
        looks = {name: pool.submit(_seen, api, path) for name, path in paths.items()}
        seen = {name: look.result() for name, look in looks.items()}
        return Facts(
            version=version,
            apis=_versions(seen["groups"]),
            admission_policies="validatingadmissionpolicies" in _names(seen["admission"], "resources"),
            identity=seen["identity"],
            namespaces={NAMESPACE: seen["system"], WORKER_NAMESPACE: seen["workers"]},
            storage_classes=seen["storage"],
            nodes={name: look.result() for name, look in nodes.items()},
            controller=seen["controller"],
            config=seen["config"],
            autoscaler_status=seen["autoscaler"],
            denied=frozenset(right for right, may in zip(rights, allowed, strict=True) if not may.result()),
        )


def _seen(api: Asked, path: str, **query: str) -> Seen:
    try:
        return api.get(path, **query)
    except ApiError as error:
        if error.status == 403:
            return Denied()
        if error.status == 404:
            return None
        raise


def _nodes(api: Asked, labels: NodeLabels) -> Seen:
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return _seen(api, "/api/v1/nodes", labelSelector=selector, limit=str(NODES_LOOKED_AT))


def _allowed(api: Asked, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "namespace": right.namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, "subresource": part} if part else attributes},
    }
    status: Json = api.create(_REVIEW, body).get("status") or {}
    return bool(status.get("allowed"))


def _versions(groups: Seen) -> frozenset[str]:
    listed: Sequence[Json] = groups.get("groups") or () if isinstance(groups, dict) else ()
    return frozenset(str(version["groupVersion"]) for group in listed for version in group.get("versions") or ())


def _names(seen: Seen, key: str) -> frozenset[str]:
    listed: Sequence[Json] = seen.get(key) or () if isinstance(seen, dict) else ()
    return frozenset(str(item["name"]) for item in listed)
