"""The namespaces of a stack, all with the restricted Pod Security level.

Workloads share one namespace and queue workers another, because the controller may patch pods only in the workers'
namespace. All pods that Ebbtide writes meet the restricted level, and Kubernetes refuses a pod that does not. GPUs need
no exception, since the kubelet hands a container its devices; the device plugin, which needs access to the node, runs
in kube-system.

A workload that starts pods has a namespace with a Role and no ClusterRole. The namespace contains only this workload
and the pods that it starts: a client that may create pods may use any account and any Secret of the namespace. The
workload's Deployment and budget are created later, in this namespace. A destroy deletes them first; the pods that the
workload started are deleted with the namespace.

Each Ray cluster has a namespace. Ray's autoscaler may patch pods and RayClusters in the namespace of its head. In a
shared namespace it could remove another workload's pod from that workload's budget. These namespaces are created before
the Secrets of their pods, which are created before any pod, including the operator's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.core.v1 import Namespace

from components.cluster.started_pods import StartedPods, StartedPodsArgs
from components.context import StackContext
from components.granting import grant
from components.pods.budget import budget_without_scale
from components.pods.egress import ca_bundle
from components.pods.rules import PodIdentity
from ebbtide.provisioning_labels import CUSTOMER, WORKER_NAMESPACE
from ebbtide.settings.sections.pods.kubernetes import KubernetesRights, RightsRule, own_namespace, started_by
from ebbtide.settings.sections.ray import RaySettings, namespace_of_ray
from ebbtide.vocabulary.labels import NAMESPACE, Category

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

_POD_SECURITY = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}


class Namespaces(pulumi.ComponentResource):
    system: Namespace
    workers: Namespace

    def __init__(self, name: str, stack: StackContext, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Namespaces", name, None, opts)
        self.system = restricted_namespace(f"{name}-system", NAMESPACE, stack.customer, parent=self)
        self.workers = restricted_namespace(f"{name}-workers", WORKER_NAMESPACE, stack.customer, parent=self)
        for part, namespace in (("system", self.system), ("workers", self.workers)):
            ca_bundle(f"{name}-{part}-ca-bundle", stack.egress, namespace.metadata.name, parent=self)
        self.register_outputs({})


def restricted_namespace(
    resource_name: str,
    namespace: str,
    customer: str,
    *,
    parent: pulumi.Resource,
    timeouts: pulumi.CustomTimeouts | None = None,
) -> Namespace:
    return Namespace(
        resource_name,
        metadata={"name": namespace, "labels": {CUSTOMER: customer, **_POD_SECURITY}},
        opts=pulumi.ResourceOptions(parent=parent, custom_timeouts=timeouts),
    )


@dataclass(frozen=True, kw_only=True)
class OwnNamespaceArgs:
    stack: StackContext
    workload: str
    rights: KubernetesRights
    nodes: Sequence[Mapping[str, str]] = ()  # each started pod needs one of these selectors


class OwnNamespace(pulumi.ComponentResource):
    namespace: Namespace

    def __init__(self, name: str, args: OwnNamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:OwnNamespace", name, None, opts)
        workload, child = args.workload, pulumi.ResourceOptions(parent=self)
        self.namespace = restricted_namespace(
            f"{name}-namespace", own_namespace(workload), args.stack.customer, parent=self
        )
        here = self.namespace.metadata.name
        ca_bundle(f"{name}-ca-bundle", args.stack.egress, here, parent=self)
        grant(name, workload, here, policy_rules(args.rights), parent=self)
        StartedPods(f"{name}-started", StartedPodsArgs(workload=workload, namespace=here, nodes=args.nodes), child)
        budget_without_scale(f"{name}-budget", started_identity(workload, args.stack.customer), here, parent=self)
        self.register_outputs({})


def started_identity(workload: str, customer: str) -> PodIdentity:
    """Return the identity of the pods that a workload starts. The admission policy requires the identity's labels."""
    return PodIdentity(name=started_by(workload), category=Category.WORKER, customer=customer)


def policy_rules(rights: KubernetesRights) -> "list[PolicyRuleArgsDict]":
    return [_policy_rule(rule) for rule in rights.rules]


def _policy_rule(rule: RightsRule) -> "PolicyRuleArgsDict":
    """Omit an empty list of names: it would grant access to every name."""
    policy_rule: PolicyRuleArgsDict = {
        "api_groups": list(rule.groups),
        "resources": list(rule.resources),
        "verbs": list(rule.verbs),
    }
    return {**policy_rule, "resource_names": list(rule.names)} if rule.names else policy_rule


@dataclass(frozen=True, kw_only=True)
class RaySpacesArgs:
    stack: StackContext
    clusters: Mapping[str, RaySettings]


class RaySpaces(pulumi.ComponentResource):
    names: Mapping[str, pulumi.Output[str]]  # by cluster

    def __init__(self, name: str, args: RaySpacesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:RaySpaces", name, None, opts)
        spaces = {
            cluster: restricted_namespace(
                f"{name}-{cluster}",
                namespace_of_ray(cluster),
                args.stack.customer,
                parent=self,
                timeouts=deletion_timeout(settings),
            )
            for cluster, settings in args.clusters.items()
        }
        self.names = {cluster: space.metadata.name for cluster, space in spaces.items()}
        for cluster, namespace in self.names.items():
            ca_bundle(f"{name}-{cluster}-ca-bundle", args.stack.egress, namespace, parent=self)
        self.register_outputs({})


def deletion_timeout(settings: RaySettings) -> pulumi.CustomTimeouts:
    """Return a timeout that covers the longest task, since a namespace waits until its Ray pods have ended."""
    return pulumi.CustomTimeouts(delete=f"{settings.deleted_within.total_seconds():.0f}s")


@dataclass(frozen=True, kw_only=True)
class ServingSpacesArgs:
    stack: StackContext
    namespaces: Sequence[str]


class ServingSpaces(pulumi.ComponentResource):
    def __init__(self, name: str, args: ServingSpacesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:ServingSpaces", name, None, opts)
        for space in args.namespaces:
            namespace = restricted_namespace(f"{name}-{space}", space, args.stack.customer, parent=self)
            ca_bundle(f"{name}-{space}-ca-bundle", args.stack.egress, namespace.metadata.name, parent=self)
        self.register_outputs({})
