"""The exporter: a read-only process of the controller's image that reports nodes and pods to Prometheus.

Nodes belong to no namespace and run pods of all namespaces, so the exporter may read nodes and pods everywhere. It
reads other objects only in the namespaces that its config document names. It may write nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pulumi

from components.context import StackContext
from components.controller.process import ControlledProcess, ControllerProcess
from components.granting import grant, grant_everywhere
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.exporter import ExporterConfig
from ebbtide.vocabulary.labels import EXPORTER, NAMESPACE

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

NAME = EXPORTER
_READ = ["get", "list", "watch"]


@dataclass(frozen=True, kw_only=True)
class ExporterArgs:
    stack: StackContext
    config: ExporterConfig


class Exporter(ControlledProcess):
    """The exporter has one replica, since two would report everything twice."""

    def __init__(self, name: str, args: ExporterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        process = ControllerProcess(
            name=NAME,
            namespace=NAMESPACE,
            container="exporter",
            module="controllers.exporter",
            file="exporter.json",
            document=_document(args),
        )
        super().__init__("ebbtide:components:Exporter", name, process, args.stack, opts)
        self._run([*self._own_objects(lease=False), *self._rights(args)])
        self.register_outputs({})

    def _rights(self, args: ExporterArgs) -> list[pulumi.Resource]:
        everywhere = [_reading("", "nodes", "pods")]
        return [
            *grant_everywhere(f"{self._name}-everywhere", NAME, everywhere, home=NAMESPACE, parent=self),
            *(
                resource
                for space, rules in rights_by_namespace(args.config).items()
                for resource in grant(f"{self._name}-{space}", NAME, space, rules, home=NAMESPACE, parent=self)
            ),
        ]


def rights_by_namespace(config: ExporterConfig) -> "Mapping[str, list[PolicyRuleArgsDict]]":
    hpas = _reading("autoscaling", "horizontalpodautoscalers")
    rules: dict[str, list[PolicyRuleArgsDict]] = {config.namespace: [_reading("batch", "cronjobs")]}
    for space in config.hpa_namespaces:
        rules.setdefault(space, []).append(hpas)
    for space in (*config.workload_namespaces, *config.team_namespaces):
        rules.setdefault(space, []).append(_reading("apps", "deployments", "statefulsets"))
    return rules


def _reading(group: str, *kinds: str) -> "PolicyRuleArgsDict":
    return {"api_groups": [group], "resources": [*kinds], "verbs": _READ}


def _document(args: ExporterArgs) -> pulumi.Output[str]:
    config = args.config
    if args.stack.cache_host is None:
        return pulumi.Output.from_input(dump(config))
    host = pulumi.Output.from_input(args.stack.cache_host)
    return host.apply(lambda address: dump(replace(config, tls_endpoints=_at(address, config.tls_endpoints))))


def _at(host: str, endpoints: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{host}:{endpoint.rpartition(':')[2]}" for endpoint in endpoints)
