"""The rights of the controller and the closer. Pure: names in, rules out.

Writing is granted by name only. Two rights cannot be limited so: events are created before they have a name, and the
pods of a pool get theirs from Kubernetes; the admission policy limits what a patch of a pod may change. Reading is
namespace-wide, because a watch on a list of names does not exist.

Only what the adapters do is granted: a Lease is read and replaced, replicas are read and applied through `scale`,
budgets and marks are patched. `get` of what may be listed reveals nothing more.

The trap: an empty list of resource names grants every name. A rule without names must not be written at all.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

_READ = ["get", "list", "watch"]


def system_rules(*, lease: str, budgets: Sequence[str]) -> "list[PolicyRuleArgsDict]":
    """In the namespace of the workloads: the Lease, the flexible budgets, events; pods, to time drains and starts."""
    return [
        *named("coordination.k8s.io", "leases", ["get", "update"], [lease]),
        rule("policy", "poddisruptionbudgets", _READ),
        *named("policy", "poddisruptionbudgets", ["patch"], budgets),
        rule("", "pods", _READ),
        events(),
    ]


def worker_rules(*, pools: Sequence[str], budgets: Sequence[str] = ()) -> "list[PolicyRuleArgsDict]":
    """In the namespace of the workers: replicas of the pools through `scale` alone, marks on pods, events, and the
    budgets of pools with checkpoints.

    A right on Deployments themselves would also allow another image.
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


def closer_rules(*, budgets: Sequence[str]) -> "list[PolicyRuleArgsDict]":
    """The budgets that are open in the window alone, and the fixed ones that a maintenance may have left open; that it
    only closes is up to the admission policy.
    """
    return named("policy", "poddisruptionbudgets", ["get", "patch"], budgets)


def rule(group: str, resource: str, verbs: Sequence[str]) -> "PolicyRuleArgsDict":
    return {"api_groups": [group], "resources": [resource], "verbs": verbs}


def named(group: str, resource: str, verbs: Sequence[str], names: Sequence[str]) -> "list[PolicyRuleArgsDict]":
    if not names:
        return []
    named_rule: PolicyRuleArgsDict = {**rule(group, resource, verbs), "resource_names": sorted(names)}
    return [named_rule]


def events() -> "PolicyRuleArgsDict":
    return {"api_groups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}
