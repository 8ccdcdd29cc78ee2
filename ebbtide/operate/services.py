"""Services in the cluster: their autoscalers, pods, routes and gateways.

One label selects all objects, so no stack file is needed. A part that cannot be read does not hide the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import find, items
from ebbtide.operate.objects import Document, at, labels_of, rows_at
from ebbtide.provisioning_labels import SERVICE, SHARED_BY
from ebbtide.text.one_line import collapsed
from ebbtide.text.quantities import MEBIBYTE, read_quantity
from ebbtide.vocabulary.labels import WORKLOAD

_HPAS = "autoscaling/v2", "horizontalpodautoscalers", "HPAs"
_SCALED = "keda.sh/v1alpha1", "scaledobjects", "KEDA's ScaledObjects"
_ROUTES = "gateway.networking.k8s.io/v1", "httproutes", "HTTPRoutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantObjects:
    """The pods of one name. None: the object does not exist or could not be read."""

    pods: str
    hpa: Document | None = None
    scaled: Document | None = None  # KEDA's, which creates the HPA
    workload: Document | None = None
    pending: Sequence[Document] = ()

    @property
    def ready(self) -> int:
        return at(self.workload, "status", "readyReplicas") or 0

    @property
    def replicas(self) -> int | None:
        return None if self.workload is None else at(self.workload, "spec", "replicas") or 0

    @property
    def desired(self) -> int | None:
        """The autoscaler's number; None without one, or before its first evaluation."""
        return at(self.hpa, "status", "desiredReplicas") if conditions(self.hpa) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    name: str
    variants: Sequence[VariantObjects] = ()
    routes: Sequence[Document] = ()
    gateways: Mapping[tuple[str, str], Document | None] = field(default_factory=dict[tuple[str, str], Document | None])
    """By namespace and name, without those that could not be read."""


def conditions(item: Document | None) -> Mapping[str, Document]:
    return {str(row.get("type")): row for row in rows_at(item, "status", "conditions")}


def services_of(api: KubeApi, namespace: str) -> tuple[list[ServiceFacts], list[str]]:
    """Return the services by name, and a line for each part that could not be read."""
    unread: list[str] = []
    hpas, scaled, routes = (_listed(api, namespace, *kind, unread) for kind in (_HPAS, _SCALED, _ROUTES))
    names = sorted({labels_of(item)[SERVICE] for item in (*hpas, *scaled, *routes)})
    gateways = _gateways(api, namespace, routes, unread)
    services = [
        ServiceFacts(
            name=name,
            variants=[
                VariantObjects(
                    pods=pods,
                    hpa=_named(hpas, name, pods),
                    scaled=_named(scaled, name, pods),
                    workload=_workload(api, namespace, pods, unread),
                    pending=_pending(api, namespace, pods, unread),
                )
                for pods in _pods(name, hpas, scaled, routes)
            ],
            routes=[route for route in routes if labels_of(route)[SERVICE] == name],
            gateways=gateways,
        )
        for name in names
    ]
    return services, list(dict.fromkeys(unread))


def _pods(service: str, hpas: Sequence[Document], scaled: Sequence[Document], routes: Sequence[Document]) -> list[str]:
    scaled_names = [item["metadata"]["name"] for item in (*hpas, *scaled) if labels_of(item)[SERVICE] == service]
    backends = [name for route in routes if labels_of(route)[SERVICE] == service for name in _backends(route)]
    return sorted({*scaled_names, *backends})


def _backends(route: Document) -> Iterator[str]:
    """Yield the names of a route's pods: its backends, or the pods that share a Service according to its annotation."""
    if shared := at(route, "metadata", "annotations", SHARED_BY):
        yield from str(shared).split(",")
        return
    for rule in rows_at(route, "spec", "rules"):
        yield from (str(ref["name"]) for ref in rows_at(rule, "backendRefs"))


def _listed(api: KubeApi, space: str, group: str, plural: str, kind: str, unread: list[str]) -> list[Document]:
    path = f"/apis/{group}/namespaces/{space}/{plural}"
    try:
        return list(api.get(path, labelSelector=SERVICE).get("items") or ())
    except ApiError as error:
        # A kind that the stack does not use may be missing.
        if error.status != 404:
            unread.append(f"{kind}: {collapsed(error)}")
        return []


def _named(items: Sequence[Document], service: str, name: str) -> Document | None:
    return next(
        (item for item in items if labels_of(item)[SERVICE] == service and item["metadata"]["name"] == name), None
    )


def _workload(api: KubeApi, space: str, pods: str, unread: list[str]) -> Document | None:
    try:
        root = f"/apis/apps/v1/namespaces/{space}"
        return find(api, f"{root}/deployments/{pods}") or find(api, f"{root}/statefulsets/{pods}")
    except ApiError as error:
        unread.append(f"pods: {collapsed(error)}")
        return None


def _pending(api: KubeApi, space: str, pods: str, unread: list[str]) -> list[Document]:
    query = {"labelSelector": f"{WORKLOAD}={pods}", "fieldSelector": "status.phase=Pending"}
    try:
        return list(api.get(f"/api/v1/namespaces/{space}/pods", **query).get("items") or ())
    except ApiError as error:
        unread.append(f"pods: {collapsed(error)}")
        return []


def _gateways(
    api: KubeApi, namespace: str, routes: Sequence[Document], unread: list[str]
) -> Mapping[tuple[str, str], Document | None]:
    refs = {
        (str(ref.get("namespace") or namespace), str(ref.get("name")))
        for route in routes
        for ref in rows_at(route, "spec", "parentRefs")
    }
    gateways: dict[tuple[str, str], Document | None] = {}
    for namespace, name in sorted(refs):
        try:
            gateways[namespace, name] = find(
                api, f"/apis/gateway.networking.k8s.io/v1/namespaces/{namespace}/gateways/{name}"
            )
        except ApiError as error:
            unread.append(f"Gateway {namespace}/{name}: {collapsed(error)}")
    return gateways


_VPA_API = "/apis/autoscaling.k8s.io/v1"


def recommendations(
    api: KubeApi, namespaces: Iterable[str], unread: list[str]
) -> Mapping[tuple[str, str, str], tuple[int, int]]:
    """Return the VPAs' recommendations: millicores and MiB by namespace, workload and container.

    If the API server refuses, `unread` gets a line; a cluster without VPAs yields neither.
    """
    recommended: dict[tuple[str, str, str], tuple[int, int]] = {}
    for namespace in namespaces:
        try:
            for item in items(api, f"{_VPA_API}/namespaces/{namespace}/verticalpodautoscalers"):
                recommended |= {(namespace, *place): amounts for place, amounts in _containers(item)}
        except ApiError as error:
            if error.status != 404:
                unread.append(collapsed(error))
                break
    return recommended


def _containers(item: Document) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
    workload = str(at(item, "spec", "targetRef", "name") or "")
    for row in rows_at(item, "status", "recommendation", "containerRecommendations"):
        cpu, memory = (read_quantity(at(row, "target", resource)) for resource in ("cpu", "memory"))
        if cpu is not None and memory is not None:
            yield (workload, str(row.get("containerName"))), (ceil(cpu * 1000), ceil(memory / MEBIBYTE))
