"""The services of a stack. On EKS the stack installs the gateway, KEDA and the VPA; other clusters have their own."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

import pulumi

from components.cluster.namespaces import ServingSpaces, ServingSpacesArgs
from components.pods.secrets import Secrets, SecretsArgs
from components.serving.envoy_gateway import EnvoyGateway, EnvoyGatewayArgs
from components.serving.gateway import Gateway, GatewayArgs
from components.serving.keda import Keda, KedaArgs
from components.serving.prometheus_access import PrometheusAccess, PrometheusAccessArgs
from components.serving.routing import routed
from components.serving.service import Service, ServiceArgs, scaled_variants
from components.serving.vertical import (
    VerticalAutoscaler,
    VerticalAutoscalerArgs,
    VerticalAutoscaling,
    VerticalAutoscalingArgs,
)
from ebbtide.settings.capacity.placement import node_of, pod_size, takes
from ebbtide.settings.capacity.pods import serving_needs, serving_secrets
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.gateway import GATEWAY, GATEWAY_NAMESPACE, KEDA_NAMESPACE, Implementation
from ebbtide.settings.sections.serving.steps import knows_tolerance
from ebbtide.vocabulary.labels import NAMESPACE
from infra.site import Site, following

_SYSTEM = "kube-system"


def services(site: Site, options: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
    """Build the services after their pods. Return the resources that must exist before the gateway can be scraped."""
    settings, stack = site.settings, site.stack
    needs, serving, on_eks = serving_needs(settings), settings.serving, site.on_eks
    if not needs.any and not settings.services:
        return []
    gateways: list[pulumi.Resource] = []
    envoy = on_eks or serving.implementation is Implementation.ENVOY_GATEWAY
    gateway_namespace = GATEWAY_NAMESPACE if on_eks else NAMESPACE
    if on_eks:
        options = _parts(site, options)
    if needs.gateway:
        args = GatewayArgs(
            stack=stack,
            namespace=gateway_namespace,
            settings=serving,
            class_name=serving.gateway_class or GATEWAY,
            longest=longest_request(settings),
            envoy=envoy,
            balancing=site.balancing if on_eks else None,
        )
        gateways.append(Gateway("gateway", args, options))
        options = following(options, *gateways)
    if needs.keda and (access := serving.prometheus_access) is not None and access.secrets:
        credentials = PrometheusAccessArgs(stack=stack, access=access)
        options = following(options, PrometheusAccess("prometheus-access", credentials, options))
    tolerance = on_eks and knows_tolerance(settings.cluster.version)
    for name, service in settings.services.items():
        Service(
            f"service-{name}",
            ServiceArgs(
                stack=stack,
                name=name,
                settings=service,
                scaled=scaled_variants(settings, name, prometheus=prometheus_address(settings), tolerance=tolerance),
                gateway_namespace=gateway_namespace,
                proxies=serving.proxies if on_eks else 1,  # unknown for an existing gateway
                envoy=envoy,
            ),
            options,
        )
    if needs.vertical:
        sizes = VerticalAutoscalingArgs(
            stack=stack,
            workloads=settings.all_workloads,
            most=largest_containers(settings) if on_eks else {},
        )
        VerticalAutoscaling("vertical", sizes, options)
    return gateways


def prometheus_address(settings: StackSettings) -> str:
    """Return the address of Prometheus for KEDA; empty if there is none, in which case no metric needs it."""
    return settings.serving.prometheus or settings.monitoring.address or ""


def prometheus_port(settings: StackSettings) -> int:
    parts = urlsplit(prometheus_address(settings))
    return parts.port or (443 if parts.scheme == "https" else 80)


def largest_containers(settings: StackSettings) -> Mapping[str, PodSize]:
    """Return the largest request of each workload's container that still fits on all of its nodes."""
    sizes: dict[str, PodSize] = {}
    for name, workload in settings.all_workloads.items():
        nodes = [node_of(group) for group in settings.node_groups.values() if takes(group, workload)]
        entire_pod, container = pod_size(workload), workload
        if nodes:
            sizes[name] = PodSize(
                cpu=min(node.cpu for node in nodes) - (entire_pod.cpu - container.cpu),
                memory=min(node.memory for node in nodes) - (entire_pod.memory - container.memory),
                gpu=container.gpu.count,
            )
    return sizes


def longest_request(settings: StackSettings) -> timedelta:
    """Return the longest duration of a request through the gateway."""
    return max((service.longest_request for _, service in routed(settings.services)), default=timedelta())


def _parts(site: Site, options: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """Return options that depend on all installed parts, so that a destroy deletes the users of a part first."""
    settings, stack, definitions = site.settings, site.stack, site.cluster.definitions
    needs = serving_needs(settings)
    options = _namespaces(site, options)
    parts: list[pulumi.Resource] = []
    if needs.vertical:
        vertical = VerticalAutoscalerArgs(stack=stack, namespace=_SYSTEM, definitions=definitions, watched=NAMESPACE)
        parts.append(VerticalAutoscaler("vertical-autoscaler", vertical, options))
    if needs.keda:
        keda = KedaArgs(
            stack=stack,
            namespace=KEDA_NAMESPACE,
            definitions=definitions,
            watched=NAMESPACE,
            prometheus_port=prometheus_port(settings),
        )
        parts.append(Keda("keda", keda, options))
    if needs.gateway:
        gateway = EnvoyGatewayArgs(
            stack=stack,
            namespace=GATEWAY_NAMESPACE,
            definitions=definitions,
            routes=NAMESPACE,
            envoys=settings.serving.proxies,
            longest=longest_request(settings),
        )
        parts.append(EnvoyGateway("envoy-gateway", gateway, options))
    return following(options, *parts)


def _namespaces(site: Site, options: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """Return options that depend on the namespaces of KEDA and the gateway, and on the Secrets in them."""
    settings, needs = site.settings, serving_needs(site.settings)
    spaces = [*([KEDA_NAMESPACE] if needs.keda else []), *([GATEWAY_NAMESPACE] if needs.gateway else [])]
    if not spaces:
        return options
    args = ServingSpacesArgs(stack=site.stack, namespaces=spaces)
    options = following(options, ServingSpaces("serving-spaces", args, options))
    secrets = {
        space: {*settings.images.pull_secrets, *serving_secrets(settings, space)} & settings.secrets.keys()
        for space in spaces
    }
    if not any(secrets.values()):
        return options
    held = SecretsArgs(source=site.stack.secrets, wanted=secrets)
    return following(options, Secrets("serving-secrets", held, options))
