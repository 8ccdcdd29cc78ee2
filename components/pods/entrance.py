"""The Services and the Ingress through which a workload receives requests, with AWS's load balancer.

**Controller.** The Service names no class, so the Service controller that EKS runs in the control plane,
cloud-provider-aws, builds the load balancer. It reads annotations; `docs/evidence/aws-provider.md`, "Annotations of a
load balancer", lists them.

**Only fixed nodes are targets**, each on the node port of the Service. Other nodes come and go all day with the
workers, and a load balancer needs a minute and a half of failed health checks to detect a lost node: each such node
would break the connections that pass through it. Fixed nodes stay, so with `externalTrafficPolicy: Cluster` the load
balancer need not know where the pods are: kube-proxy knows, and removes a pod before the pod stops. With `Local` each
pod that moves would change the targets, and a load balancer takes longer for this than a pod takes to stop: half a
minute after the failed health checks, two minutes after a deregistration. (Source: aws/containers-roadmap#470.)

**Source addresses.** kube-proxy replaces the client's address with the node's. So pods receive requests only from the
VPC, as the namespace's network policies allow. The nodes' security group, which sees the client's address, decides who
may call the load balancer: the Service controller writes `sources` into it.

**Deletion order.** An entrance is created after its pods and deleted before them. The Service controller keeps the
Service with a finalizer until its load balancer is deleted, and Pulumi waits for an object's deletion unless the object
has the annotation `skipAwait`. An entrance never has it; instead, `waitFor` limits what its creation waits for.

**One Service for several variants.** The pods of a service without variants have the service's name, and so has their
Service. If a service has a variant on spot nodes, another component creates a Service of the same name over both
variants. Each of the two components names the other's resource as an alias, so that the engine changes the object.
Otherwise the engine would create a second object of that name, which the API server refuses. Callers find the name at
all times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

import pulumi
from pulumi_kubernetes.core.v1 import Service
from pulumi_kubernetes.networking.v1 import Ingress

from components.pods.rules import PodIdentity
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.entrance import Expose, entrance_port, load_balancer_name
from ebbtide.settings.sections.entrance import Ingress as IngressSettings
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.text.addresses import PRIVATE, SHARED
from ebbtide.vocabulary.labels import NODE_KIND

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ServicePortArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.networking.v1 import IngressSpecArgsDict

AWS = "service.beta.kubernetes.io/aws-load-balancer-"
"""Prefix of the annotations."""

WAIT_FOR = "pulumi.com/waitFor"
_BALANCED = "jsonpath={.status.loadBalancer.ingress}"
_WRITTEN = "jsonpath={.spec.rules}"  # true at once, since not every controller writes a status

_TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-Res-2021-06"
"""TLS 1.2 and 1.3, the default of AWS's console. The API's default is a policy of 2016 that allows TLS 1.0.

Source: Elastic Load Balancing, "Security policies for your Network Load Balancer".
"""

STOP_DELAY_SECONDS = 20
"""Delay of the stop signal for a pod behind an Ingress, whose controller may keep a separate list of pods.

Nginx and others update this list at most every few seconds (ingress-nginx, `--sync-rate-limit`, 0.3 a second).
"""

_TIME_TO_STOP = 30
"""Kubernetes' default grace period: the program has the same time with and without an entrance."""


@dataclass(frozen=True, kw_only=True)
class Balancing:
    """The common settings of a stack's load balancers. `subnets` is set only if the subnets lack discovery tags."""

    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    subnets: Sequence[str] = ()


PLAIN = Balancing()


class Grace(TypedDict, total=False):
    """A field of a pod's spec."""

    termination_grace_period_seconds: int


def stop_delay(settings: WorkloadSettings, usual: int) -> int:
    if isinstance(settings, ServedWorkload):
        return int(settings.stop_delay.total_seconds())
    return usual if settings.ingress is None else STOP_DELAY_SECONDS


def grace(settings: WorkloadSettings) -> Grace:
    """Return the grace period, which includes the delay before the stop signal."""
    if isinstance(settings, ServedWorkload):
        return {"termination_grace_period_seconds": int(settings.grace.total_seconds())}
    if settings.ingress is None:
        return {}
    return {"termination_grace_period_seconds": STOP_DELAY_SECONDS + _TIME_TO_STOP}


