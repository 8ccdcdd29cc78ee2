"""What the services of a stack stand on, and the services: on EKS their parts come along, elsewhere they are there."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

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
    OwnershipTable,
    PrometheusAccess,
    PrometheusAccessArgs,
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
from components.serving.envoy_gateway import ENVOY_IMAGE
from components.serving.envoy_gateway import IMAGE as ENVOY_GATEWAY_IMAGE
from components.serving.keda import ADAPTER_IMAGE as KEDA_METRICS_IMAGE
from components.serving.keda import OPERATOR_IMAGE as KEDA_IMAGE
from components.serving.routing import routed
from components.serving.service import scaled_variants
from components.serving.vertical import ADMISSION, CERTGEN_IMAGE, RECOMMENDER, UPDATER, vertical_image
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import node_of, pod_size, takes
from ebbtide.settings.sections.images import ImageSettings
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
        opts = _parts(settings, on.definitions, images=images, egress=egress, secrets=secrets, opts=opts)
    if needs.gateway:
        args = GatewayArgs(
            customer=settings.customer,
            namespace=gateway_namespace,
            settings=serving,
            class_name=serving.gateway_class or GATEWAY,
            longest=longest_request(settings),
            envoy=envoy,
            balancing=balancing if made_here else None,
        )
        gateway = Gateway("gateway", args, opts)
        there.append(gateway)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=there))
    if needs.keda and (access := serving.prometheus_access) is not None and access.secrets:
        given = PrometheusAccessArgs(customer=settings.customer, namespace=NAMESPACE, access=access)
        opts = pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(depends_on=[PrometheusAccess("prometheus-access", given, opts)])
        )
    tolerance = made_here and knows_tolerance(settings.cluster.version)
    for name, service in settings.services.items():
        Service(
            f"service-{name}",
            ServiceArgs(
                name=name,
                namespace=NAMESPACE,
                customer=settings.customer,
                settings=service,
                scaled=scaled_variants(settings, name, prometheus=prometheus_address(settings), tolerance=tolerance),
                gateway_namespace=gateway_namespace,
                proxies=serving.proxies if made_here else 1,  # of a gateway that was there the number is not known
                envoy=envoy,
                ownership=ownership,
            ),
            opts,
        )
    if needs.vertical:
        wanted = VerticalAutoscalingArgs(
            customer=settings.customer,
            namespace=NAMESPACE,
            workloads=settings.all_workloads,
            most=largest_containers(settings) if made_here else {},
        )
        VerticalAutoscaling("vertical", wanted, opts)
    return there


def prometheus_address(settings: StackSettings) -> str:
    """Where KEDA asks."""
    return settings.serving.prometheus or f"http://{PROMETHEUS}.{NAMESPACE}.svc:{PROMETHEUS_PORT}"


def prometheus_port(settings: StackSettings) -> int:
    parts = urlsplit(prometheus_address(settings))
    return parts.port or (443 if parts.scheme == "https" else 80)


def largest_containers(settings: StackSettings) -> Mapping[str, PodSize]:
    """By workload, what its own container may ask for and still fit every node that it may come to."""
    found: dict[str, PodSize] = {}
    for name, workload in settings.all_workloads.items():
        nodes = [node_of(group) for group in settings.node_groups.values() if takes(group, workload)]
        beside, own = pod_size(workload), workload
        if nodes:
            found[name] = PodSize(
                cpu=min(node.cpu for node in nodes) - (beside.cpu - own.cpu),
                memory=min(node.memory for node in nodes) - (beside.memory - own.memory),
                gpu=own.gpu.count,
            )
    return found


def longest_request(settings: StackSettings) -> timedelta:
    """Of all that come through the gateway."""
    return max((it.longest_request for _, it in routed(settings.services)), default=timedelta())


def _parts(
    settings: StackSettings,
    definitions: pulumi.ProviderResource | None,
    *,
    images: ImageSource,
    egress: Egress,
    secrets: SecretsSource,
    opts: pulumi.ResourceOptions,
) -> pulumi.ResourceOptions:
    """After all that the stack brings: what uses them depends on them, and so goes before them at a destroy."""
    needs, customer = serving_needs(settings), settings.customer
    images = images.replacing(_named(settings.images))
    parts: list[pulumi.Resource] = []
    spaces = [*([KEDA_NAMESPACE] if needs.keda else []), *([GATEWAY_NAMESPACE] if needs.gateway else [])]
    if spaces:
        own_spaces = ServingSpacesArgs(namespaces=spaces, customer=customer, egress=egress)
        own = ServingSpaces("serving-spaces", own_spaces, opts)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[own]))
        wanted = {
            space: {*settings.images.pull_secrets, *serving_secrets(settings, space)} & settings.secrets.keys()
            for space in spaces
        }
        if any(wanted.values()):
            held = Secrets("serving-secrets", SecretsArgs(source=secrets, wanted=wanted), opts)
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[held]))
    if needs.vertical:
        vertical = VerticalAutoscalerArgs(
            namespace=_SYSTEM,
            customer=customer,
            images=images,
            egress=egress,
            definitions=definitions,
            watched=NAMESPACE,
        )
        parts.append(VerticalAutoscaler("vertical-autoscaler", vertical, opts))
    if needs.keda:
        keda = KedaArgs(
            namespace=KEDA_NAMESPACE,
            customer=customer,
            images=images,
            egress=egress,
            definitions=definitions,
            watched=NAMESPACE,
            prometheus_port=prometheus_port(settings),
        )
        parts.append(Keda("keda", keda, opts))
    if needs.gateway:
        gateway = EnvoyGatewayArgs(
            namespace=GATEWAY_NAMESPACE,
            customer=customer,
            images=images,
            egress=egress,
            definitions=definitions,
            routes=NAMESPACE,
            envoys=settings.serving.proxies,
            longest=longest_request(settings),
        )
        parts.append(EnvoyGateway("envoy-gateway", gateway, opts))
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=parts))


def _named(own: ImageSettings) -> Mapping[str, str | None]:
    return {
        KEDA_IMAGE: own.keda,
        KEDA_METRICS_IMAGE: own.keda_metrics,
        ENVOY_GATEWAY_IMAGE: own.envoy_gateway,
        ENVOY_IMAGE: own.envoy,
        vertical_image(RECOMMENDER): own.vpa_recommender,
        vertical_image(UPDATER): own.vpa_updater,
        vertical_image(ADMISSION): own.vpa_admission,
        CERTGEN_IMAGE: own.vpa_certgen,
    }


def serving_secrets(settings: StackSettings, space: str) -> set[str]:
    """Return the Secrets that the gateway and KEDA read, by their namespaces on EKS."""
    needs, tls, access = serving_needs(settings), settings.serving.tls, settings.serving.prometheus_access
    if space == GATEWAY_NAMESPACE:
        return {tls} if tls is not None and needs.gateway else set()
    return access.secrets if access is not None and needs.keda else set()
