"""Services as the API server has them: what sizes their pods, and what leads to them.

All is found by one label, so that no stack file is needed. What cannot be read hides nothing of the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import find, one_line
from ebbtide.operate.objects import Document, at, labels_of, rows_at
from ebbtide.provisioning_labels import SERVICE, SHARED_BY
from ebbtide.vocabulary.labels import WORKLOAD

_HPAS = "autoscaling/v2", "horizontalpodautoscalers", "HPAs"
_SCALED = "keda.sh/v1alpha1", "scaledobjects", "KEDA's ScaledObjects"
_ROUTES = "gateway.networking.k8s.io/v1", "httproutes", "HTTPRoutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The pods of one name. None for what does not exist or could not be read."""

    pods: str
    hpa: Document | None = None
    scaled: Document | None = None  # KEDA's, which makes the HPA
    workload: Document | None = None
    pending: Sequence[Document] = ()

    @property
    def ready(self) -> int:
        return at(self.workload, "status", "readyReplicas") or 0

    @property
    def asked(self) -> int | None:
        return None if self.workload is None else at(self.workload, "spec", "replicas") or 0

    @property
    def wanted(self) -> int | None:
        """By the autoscaler; None where there is none, or where it has not looked yet."""
        return at(self.hpa, "status", "desiredReplicas") if conditions(self.hpa) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    name: str
    variants: Sequence[Variant] = ()
    routes: Sequence[Document] = ()
    gateways: Mapping[tuple[str, str], Document | None] = field(default_factory=dict[tuple[str, str], Document | None])
    """By namespace and name; without those that could not be read."""


def conditions(item: Document | None) -> Mapping[str, Document]:
    return {str(it.get("type")): it for it in rows_at(item, "status", "conditions")}


def services_of(api: KubeApi, namespace: str) -> tuple[list[ServiceFacts], list[str]]:
    """By name; and what could not be read, one line each."""
    unread: list[str] = []
    hpas, scaled, routes = (_listed(api, namespace, *kind, unread) for kind in (_HPAS, _SCALED, _ROUTES))
    names = sorted({labels_of(it)[SERVICE] for it in (*hpas, *scaled, *routes)})
    gateways = _gateways(api, namespace, routes, unread)
    found = [
        ServiceFacts(
            name=name,
            variants=[
                Variant(
                    pods=pods,
                    hpa=_of(hpas, name, pods),
                    scaled=_of(scaled, name, pods),
                    workload=_workload(api, namespace, pods, unread),
                    pending=_pending(api, namespace, pods, unread),
                )
                for pods in _pods(name, hpas, scaled, routes)
            ],
            routes=[it for it in routes if labels_of(it)[SERVICE] == name],
            gateways=gateways,
        )
        for name in names
    ]
    return found, list(dict.fromkeys(unread))


def _pods(service: str, hpas: Sequence[Document], scaled: Sequence[Document], routes: Sequence[Document]) -> list[str]:
    named = [it["metadata"]["name"] for it in (*hpas, *scaled) if labels_of(it)[SERVICE] == service]
    led_to = [name for it in routes if labels_of(it)[SERVICE] == service for name in _backends(it)]
    return sorted({*named, *led_to})


def _backends(route: Document) -> Iterator[str]:
    """The names of pods, which their Service has too, but for one that stands before pods of several names."""
    if shared := at(route, "metadata", "annotations", SHARED_BY):
        yield from str(shared).split(",")
        return
    for rule in rows_at(route, "spec", "rules"):
        yield from (str(it["name"]) for it in rows_at(rule, "backendRefs"))


def _listed(api: KubeApi, space: str, group: str, plural: str, called: str, unread: list[str]) -> list[Document]:
    path = f"/apis/{group}/namespaces/{space}/{plural}"
    try:
        return list(api.get(path, labelSelector=SERVICE).get("items") or ())
    except ApiError as error:
        # A kind that nothing of the stack needs may be missing.
        if error.status != 404:
            unread.append(f"{called}: {one_line(error)}")
        return []


def _of(found: Sequence[Document], service: str, pods: str) -> Document | None:
    return next((it for it in found if labels_of(it)[SERVICE] == service and it["metadata"]["name"] == pods), None)


def _workload(api: KubeApi, space: str, pods: str, unread: list[str]) -> Document | None:
    try:
        root = f"/apis/apps/v1/namespaces/{space}"
        return find(api, f"{root}/deployments/{pods}") or find(api, f"{root}/statefulsets/{pods}")
    except ApiError as error:
        unread.append(f"pods: {one_line(error)}")
        return None


def _pending(api: KubeApi, space: str, pods: str, unread: list[str]) -> list[Document]:
    query = {"labelSelector": f"{WORKLOAD}={pods}", "fieldSelector": "status.phase=Pending"}
    try:
        return list(api.get(f"/api/v1/namespaces/{space}/pods", **query).get("items") or ())
    except ApiError as error:
        unread.append(f"pods: {one_line(error)}")
        return []


def _gateways(
    api: KubeApi, space: str, routes: Sequence[Document], unread: list[str]
) -> Mapping[tuple[str, str], Document | None]:
    refs = {
        (str(it.get("namespace") or space), str(it.get("name")))
        for route in routes
        for it in rows_at(route, "spec", "parentRefs")
    }
    found: dict[tuple[str, str], Document | None] = {}
    for there, name in sorted(refs):
        try:
            found[there, name] = find(api, f"/apis/gateway.networking.k8s.io/v1/namespaces/{there}/gateways/{name}")
        except ApiError as error:
            unread.append(f"Gateway {there}/{name}: {one_line(error)}")
    return found
