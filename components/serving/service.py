"""The autoscaler of each variant of a service, and the routes to the variants.

The pods are workloads (`components.pods`) and are created first, so that every route has a backend. A variant and its
copy on spot nodes have a common Service. It selects by a label that the base variant's pods always have, so the Service
has endpoints whenever a route leads to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import Service as KubernetesService

from components.context import StackContext
from components.ownership import MIN_REPLICA_COUNT, MIN_REPLICAS, FieldOwner, OwnedField, hand_over
from components.pods.container import H2C
from components.pods.entrance import workload_service_urn
from components.pods.workload import SKIP_AWAIT
from components.serving.routing import backend_policy, http_routes
from components.serving.scaling import REASON, Scaled, autoscaler, reasons, scaled_object
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.serving import envoy_cluster
from ebbtide.provisioning_labels import CUSTOMER, SERVES, SERVICE, SHARED_BY
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.routes import RouteProtocol
from ebbtide.settings.sections.serving.scale import FloorKind
from ebbtide.settings.sections.serving.services import ServiceSettings, pod_name
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOAD

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ServicePortArgsDict

GATEWAY_API = "gateway.networking.k8s.io/v1"
ENVOY_API = "gateway.envoyproxy.io/v1alpha1"
KEDA_API = "keda.sh/v1alpha1"
HPA_API = "autoscaling/v2"


@dataclass(frozen=True, kw_only=True)
class ServiceArgs:
    stack: StackContext
    name: str
    settings: ServiceSettings
    scaled: Sequence[Scaled]  # the service's variants that scale
    gateway_namespace: str
    proxies: int  # number of Envoy pods, each of which counts requests separately
    envoy: bool  # True if the gateway is Envoy Gateway's and applies Envoy Gateway's policies


class Service(pulumi.ComponentResource):
    def __init__(self, name: str, args: ServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Service", name, None, opts)
        self._name, self._args = name, args
        for scaled in args.scaled:
            self._autoscaler(scaled)
        base = args.settings.base
        before = [] if base is None else [self._shared_service(base)]
        routes = http_routes(args.name, args.settings, gateway_namespace=args.gateway_namespace, envoy=args.envoy)
        for route, spec in routes.items():
            annotations = {SHARED_BY: ",".join(led_to)} if (led_to := self._pods_not_named_by_backends(route)) else None
            http_route = self._object(
                f"{route}-route", GATEWAY_API, "HTTPRoute", route, spec, annotations, after=before
            )
            if args.envoy:
                policy = backend_policy(route, args.settings, proxies=args.proxies, largest=self._largest(route))
                self._object(f"{route}-traffic", ENVOY_API, "BackendTrafficPolicy", route, policy, after=[http_route])
        self.register_outputs({})

    def _pods_not_named_by_backends(self, route: str) -> Sequence[str]:
        """Return a route's pods if backends do not have their names: with a shared Service, or with a weight of 0."""
        settings, name = self._args.settings, self._args.name
        if route in (shared := settings.sharing(name)):
            return shared
        return [*settings.pods(name)] if any(variant.weight == 0 for variant in settings.variants.values()) else []

    def _largest(self, route: str) -> int:
        """Return the maximum number of pods behind a route."""
        settings, name = self._args.settings, self._args.name
        maxima = {pod: variant.scale.max for pod, variant in settings.pods(name).items()}
        shared = settings.sharing(name)
        return sum(maxima[pod] for pod in shared) if route in shared else maxima.get(route) or sum(maxima.values())

    def _shared_service(self, base: str) -> pulumi.Resource:
        """Create the common Service. It targets the port by name, since numbers may differ. `up` does not await it."""
        settings, name = self._args.settings, self._args.name
        port: ServicePortArgsDict = {
            "name": settings.port,
            "port": settings.variants[base].ports[settings.port],
            "target_port": settings.port,
        }
        if settings.route is not None and settings.route.protocol is RouteProtocol.GRPC:
            port["app_protocol"] = H2C
        return KubernetesService(
            f"{name}-shared",
            metadata={
                "name": name,
                "namespace": NAMESPACE,
                "labels": {CUSTOMER: self._args.stack.customer, SERVICE: name},
                "annotations": {SKIP_AWAIT: "true"},
            },
            spec={"selector": {SERVES: name}, "ports": [port]},
            opts=pulumi.ResourceOptions(parent=self, aliases=[workload_service_urn(name)]),
        )

    def _autoscaler(self, scaled: Scaled) -> None:
        annotations = {REASON: reasons(scaled)}
        autoscaler_names, former_names = (
            (f"{scaled.pod}-autoscaler", HPA_API, "HorizontalPodAutoscaler"),
            (f"{scaled.pod}-scaled", KEDA_API, "ScaledObject"),
        )
        if scaled.by_keda:
            autoscaler_names, former_names = former_names, autoscaler_names
        resource_name, api, kind = autoscaler_names
        opts = self._handed_over(scaled, kind) if scaled.variant.scale.planned else pulumi.ResourceOptions(parent=self)
        opts = pulumi.ResourceOptions.merge(opts, self._instead_of(*former_names))
        spec = scaled_object(scaled) if scaled.by_keda else autoscaler(scaled)
        self._object(resource_name, api, kind, scaled.pod, spec, annotations, opts=opts)

    def _instead_of(self, resource_name: str, api: str, kind: str) -> pulumi.ResourceOptions:
        """First delete the pods' former autoscaler of the other kind: both kinds create an HPA of the same name, and if
        a Deployment has two HPAs, both stop. Pulumi deletes in the foreground, so KEDA's HPA is deleted with its
        ScaledObject.
        """
        return pulumi.ResourceOptions(
            aliases=[pulumi.create_urn(resource_name, f"kubernetes:{api}:{kind}", self)],
            replace_on_changes=["kind"],
            delete_before_replace=True,
        )

    def _handed_over(self, scaled: Scaled, kind: str) -> pulumi.ResourceOptions:
        """Hand over the minimum, which follows the calendar. `min` is the initial value and the value at night."""
        field = OwnedField(
            kind=kind,
            namespace=NAMESPACE,
            name=scaled.pod,
            field=MIN_REPLICA_COUNT if scaled.by_keda else MIN_REPLICAS,
            owner=FieldOwner.WORKLOADS,
            initial=scaled.variant.scale.min,
        )
        return hand_over(field, parent=self, table=self._args.stack.ownership)

    def _object(
        self,
        resource_name: str,
        api: str,
        kind: str,
        name: str,
        spec: Mapping[str, Any],
        annotations: Mapping[str, str] | None = None,
        *,
        after: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> pulumi.Resource:
        labels = {CUSTOMER: self._args.stack.customer, SERVICE: self._args.name, WORKLOAD: name}
        metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE, "labels": labels}
        return CustomResource(
            resource_name,
            api_version=api,
            kind=kind,
            metadata={**metadata, "annotations": dict(annotations)} if annotations else metadata,
            spec=spec,
            opts=opts or pulumi.ResourceOptions(parent=self, depends_on=[*after]),
        )


def scaled_variants(settings: StackSettings, name: str, *, prometheus: str, tolerance: bool) -> list[Scaled]:
    """Return the variants of a service that scale."""
    service = settings.services[name]
    return [
        Scaled(
            pod=pod_name(name, variant),
            service=service,
            variant=variant_settings,
            customer=settings.customer,
            cluster=envoy_cluster(settings, name, variant),
            shared=pod_name(name, variant) in service.sharing(name),
            prometheus=prometheus,
            access=settings.serving.prometheus_access,
            forecast=_forecast(settings, name, variant),
            tolerance=tolerance,
        )
        for variant, variant_settings in service.variants.items()
        if variant_settings.scale.grows
    ]


def _forecast(settings: StackSettings, service: str, variant: str) -> str | None:
    if settings.services[service].variants[variant].scale.floor is not FloorKind.FORECAST:
        return None
    return Recorded.FORECAST_PODS.of(settings.customer, service=service, variant=variant)
