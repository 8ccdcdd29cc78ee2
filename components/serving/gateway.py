"""The gateway of a stack: listeners, client timeouts, and on EKS a load balancer.

**The stack creates the load balancer's Service**, so that a destroy waits until AWS has deleted the load balancer
before it deletes the pods, the operator and the network. A Service of Envoy Gateway would remain if the operator were
deleted first, and a VPC with a load balancer cannot be deleted. The load balancer's targets are the fixed nodes, on
which the proxies run: see `components.pods.entrance`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource

from components.context import StackContext
from components.pods.entrance import Balancing, load_balancer
from components.serving.routing import client_policy, gateway_spec
from components.serving.service import ENVOY_API, GATEWAY_API
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.settings.sections.entrance import TLS_PORT, Expose
from ebbtide.settings.sections.serving.gateway import GATEWAY, HTTP_PORT, OWNING_GATEWAY, ServingSettings

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

_SHIFT = 10_000
"""Envoy's pods add this number to ports below 1,024, which they have no right to open."""


@dataclass(frozen=True, kw_only=True)
class GatewayArgs:
    stack: StackContext
    namespace: str
    settings: ServingSettings
    class_name: str
    longest: timedelta  # the longest request of all services
    envoy: bool
    balancing: Balancing | None  # None without a load balancer


class Gateway(pulumi.ComponentResource):
    def __init__(self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Gateway", name, None, opts)
        settings = args.settings
        place: ObjectMetaArgsDict = {"namespace": args.namespace, "labels": {CUSTOMER: args.stack.customer}}
        metadata: ObjectMetaArgsDict = {**place, "name": GATEWAY}
        child = pulumi.ResourceOptions(parent=self)
        gateway = CustomResource(
            f"{name}-listeners",
            api_version=GATEWAY_API,
            kind="Gateway",
            metadata=metadata,
            spec=gateway_spec(args.class_name, settings.tls),
            opts=child,
        )
        after = pulumi.ResourceOptions(parent=self, depends_on=[gateway])
        if args.envoy:
            CustomResource(
                f"{name}-clients",
                api_version=ENVOY_API,
                kind="ClientTrafficPolicy",
                metadata=metadata,
                spec=client_policy(args.longest),
                opts=after,
            )
        if args.balancing is not None:
            listens = HTTP_PORT if settings.tls is None else TLS_PORT
            exposed = Expose.model_construct(
                public=settings.public, certificate=settings.certificate, sources=settings.sources
            )
            load_balancer(
                settings.balancer,
                place,
                exposed,
                selector={OWNING_GATEWAY: GATEWAY},
                port={
                    "port": TLS_PORT if settings.certificate is not None else listens,
                    "target_port": listens + _SHIFT,
                },
                port_name="http" if settings.tls is None else "https",
                balancing=args.balancing,
                opts=after,
            )
        self.register_outputs({})
