"""The namespace of a workload that starts pods, and its rights there: a Role and no ClusterRole.

The namespace contains only this workload and the pods that it starts: a client that may create pods may use any account
and any Secret of the namespace. The workload's Deployment and budget are created later, in this namespace. A destroy
deletes them first; the pods that the workload started are deleted with the namespace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.core.v1 import Namespace

from components.cluster.namespaces import restricted_namespace
from components.cluster.started_pods import StartedPods, StartedPodsArgs
from components.context import StackContext
from components.granting import grant
from components.pods.budget import budget_without_scale
from components.pods.egress import ca_bundle
from components.pods.rules import PodIdentity
from ebbtide.settings.sections.pods.kubernetes import KubernetesRights, RightsRule, own_namespace, started_by
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict


@dataclass(frozen=True, kw_only=True)
class OwnNamespaceArgs:
    stack: StackContext
    workload: str
    rights: KubernetesRights
    nodes: Sequence[Mapping[str, str]] = ()  # sets that started pods may choose from


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
    """Of the pods that a workload starts: the admission policy asks for its labels of workload and category."""
    return PodIdentity(name=started_by(workload), category=Category.WORKER, customer=customer)


def policy_rules(rights: KubernetesRights) -> "list[PolicyRuleArgsDict]":
    """As the file says them."""
    return [_policy_rule(rule) for rule in rights.rules]


def _policy_rule(rule: RightsRule) -> "PolicyRuleArgsDict":
    """An empty list of names grants every name, so it is not written."""
    given: PolicyRuleArgsDict = {
        "api_groups": list(rule.groups),
        "resources": list(rule.resources),
        "verbs": list(rule.verbs),
    }
    return {**given, "resource_names": list(rule.names)} if rule.names else given
