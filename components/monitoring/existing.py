"""A Prometheus that is there already, with its operator: it is told what to scrape and which rules to evaluate.

Its operator must look into our namespaces (`podMonitorNamespaceSelector`, `ruleNamespaceSelector`) and choose by
`monitoring.labels`, if it chooses by labels. Whether its kinds exist cannot be known before the API server is asked: an
`up` on a cluster without them ends with the API server's own message, after everything else.

Each target is given the label `customer`, by which the rules find their own series. A label of that name that a pod
writes itself is kept as `exported_customer`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource

from components.monitoring.targets import Target
from ebbtide.labels import CUSTOMER as CUSTOMER_LABEL
from ebbtide.monitoring.rules import CUSTOMER
from ebbtide.vocabulary.labels import WORKLOAD

API = "monitoring.coreos.com/v1"
RULES = "ebbtide"
_INTERVAL = "30s"


@dataclass(frozen=True, kw_only=True)
class ExistingPrometheusArgs:
    customer: str
    namespace: str  # of the rules
    labels: Mapping[str, str]
    targets: Sequence[Target]
    rules: Mapping[str, Any]


class ExistingPrometheus(pulumi.ComponentResource):
    def __init__(self, name: str, args: ExistingPrometheusArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:ExistingPrometheus", name, None, opts)
        self._labels = {CUSTOMER_LABEL: args.customer, **args.labels}
        for target in args.targets:
            resource_name = f"{name}-{target.namespace}-{target.name}"
            self._object(resource_name, "PodMonitor", target.name, target.namespace, _monitor(target, args.customer))
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


def _monitor(target: Target, customer: str) -> Mapping[str, Any]:
    return {
        "selector": {"matchExpressions": [{"key": WORKLOAD, "operator": "In", "values": [*target.workloads]}]},
        "podMetricsEndpoints": [
            {
                "port": target.port,
                "path": "/metrics",
                "interval": _INTERVAL,
                **({"honorLabels": True} if target.tells_of_others else {}),
                "relabelings": [{"action": "replace", "targetLabel": CUSTOMER, "replacement": customer}],
            }
        ],
    }
