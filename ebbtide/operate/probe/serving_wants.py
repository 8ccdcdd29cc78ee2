"""What the services of a stack ask of a cluster."""

from collections.abc import Iterator, Mapping

from ebbtide.operate.probe.facts import Right, ServingWant
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.gateway import Implementation
from ebbtide.settings.serving_needs import serving_needs
from ebbtide.settings.workloads_document import floors_of
from ebbtide.vocabulary.labels import NAMESPACE

OF_SERVICES: Mapping[str, tuple[tuple[str, str], ...]] = {  # by the API: group and resources
    "gateway.networking.k8s.io/v1": (
        ("gateway.networking.k8s.io", "httproutes"),
        ("gateway.networking.k8s.io", "gateways"),
    ),
    "gateway.envoyproxy.io/v1alpha1": (
        ("gateway.envoyproxy.io", "backendtrafficpolicies"),
        ("gateway.envoyproxy.io", "clienttrafficpolicies"),
    ),
    "keda.sh/v1alpha1": (("keda.sh", "scaledobjects"),),
    "autoscaling.k8s.io/v1": (("autoscaling.k8s.io", "verticalpodautoscalers"),),
}
"""What is made for services on a cluster that is there."""


def serving_want(settings: StackSettings) -> ServingWant | None:
    needs, serving, there = serving_needs(settings), settings.serving, settings.cluster.context is not None
    if not needs.any:
        return None
    envoy = needs.gateway and serving.implementation is Implementation.ENVOY_GATEWAY
    apis = {
        "gateway.networking.k8s.io/v1": needs.gateway,
        "gateway.envoyproxy.io/v1alpha1": envoy,
        "keda.sh/v1alpha1": needs.keda or serving.keda,
        "autoscaling.k8s.io/v1": needs.vertical,
    }
    return ServingWant(
        brings=not there,
        apis=tuple(api for api, needed in apis.items() if needed),
        keda=needs.keda,
        gateway_class=serving.gateway_class if there and needs.gateway else None,
        implementation=serving.implementation,
    )


def serving_rights(settings: StackSettings) -> Iterator[Right]:
    want = serving_want(settings)
    if want is None or want.brings:
        return
    made = [it for api in want.apis for it in OF_SERVICES[api]]
    if any(it.scale.grows for service in settings.services.values() for it in service.variants.values()):
        made.append(("autoscaling", "horizontalpodautoscalers"))
    access = settings.serving.prometheus_access
    if want.keda and access is not None and access.secrets:
        made.append(("keda.sh", "triggerauthentications"))
        made += [("", "configmaps")] if access.header is not None else []
    for group, resource in made:
        yield from (Right(verb, group, resource, NAMESPACE) for verb in ("get", "create", "patch", "delete"))
    for keda in sorted({floor.keda for floor in floors_of(settings)}):  # to grant them to the workload controller
        group, resource = ("keda.sh", "scaledobjects") if keda else ("autoscaling", "horizontalpodautoscalers")
        yield from (Right(verb, group, resource, NAMESPACE) for verb in ("list", "watch"))
