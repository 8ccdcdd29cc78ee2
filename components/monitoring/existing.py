"""Scrape jobs and rules for an existing Prometheus, as objects of its operator or as files.

The operator must watch Ebbtide's namespaces (`podMonitorNamespaceSelector`, `ruleNamespaceSelector`) and, if it selects
by labels, objects with `monitoring.labels`. Only the API server knows whether the operator's kinds exist: an
`up` on a cluster without them fails with the API server's message, after all other resources are created.

Each target gets the label `customer`, by which the rules select their series. A pod's own label of that name becomes
`exported_customer`.

The dashboards are ConfigMaps with the label that the sidecar of Grafana's chart selects. The sidecar must look into
their namespace (`sidecar.dashboards.searchNamespace`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import ConfigMap

from components.context import StackContext
from components.monitoring.scraping import RULES_FILE, jobs_of_pods
from components.monitoring.targets import ScrapeTarget
from ebbtide.monitoring.dashboards import dashboards, document_of
from ebbtide.monitoring.rules import CUSTOMER
from ebbtide.provisioning_labels import CUSTOMER as CUSTOMER_LABEL

API = "monitoring.coreos.com/v1"
RULES = "ebbtide"
SCRAPES = "scrape.json"
_WORKLOAD_OF_POD = {
    "action": "replace",
    "sourceLabels": ["__meta_kubernetes_pod_label_ebbtide_dev_workload"],
    "targetLabel": "workload",
}


@dataclass(frozen=True, kw_only=True)
class ExistingPrometheusArgs:
    stack: StackContext
    namespace: str  # of the rules
    labels: Mapping[str, str]
    targets: Sequence[ScrapeTarget]
    rules: Mapping[str, Any]


class FilesForPrometheus(pulumi.ComponentResource):
    """A ConfigMap for a Prometheus without an operator, in its namespace. Prometheus' config must name its files.

    Prometheus must be 2.43 or later, which reads `scrape_config_files`, and needs rights to list our pods.
    """

    def __init__(self, name: str, args: ExistingPrometheusArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:FilesForPrometheus", name, None, opts)
        files = {SCRAPES: jobs_of_pods(args.stack.customer, args.targets), RULES_FILE: args.rules}
        labels = {CUSTOMER_LABEL: args.stack.customer, **args.labels}
        ConfigMap(
            f"{name}-files",
            metadata={"name": f"ebbtide-{args.stack.customer}", "namespace": args.namespace, "labels": labels},
            data={file: json.dumps(document, indent=1) for file, document in files.items()},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


class ExistingPrometheus(pulumi.ComponentResource):
    def __init__(self, name: str, args: ExistingPrometheusArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:ExistingPrometheus", name, None, opts)
        self._labels = {CUSTOMER_LABEL: args.stack.customer, **args.labels}
        for target in args.targets:
            resource_name = f"{name}-{target.namespace}-{target.name}"
            self._object(
                resource_name, "PodMonitor", target.name, target.namespace, _monitor(target, args.stack.customer)
            )
        self._object(f"{name}-rules", "PrometheusRule", RULES, args.namespace, args.rules)
        self.register_outputs({})

    def _object(self, resource_name: str, kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> None:
        CustomResource(
            resource_name,
            api_version=API,
            kind=kind,
            metadata={"name": name, "namespace": namespace, "labels": self._labels},
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self),
        )


def _monitor(target: ScrapeTarget, customer: str) -> Mapping[str, Any]:
    metric_filters = [
        {"action": "keep", "sourceLabels": [label], "regex": expression} for label, expression in target.kept.items()
    ]
    return {
        "selector": {"matchExpressions": [{"key": target.label, "operator": "In", "values": [*target.workloads]}]},
        "podMetricsEndpoints": [
            {
                "port": target.port,
                "path": target.path,
                "interval": f"{int(target.every.total_seconds())}s",
                **({"honorLabels": True} if target.reports_other_pods else {}),
                "relabelings": [
                    {"action": "replace", "targetLabel": CUSTOMER, "replacement": customer},
                    *([] if target.reports_other_pods else [_WORKLOAD_OF_POD]),
                ],
                **({"metricRelabelings": metric_filters} if metric_filters else {}),
            }
        ],
    }


SIDECAR = {"grafana_dashboard": "1"}


@dataclass(frozen=True, kw_only=True)
class DashboardsArgs:
    stack: StackContext
    namespace: str
    timezone: str


class Dashboards(pulumi.ComponentResource):
    def __init__(self, name: str, args: DashboardsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Dashboards", name, None, opts)
        for dashboard in dashboards(args.stack.customer):
            title = f"ebbtide-{args.stack.customer}-{dashboard.name}"
            document = document_of(dashboard, args.stack.customer, args.timezone)
            ConfigMap(
                f"{name}-{dashboard.name}",
                metadata={
                    "name": title,
                    "namespace": args.namespace,
                    "labels": {CUSTOMER_LABEL: args.stack.customer, **SIDECAR},
                },
                data={f"{title}.json": json.dumps(document, indent=1)},
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
