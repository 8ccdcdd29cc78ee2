"""KubeRay's operator, which creates pods and Services of RayClusters, only in Ray's namespaces.

The manifest of KubeRay's release grants rights on the entire cluster: all pods, all Secrets, and the creation of Roles.
In Ebbtide the operator has a Role in each namespace of a Ray cluster. Ebbtide creates the head's account and the Role
of Ray's autoscaler, so the operator needs no right to create accounts, Roles or Secrets. It also watches RayJobs,
RayServices and the Secrets of those namespaces, and does not start without these rights.

The operator has one replica, on a fixed node. While it is down, pods that Ray requests are delayed, and running pods
stay.

Source: `config/rbac/role.yaml` and `config/manager/manager.yaml` of the release that `data/README.md` names.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition

from components import images
from components.context import StackContext
from components.definitions import crds
from components.granting import grant
from components.program import Program, ProgramArgs, account, identity, probe, run
from ebbtide.settings.sections.ray import RAY_OPERATOR

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

NAME = RAY_OPERATOR

_HEALTH = 8082

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
"""Rights on the Job that removes a head's state from Redis, after its RayCluster is deleted."""


@dataclass(frozen=True, kw_only=True)
class OperatorArgs:
    stack: StackContext
    watched: Mapping[str, pulumi.Output[str]]  # Ray's namespaces, by cluster
    cleans_up: Collection[str] = ()  # clusters whose heads have a state in Redis


class RayOperator(pulumi.ComponentResource):
    def __init__(self, name: str, args: OperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:RayOperator", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        kinds = [
            CustomResourceDefinition(
                f"{name}-{crd.name}",
                metadata={"name": crd.name, "annotations": crd.annotations},
                spec=crd.spec,  # pyright: ignore[reportArgumentType] - as the release has it
                opts=child,
            )
            for crd in crds("kuberay")
        ]
        home = args.stack.namespace
        place = ProgramArgs(stack=args.stack, namespace=home)
        labels = identity(NAME, args.stack.customer).labels
        grants = [
            resource
            for cluster, namespace in args.watched.items()
            for resource in grant(
                f"{name}-{cluster}",
                NAME,
                namespace,
                [*RULES, *([CLEAN_UP] if cluster in args.cleans_up else [])],
                home=home,
                parent=self,
            )
        ]
        before = [*kinds, account(name, NAME, place, labels=labels, parent=self), *grants]
        run(name, _program(args), place, parent=self, after=before)
        self.register_outputs({})


def _program(args: OperatorArgs) -> Program:
    watched = pulumi.Output.all(*args.watched.values()).apply(lambda names: "--watch-namespace=" + ",".join(names))
    return Program(
        name=NAME,
        container="operator",
        image=images.RAY_OPERATOR,
        command=["/manager"],
        args=[watched, "--enable-leader-election=false"],
        env=None,
        ports={"http": 8080},
        alive=probe("/healthz", _HEALTH, failures=5, within=None, scheme=None),
        ready=probe("/readyz", _HEALTH, failures=5, within=None, scheme=None),
        cpu=100,
        memory=512,  # the release's request, enough for 500 Ray pods
        mounts=None,
        annotations=None,
        grace=None,
        strategy={"type": "Recreate"},  # two operators at once would create pods twice
        connect=lambda pod: pod,  # it calls only the API server
    )
