"""The exporter: a read-only process of the controller's image that reports nodes and pods to Prometheus.

Nodes belong to no namespace, and pods of all namespaces stand on them, so it may read these two everywhere. What else
it reads it reads in the namespaces that its document names. Nothing of it may write.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, ServiceAccount

from components.context import StackContext
from components.granting import grant, grant_everywhere
from components.pods.budget import closed_budget
from components.pods.rules import (
    OLD_POD_FIRST,
    PodIdentity,
    affinity,
    container_security,
    home,
    http_probe,
    pod_security,
    resources,
    spread,
)
from ebbtide.labels import NodeKind
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE
from ebbtide.vocabulary.exporter import EXPORTER, ExporterConfig, dump
from ebbtide.vocabulary.labels import NAMESPACE, Category

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

NAME = EXPORTER
PORT = 8080
_CONFIG_DIRECTORY, _CONFIG_FILE = "/etc/ebbtide", "exporter.json"
_READ = ["get", "list", "watch"]


@dataclass(frozen=True, kw_only=True)
class ExporterArgs:
    stack: StackContext
    config: ExporterConfig


class Exporter(pulumi.ComponentResource):
    def __init__(self, name: str, args: ExporterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Exporter", name, None, opts)
        child, here = pulumi.ResourceOptions(parent=self), NAMESPACE
        metadata: ObjectMetaArgsDict = {"name": NAME, "namespace": here}
        before: list[pulumi.Resource] = [
            ServiceAccount(f"{name}-account", metadata=metadata, opts=child),
            ConfigMap(f"{name}-config", metadata=metadata, data={_CONFIG_FILE: _document(args)}, opts=child),
            *self._rights(name, args),
        ]
        identity = PodIdentity(name=NAME, category=Category.FIXED, customer=args.stack.customer)
        closed_budget(f"{name}-budget", identity, here, parent=self)
        Deployment(
            f"{name}-deployment",
            metadata={**metadata, "labels": identity.labels},
            spec={
                "replicas": 1,
                "selector": {"match_labels": identity.selector},
                # Two at once would tell everything twice.
                "strategy": OLD_POD_FIRST,
                "revision_history_limit": 3,
                "template": {
                    "metadata": {"labels": identity.labels},
                    "spec": args.stack.images.pulled(_pod(args, identity)),
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=before),
        )
        self.register_outputs({})

    def _rights(self, name: str, args: ExporterArgs) -> list[pulumi.Resource]:
        whole, home = [_reading("", "nodes", "pods")], NAMESPACE
        return [
            *grant_everywhere(f"{name}-everywhere", NAME, whole, home=home, parent=self),
            *(
                resource
                for space, rules in rights_by_namespace(args.config).items()
                for resource in grant(f"{name}-{space}", NAME, space, rules, home=home, parent=self)
            ),
        ]


def rights_by_namespace(config: ExporterConfig) -> "Mapping[str, list[PolicyRuleArgsDict]]":
    hpas = _reading("autoscaling", "horizontalpodautoscalers")
    found: dict[str, list[PolicyRuleArgsDict]] = {config.namespace: [_reading("batch", "cronjobs")]}
    for space in config.hpa_namespaces:
        found.setdefault(space, []).append(hpas)
    return found


def _reading(group: str, *kinds: str) -> "PolicyRuleArgsDict":
    return {"api_groups": [group], "resources": [*kinds], "verbs": _READ}


def _document(args: ExporterArgs) -> pulumi.Output[str]:
    config = args.config
    if args.stack.cache_host is None:
        return pulumi.Output.from_input(dump(config))
    host = pulumi.Output.from_input(args.stack.cache_host)
    return host.apply(lambda known: dump(replace(config, tls_endpoints=_at(known, config.tls_endpoints))))


def _at(host: str, endpoints: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{host}:{it.rpartition(':')[2]}" for it in endpoints)


def _pod(args: ExporterArgs, identity: PodIdentity) -> "PodSpecArgsDict":
    return {
        "service_account_name": NAME,
        "affinity": affinity(Category.FIXED),
        "topology_spread_constraints": spread(identity, revision_label="pod-template-hash"),
        **home(NodeKind.FIXED),
        "termination_grace_period_seconds": 30,
        "security_context": pod_security(),
        "containers": [
            {
                "name": "exporter",
                "image": args.stack.images.of(CONTROLLER_IMAGE),
                "command": [
                    *("python", "-m", "controllers.exporter"),
                    *("--config", f"{_CONFIG_DIRECTORY}/{_CONFIG_FILE}"),
                ],
                "ports": [{"name": "http", "container_port": PORT}],
                "liveness_probe": http_probe("/healthz", PORT, failures=6),
                "readiness_probe": http_probe("/readyz", PORT, failures=3),
                "resources": resources(cpu=50, memory=128),
                "security_context": container_security(read_only=True),
                "volume_mounts": [{"name": "config", "mount_path": _CONFIG_DIRECTORY, "read_only": True}],
            }
        ],
        "volumes": [{"name": "config", "config_map": {"name": NAME}}],
    }
