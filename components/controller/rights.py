"""The rights of the controller and the closer. Pure: names in, rules out.

Writes are granted only by name, with two exceptions: events have no name before their creation, and Kubernetes names
the pods of a pool; the admission policy limits patches of pods. Reads are namespace-wide, because a watch cannot be
limited to names.

Only operations that the adapters use are granted: they read and replace a Lease, read and apply replicas through
`scale`, and patch budgets and marks. `get` of objects that may be listed reveals nothing more.

The trap: an empty list of resource names grants every name, so a rule without names must not be written at all.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

_READ = ["get", "list", "watch"]


def system_rules(*, lease: str, budgets: Sequence[str]) -> "list[PolicyRuleArgsDict]":
    """Return rights in the workloads' namespace: on the Lease, and as in every namespace with flexible pods."""
    return [*named("coordination.k8s.io", "leases", ["get", "update"], [lease]), *budget_rules(budgets=budgets)]


def worker_rules(*, pools: Sequence[str], budgets: Sequence[str] = ()) -> "list[PolicyRuleArgsDict]":
    """Return rights in the workers' namespace: replicas of pools (only through `scale`), marks on pods, events, and
    budgets of pools with checkpoints.

    A right to write Deployments would also allow a change of the image.
    """
    opened = named("policy", "poddisruptionbudgets", ["patch"], budgets)
    return [
        rule("apps", "deployments", _READ),
        rule("apps", "replicasets", _READ),
        *named("apps", "deployments/scale", ["get", "patch"], pools),
        *([rule("policy", "poddisruptionbudgets", _READ), *opened] if opened else []),
        rule("", "pods", [*_READ, "patch"]),
        events(),
    ]


def budget_rules(*, budgets: Sequence[str]) -> "list[PolicyRuleArgsDict]":
    """Return rights in a namespace with flexible pods: on budgets and events, and on pods to time drains and starts."""
    return [
        rule("policy", "poddisruptionbudgets", _READ),
        *named("policy", "poddisruptionbudgets", ["patch"], budgets),
        rule("", "pods", _READ),
        events(),
    ]


def closer_rules(*, budgets: Sequence[str]) -> "list[PolicyRuleArgsDict]":
    """Return rights on budgets that open in the window, and on fixed ones that a maintenance window may leave open.

    The admission policy ensures that the closer only closes.
    """
    return named("policy", "poddisruptionbudgets", ["get", "patch"], budgets)


def node_closer_rules(*, node_pools: Sequence[str]) -> "list[PolicyRuleArgsDict]":
    return named("karpenter.sh", "nodepools", ["get", "patch"], node_pools)


def node_pool_rules(*, node_pools: Sequence[str]) -> "list[PolicyRuleArgsDict]":
    """Return cluster-wide rights: NodePools have no namespace."""
    return [rule("karpenter.sh", "nodepools", _READ), *named("karpenter.sh", "nodepools", ["patch"], node_pools)]


def rule(group: str, resource: str, verbs: Sequence[str]) -> "PolicyRuleArgsDict":
    return {"api_groups": [group], "resources": [resource], "verbs": verbs}


def named(group: str, resource: str, verbs: Sequence[str], names: Sequence[str]) -> "list[PolicyRuleArgsDict]":
    if not names:
        return []
    named_rule: PolicyRuleArgsDict = {**rule(group, resource, verbs), "resource_names": sorted(names)}
    return [named_rule]


def events() -> "PolicyRuleArgsDict":
    return {"api_groups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}
