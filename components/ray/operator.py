"""KubeRay's operator, which creates pods and Services of RayClusters in the namespaces of Ray only.

Its own manifest grants it the whole cluster: every pod, every Secret, Roles of its making. Here it has a Role in each
namespace that a Ray cluster lives in, and what else it would make, the account of the head and the Role of Ray's
autoscaler, is there before it: so it needs no right to make accounts, Roles or Secrets. It watches RayJobs, RayServices
and the Secrets of those namespaces too, and does not start without.

One replica, on a fixed node. While it is away pods that Ray asks for come later, and nothing that runs stops.

Source: `config/rbac/role.yaml` and `config/manager/manager.yaml` of the release that `data/README.md` names.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ServiceAccount

from components import images
from components.context import StackContext
from components.granting import grant
from components.pods.budget import closed_budget
from components.pods.rules import PodIdentity, affinity, container_security, home, pod_security, resources, spread
from components.ray.crds import crds
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.ray import RAY_OPERATOR
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict, ProbeArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

NAME = RAY_OPERATOR

_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "delete", "patch", "update"]

RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": ["ray.io"], "resources": ["rayclusters"], "verbs": [*_READ, "patch", "update"]},
    {"api_groups": ["ray.io"], "resources": ["rayclusters/status"], "verbs": ["get", "patch", "update"]},
    {"api_groups": ["ray.io"], "resources": ["rayclusters/finalizers"], "verbs": ["update"]},
    {"api_groups": ["ray.io"], "resources": ["rayjobs", "rayservices"], "verbs": _READ},
    {"api_groups": [""], "resources": ["pods"], "verbs": [*_WRITE, "deletecollection"]},
    {"api_groups": [""], "resources": ["services"], "verbs": _WRITE},
    {"api_groups": [""], "resources": ["secrets", "serviceaccounts"], "verbs": _READ},
    {"api_groups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": _READ},
    {"api_groups": ["batch"], "resources": ["jobs"], "verbs": _READ},
    {"api_groups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": _READ},
    {"api_groups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]

CLEAN_UP: "PolicyRuleArgsDict" = {"api_groups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}
"""A Job that removes what a head kept in Redis, once its RayCluster is deleted."""


@dataclass(frozen=True, kw_only=True)
class OperatorArgs:
    stack: StackContext
    watched: Mapping[str, pulumi.Output[str]]  # the namespaces of Ray, by cluster
    cleans_up: Collection[str] = ()  # after these clusters: what their heads kept in Redis


class RayOperator(pulumi.ComponentResource):
    def __init__(self, name: str, args: OperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:RayOperator", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        identity = PodIdentity(name=NAME, category=Category.FIXED, customer=args.stack.customer)
        kinds = [
            CustomResourceDefinition(
                f"{name}-{crd.name}",
                metadata={"name": crd.name, "annotations": crd.annotations},
                spec=crd.spec,  # pyright: ignore[reportArgumentType] - as the release has it
                opts=child,
            )
            for crd in crds()
        ]
        meta: ObjectMetaArgsDict = {"name": NAME, "namespace": args.stack.namespace, "labels": identity.labels}
        account = ServiceAccount(f"{name}-account", metadata=meta, automount_service_account_token=False, opts=child)
        grants = [
            granted
            for cluster, namespace in args.watched.items()
            for granted in grant(
                f"{name}-{cluster}",
                NAME,
                namespace,
                [*RULES, *([CLEAN_UP] if cluster in args.cleans_up else [])],
                home=args.stack.namespace,
                parent=self,
            )
        ]
        closed_budget(f"{name}-budget", identity, args.stack.namespace, parent=self)
        Deployment(
            f"{name}-deployment",
            metadata=meta,
            spec={
                "replicas": 1,
                "revision_history_limit": 3,
                "strategy": {"type": "Recreate"},  # two at once would make pods twice
                "selector": {"match_labels": identity.selector},
                "template": {
                    "metadata": {"labels": identity.labels},
                    "spec": args.stack.images.pulled(_pod(args, identity)),
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*kinds, account, *grants]),
        )
        self.register_outputs({})


def _pod(args: OperatorArgs, identity: PodIdentity) -> "PodSpecArgsDict":
    watched = pulumi.Output.all(*args.watched.values()).apply(lambda names: "--watch-namespace=" + ",".join(names))
    return {
        "service_account_name": NAME,
        "automount_service_account_token": True,
        "affinity": affinity(Category.FIXED),
        "topology_spread_constraints": spread(identity, revision_label="pod-template-hash"),
        **home(NodeKind.FIXED),
        "security_context": pod_security(),
        "containers": [
            {
                "name": "operator",
                "image": args.stack.images.of(images.RAY_OPERATOR),
                "command": ["/manager"],
                "args": [watched, "--enable-leader-election=false"],
                "ports": [{"name": "http", "container_port": 8080}],
                "liveness_probe": _probe("/healthz"),
                "readiness_probe": _probe("/readyz"),
                "resources": resources(cpu=100, memory=512),  # as its release asks for, enough for 500 pods of Ray
                "security_context": container_security(read_only=True),
            }
        ],
    }


def _probe(path: str) -> "ProbeArgsDict":
    return {"http_get": {"path": path, "port": 8082}, "period_seconds": 10, "failure_threshold": 5}
