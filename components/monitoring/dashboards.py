"""The Grafana dashboards of a stack, as ConfigMaps with the label that the sidecar of Grafana's chart selects.

The sidecar must look into their namespace (`sidecar.dashboards.searchNamespace`).
"""

import json
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap

from components.context import StackContext
from ebbtide.monitoring.dashboards import dashboards, document_of
from ebbtide.provisioning_labels import CUSTOMER

SIDECAR = {"grafana_dashboard": "1"}


@dataclass(frozen=True, kw_only=True)
class DashboardsArgs:
    stack: StackContext
    namespace: str
    timezone: str


class Dashboards(pulumi.ComponentResource):
    def __init__(self, name: str, args: DashboardsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Dashboards", name, None, opts)
        for each in dashboards(args.stack.customer):
            called = f"ebbtide-{args.stack.customer}-{each.name}"
            document = document_of(each, args.stack.customer, args.timezone)
            ConfigMap(
                f"{name}-{each.name}",
                metadata={
                    "name": called,
                    "namespace": args.namespace,
                    "labels": {CUSTOMER: args.stack.customer, **SIDECAR},
                },
                data={f"{called}.json": json.dumps(document, indent=1)},
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
