"""The workload controller: a second process of the controller's image, for Ray clusters and planned minimums.

It writes the spec of Ray clusters, so that no `up` has to, and sends them to sleep (docs/adr/0027), and the floors of
services (docs/adr/0030). It has an account, a Lease and rights of its own: what it may write the other process may not,
and the other way round. It asks the head of each cluster what runs there, with the cluster's token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.coordination.v1 import Lease
from pulumi_kubernetes.core.v1 import ConfigMap, ServiceAccount

from components.admission_policy import enforce, on
from components.context import StackContext
from components.controller.admission import ANNOTATIONS, BINDINGS_STAY, annotating_only, user_of, validations
from components.controller.floor_rules import AUTOSCALERS, Autoscaler, bounds, floor_rules
from components.controller.rights import events, named, rule
from components.granting import grant
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
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.workloads import ASLEEP_FOR, WORKLOADS, FloorPolicy, WorkloadsConfig, dump

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict, VolumeArgsDict, VolumeMountArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

NAME = WORKLOADS
PORT = 8080
_CONFIG_DIRECTORY, _CONFIG_FILE = "/etc/ebbtide", "workloads.json"
_TOKENS = "/etc/ebbtide-ray"

_READ = ["get", "list", "watch"]
RAY_RULES = {**BINDINGS_STAY, **annotating_only(ASLEEP_FOR, ASLEEP_FOR)}


def token_file(cluster: str, key: str) -> str:
    """Where the process finds the token of a Ray cluster."""
    return f"{_TOKENS}/{cluster}/{key}"


@dataclass(frozen=True, kw_only=True)
class WorkloadControllerArgs:
    stack: StackContext
    config: WorkloadsConfig
    ray_namespaces: Mapping[str, pulumi.Input[str]]  # by cluster
    tokens: Mapping[str, str]  # the Secrets of their tokens, by cluster


class WorkloadController(pulumi.ComponentResource):
    def __init__(self, name: str, args: WorkloadControllerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:WorkloadController", name, None, opts)
        child, here = pulumi.ResourceOptions(parent=self), args.stack.namespace
        metadata: ObjectMetaArgsDict = {"name": NAME, "namespace": here}
        pools = sorted({pool for cluster in args.config.ray for pool in cluster.pools})
        granted: dict[str, tuple[pulumi.Input[str], list[PolicyRuleArgsDict]]] = {
            "system": (here, [*_system_rules(), *_autoscaler_rules(args.config.floors)]),
            **({"workers": (args.stack.worker_namespace, [rule("apps", "deployments", _READ)])} if pools else {}),
            **{f"ray-{cluster}": (space, _ray_rules(cluster)) for cluster, space in args.ray_namespaces.items()},
        }
        before: list[pulumi.Resource] = [
            ServiceAccount(f"{name}-account", metadata=metadata, opts=child),
            Lease(f"{name}-lease", metadata=metadata, opts=child),
            ConfigMap(f"{name}-config", metadata=metadata, data={_CONFIG_FILE: dump(args.config)}, opts=child),
            *(
                resource
                for part, (space, rules) in granted.items()
                for resource in grant(f"{name}-{part}", NAME, space, rules, home=here, parent=self)
            ),
        ]
        if args.config.ray:
            self._limit_to_specs(name, args)
        for kind in AUTOSCALERS:
            if policies := kind.among(args.config.floors):
                self._limit_to_floors(name, args, kind, policies)
        identity = PodIdentity(name=NAME, category=Category.FIXED, customer=args.stack.customer)
        closed_budget(f"{name}-budget", identity, here, parent=self)
        Deployment(
            f"{name}-deployment",
            metadata={**metadata, "labels": identity.labels},
            spec={
                "replicas": 1,
                "selector": {"match_labels": identity.selector},
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

    def _limit_to_specs(self, name: str, args: WorkloadControllerArgs) -> None:
        """Rights stop at the object: of a RayCluster nothing but the spec and one annotation is its to write."""
        enforce(
            (f"{name}-rayclusters", f"{name}-rayclusters-binding"),
            "ebbtide-rayclusters",
            on("ray.io", "rayclusters", ["UPDATE"]),
            validations("Ebbtide's workload controller", RAY_RULES),
            conditions=[{"name": "written-by-ebbtide", "expression": _ours(args)}],
            variables=ANNOTATIONS,
            parent=self,
        )

    def _limit_to_floors(
        self, name: str, args: WorkloadControllerArgs, kind: Autoscaler, policies: Sequence[FloorPolicy]
    ) -> None:
        """Of an autoscaler the minimum alone, within what the stack file says."""
        enforce(
            (f"{name}-{kind.resource}", f"{name}-{kind.resource}-binding"),
            f"ebbtide-{kind.resource}",
            on(kind.group, kind.resource, ["UPDATE"], version=kind.version),
            validations("Ebbtide's workload controller", floor_rules(kind)),
            conditions=[{"name": "written-by-ebbtide", "expression": _ours(args)}],
            variables=[{"name": "bounds", "expression": bounds(policies)}],
            parent=self,
        )


def _ours(args: WorkloadControllerArgs) -> pulumi.Output[str]:
    return pulumi.Output.concat("request.userInfo.username == ", user_of(args.stack.namespace, NAME))


def _system_rules() -> "list[PolicyRuleArgsDict]":
    return [*named("coordination.k8s.io", "leases", ["get", "update"], [NAME]), events()]


def _autoscaler_rules(floors: Sequence[FloorPolicy]) -> "list[PolicyRuleArgsDict]":
    """Writing by name; a watch is of the namespace."""
    rules: list[PolicyRuleArgsDict] = []
    for kind in AUTOSCALERS:
        if names := [policy.name for policy in kind.among(floors)]:
            rules += [rule(kind.group, kind.resource, _READ), *named(kind.group, kind.resource, ["patch"], names)]
    return rules


def _ray_rules(cluster: str) -> "list[PolicyRuleArgsDict]":
    """Writing by name; reading is of the namespace, which holds this cluster alone."""
    return [rule("ray.io", "rayclusters", _READ), *named("ray.io", "rayclusters", ["patch"], [cluster]), events()]


def _pod(args: WorkloadControllerArgs, identity: PodIdentity) -> "PodSpecArgsDict":
    mounts: list[VolumeMountArgsDict] = [{"name": "config", "mount_path": _CONFIG_DIRECTORY, "read_only": True}]
    volumes: list[VolumeArgsDict] = [{"name": "config", "config_map": {"name": NAME}}]
    for cluster, secret in args.tokens.items():
        mounts.append({"name": f"token-{cluster}", "mount_path": f"{_TOKENS}/{cluster}", "read_only": True})
        volumes.append({"name": f"token-{cluster}", "secret": {"secret_name": secret}})
    return {
        "service_account_name": NAME,
        "affinity": affinity(Category.FIXED),
        "topology_spread_constraints": spread(identity, revision_label="pod-template-hash"),
        **home(NodeKind.FIXED),
        "termination_grace_period_seconds": 30,
        "security_context": pod_security(),
        "containers": [
            {
                "name": "workloads",
                "image": args.stack.images.of(CONTROLLER_IMAGE),
                "command": [
                    *("python", "-m", "controllers.workloads"),
                    *("--config", f"{_CONFIG_DIRECTORY}/{_CONFIG_FILE}"),
                ],
                "env": [
                    {"name": "POD_NAME", "value_from": {"field_ref": {"field_path": "metadata.name"}}},
                    {"name": "POD_NAMESPACE", "value_from": {"field_ref": {"field_path": "metadata.namespace"}}},
                ],
                "ports": [{"name": "http", "container_port": PORT}],
                "liveness_probe": http_probe("/healthz", PORT, failures=6),
                "readiness_probe": http_probe("/readyz", PORT, failures=3),
                "resources": resources(cpu=50, memory=128),
                "security_context": container_security(read_only=True),
                "volume_mounts": mounts,
            }
        ],
        "volumes": volumes,
    }
