"""What the services of a stack ask of a cluster."""

from ebbtide.operate.probe.facts import ServingWant
from ebbtide.settings.model import StackSettings
from ebbtide.settings.pods import serving_needs
from ebbtide.settings.sections.serving.gateway import Implementation


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