def entrances(
    resource_name: str,
    settings: WorkloadSettings,
    identity: PodIdentity,
    namespace: pulumi.Input[str],
    *,
    balancing: Balancing,
    after: Sequence[pulumi.Resource],
    parent: pulumi.Resource,
) -> None:
    """Create the Ingress and the load balancer, after the pods and their Service (`after`)."""
    opts = pulumi.ResourceOptions(parent=parent, depends_on=[*after])
    metadata: ObjectMetaArgsDict = {"namespace": namespace, "labels": identity.labels}
    if settings.ingress is not None:
        ingress = settings.ingress
        Ingress(
            f"{resource_name}-ingress",
            metadata={
                **metadata,
                "name": identity.name,
                "annotations": {**ingress.annotations, WAIT_FOR: _WRITTEN},
            },
            spec=_ingress(ingress, identity.name, settings.ports),
            opts=opts,
        )
    if settings.expose is not None:
        expose, name = settings.expose, load_balancer_name(identity.name, settings.expose)
        port = entrance_port(settings.ports, expose.port)
        load_balancer(
            name,
            metadata,
            expose,
            selector=identity.selector,
            port={"port": expose.listens_on(settings.ports), "target_port": port},
            port_name=port,
            balancing=balancing,
            opts=opts,
        )


def load_balancer(
    name: str,
    metadata: "ObjectMetaArgsDict",
    expose: Expose,
    *,
    selector: Mapping[str, str],
    port: "ServicePortArgsDict",
    port_name: str,
    balancing: Balancing,
    opts: pulumi.ResourceOptions,
) -> Service:
    """Create a Service, for which AWS builds a network load balancer in front of one port of these pods."""
    return Service(
        name,
        metadata={**metadata, "name": name, "annotations": _annotations(expose, port_name, balancing)},
        spec={
            "type": "LoadBalancer",
            "selector": dict(selector),
            "ports": [{**port, "name": port_name}],
            "external_traffic_policy": "Cluster",
            "load_balancer_source_ranges": _sources(expose),
        },
        opts=opts,
    )


def _ingress(ingress: IngressSettings, service: str, ports: Mapping[str, int]) -> "IngressSpecArgsDict":
    port = entrance_port(ports, ingress.port)
    spec: IngressSpecArgsDict = {
        "rules": [
            {
                "host": ingress.host,
                "http": {
                    "paths": [
                        {
                            "path": ingress.path,
                            "path_type": "Prefix",
                            "backend": {"service": {"name": service, "port": {"name": port}}},
                        }
                    ]
                },
            }
        ]
    }
    if ingress.class_ is not None:
        spec["ingress_class_name"] = ingress.class_
    if ingress.tls is not None:
        spec["tls"] = [{"hosts": [ingress.host], "secret_name": ingress.tls}]
    return spec


def _annotations(expose: Expose, port: str, balancing: Balancing) -> dict[str, str]:
    annotations = {
        "type": "nlb",
        "internal": "false" if expose.public else "true",
        # A zone without a fixed node has no target.
        "cross-zone-load-balancing-enabled": "true",
        "target-node-labels": f"{NODE_KIND}={NodeKind.FIXED.value}",
    }
    if expose.certificate is not None:
        annotations |= {"ssl-cert": expose.certificate, "ssl-ports": port, "ssl-negotiation-policy": _TLS_POLICY}
    if balancing.subnets:
        annotations["subnets"] = ",".join(balancing.subnets)
    tags = ",".join(f"{key}={value}" for key, value in balancing.tags.items() if "=" not in key + value)
    if tags:
        annotations["additional-resource-tags"] = tags  # a tag that contains `=` would be truncated
    return {WAIT_FOR: _BALANCED, **{f"{AWS}{key}": value for key, value in annotations.items()}}


def _sources(expose: Expose) -> list[str]:
    if expose.sources:
        return list(expose.sources)
    return ["0.0.0.0/0"] if expose.public else [*PRIVATE, SHARED]


_SERVICE = "kubernetes:core/v1:Service"


def workload_service_urn(name: str) -> pulumi.Output[str]:
    """Return the URN of a workload's Service."""
    return pulumi.create_urn(f"{name}-service", _SERVICE, pulumi.create_urn(name, "ebbtide:components:Workload"))


def shared_service_urn(name: str) -> pulumi.Output[str]:
    """Return the URN of the Service over several variants of a service."""
    service = pulumi.create_urn(f"service-{name}", "ebbtide:components:Service")
    return pulumi.create_urn(f"{name}-shared", _SERVICE, service)
