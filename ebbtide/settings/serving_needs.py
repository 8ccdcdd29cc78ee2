"""What the services of a stack need of its cluster."""

from dataclasses import dataclass

from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.entrance import TLS_PORT, Expose
from ebbtide.settings.sections.serving.gateway import HTTP_PORT
from ebbtide.settings.sections.workloads import Vertical


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingNeeds:
    gateway: bool  # something has a route
    keda: bool  # something scales by a metric of Prometheus
    resource_metrics: bool  # something scales by CPU or memory
    vertical: bool  # something's requests are set by the Vertical Pod Autoscaler

    @property
    def any(self) -> bool:
        return self.gateway or self.keda or self.resource_metrics or self.vertical


def serving_needs(settings: StackSettings) -> ServingNeeds:
    grown = [
        it.scale.metrics for service in settings.services.values() for it in service.variants.values() if it.scale.grows
    ]
    vertical = any(it.vertical is not Vertical.OFF for it in settings.all_workloads.values())
    return ServingNeeds(
        gateway=any(it.route is not None for it in settings.services.values()),
        keda=any(it.external for it in grown),
        resource_metrics=vertical or any(it.of_pods for it in grown),
        vertical=vertical,
    )


def gateway_entrance(settings: StackSettings) -> Expose | None:
    """What the load balancer in front of the gateway lets in; None where nothing has a route.

    On a cluster that is there already the gateway has a way in of its own.
    """
    if settings.cluster.context is not None or not serving_needs(settings).gateway:
        return None
    given = settings.serving
    return Expose.model_construct(
        public=given.public,
        certificate=given.certificate,
        sources=given.sources,
        listen=HTTP_PORT if given.certificate is None and given.tls is None else TLS_PORT,
    )
