"""What the services of a stack stand on, and the services: on EKS their parts come along, elsewhere they are there."""

from collections.abc import Sequence
from datetime import timedelta

import pulumi

from components import (
    Egress,
    EnvoyGateway,
    EnvoyGatewayArgs,
    Gateway,
    GatewayArgs,
    ImageSource,
    Keda,
    KedaArgs,
    MetricsServer,
    OwnershipTable,
    PartArgs,
    Secrets,
    SecretsArgs,
    Service,
    ServiceArgs,
    ServingSpaces,
    ServingSpacesArgs,
    VerticalAutoscaler,
    VerticalAutoscalerArgs,
    VerticalAutoscaling,
    VerticalAutoscalingArgs,
)
from components.pods.entrance import Balancing
from components.pods.secrets import SecretsSource
from components.serving.routing import routed
from components.serving.service import scaled_variants
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.monitoring import PROMETHEUS
from ebbtide.settings.sections.serving.gateway import GATEWAY, GATEWAY_NAMESPACE, KEDA_NAMESPACE, Implementation
from ebbtide.settings.sections.serving.steps import knows_tolerance
from ebbtide.settings.serving_needs import serving_needs
from ebbtide.vocabulary.labels import NAMESPACE
from infra.foundation import Foundation

PROMETHEUS_PORT = 9090
_SYSTEM = "kube-system"


def serve(
    settings: StackSettings,
    on: Foundation,
    *,
    images: ImageSource,
    egress: Egress,
    balancing: Balancing,
    secrets: SecretsSource,
    ownership: OwnershipTable,
    opts: pulumi.ResourceOptions,
) -> Sequence[pulumi.Resource]:
    """What is there once the gateway can be scraped. `opts`: after the pods of the services."""
    there: list[pulumi.Resource] = []
    needs, serving, made_here = serving_needs(settings), settings.serving, on.aws is not None
    envoy = made_here or serving.implementation is Implementation.ENVOY_GATEWAY
    gateway_namespace = GATEWAY_NAMESPACE if made_here else NAMESPACE
    if made_here:
        opts = _parts(settings, images=images, egress=egress, secrets=secrets, opts=opts)
    if needs.gateway:
        args = GatewayArgs(
            customer=settings.customer,
            namespace=gateway_namespace,
            settings=serving,
            class_name=serving.gateway_class or GATEWAY,
            longest=max((it.longest_request for _, it in routed(settings.services)), default=timedelta()),
            envoy=envoy,
            balancing=balancing if made_here else None,
        )
        gateway = Gateway("gateway", args, opts)
        there.append(gateway)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=there))
    prometheus = serving.prometheus or f"http://{PROMETHEUS}.{NAMESPACE}.svc:{PROMETHEUS_PORT}"
    tolerance = made_here and knows_tolerance(settings.cluster.version)
    for name, service in settings.services.items():
        Service(
            f"service-{name}",
            ServiceArgs(
                name=name,
                namespace=NAMESPACE,
                customer=settings.customer,
                settings=service,
                scaled=scaled_variants(settings, name, prometheus=prometheus, tolerance=tolerance),
                gateway_namespace=gateway_namespace,
                proxies=serving.proxies,
                envoy=envoy,
                ownership=ownership,
            ),
            opts,
        )
    if needs.vertical:
        wanted = VerticalAutoscalingArgs(
            customer=settings.customer, namespace=NAMESPACE, workloads=settings.all_workloads
        )
        VerticalAutoscaling("vertical", wanted, opts)
    return there


def _parts(
    settings: StackSettings,
    *,
    images: ImageSource,
    egress: Egress,
    secrets: SecretsSource,
    opts: pulumi.ResourceOptions,
) -> pulumi.ResourceOptions:
    """After all that the stack brings: what uses them depends on them, and so goes before them at a destroy."""
    needs, customer = serving_needs(settings), settings.customer
    parts: list[pulumi.Resource] = []
    if needs.resource_metrics:
        args = PartArgs(namespace=_SYSTEM, customer=customer, images=images, egress=egress)
        parts.append(MetricsServer("metrics-server", args, opts))
    spaces = [*([KEDA_NAMESPACE] if needs.keda else []), *([GATEWAY_NAMESPACE] if needs.gateway else [])]
    if spaces:
        own_spaces = ServingSpacesArgs(namespaces=spaces, customer=customer, egress=egress)
        own = ServingSpaces("serving-spaces", own_spaces, opts)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[own]))
        wanted = {
            space: {*settings.images.pull_secrets, *_certificate(settings, space)} & settings.secrets.keys()
            for space in spaces
        }
        if any(wanted.values()):
            held = Secrets("serving-secrets", SecretsArgs(source=secrets, wanted=wanted), opts)
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[held]))
    if needs.vertical:
        vertical = VerticalAutoscalerArgs(
            namespace=_SYSTEM, customer=customer, images=images, egress=egress, watched=NAMESPACE
        )
        parts.append(VerticalAutoscaler("vertical-autoscaler", vertical, opts))
    if needs.keda:
        keda = KedaArgs(namespace=KEDA_NAMESPACE, customer=customer, images=images, egress=egress, watched=NAMESPACE)
        parts.append(Keda("keda", keda, opts))
    if needs.gateway:
        longest = max(it.longest_request for _, it in routed(settings.services))
        gateway = EnvoyGatewayArgs(
            namespace=GATEWAY_NAMESPACE,
            customer=customer,
            images=images,
            egress=egress,
            routes=NAMESPACE,
            envoys=settings.serving.proxies,
            drain=int(longest.total_seconds()),
        )
        parts.append(EnvoyGateway("envoy-gateway", gateway, opts))
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=parts))


def _certificate(settings: StackSettings, space: str) -> set[str]:
    tls = settings.serving.tls
    return {tls} if tls is not None and space == GATEWAY_NAMESPACE else set()
