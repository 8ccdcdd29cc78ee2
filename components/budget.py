"""PodDisruptionBudgets: one for every workload, born closed.

Only `maxUnavailable` is ever used: with `minAvailable` beside it a budget is invalid, so nobody could flip from one to
the other. And never two budgets on one pod: the Eviction API then refuses every eviction.

Pods that run and are not ready: a flexible one may always be evicted, others never while their budget is closed. See
docs/adr/0006 for the reasons.
"""

import pulumi
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components.ownership import MAX_UNAVAILABLE, FieldOwner, OwnedField, OwnershipTable, hand_over
from components.pod_rules import CLOSED_BUDGET, PodIdentity
from ebbtide.vocabulary.labels import Category

UNHEALTHY_PODS = {
    Category.FLEXIBLE: "AlwaysAllow",  # it serves nobody, and must not pin its node day and night
    Category.FIXED: "IfHealthyBudget",  # an unready orchestrator may still hold its state
    Category.WORKER: "IfHealthyBudget",  # on a node that lost touch, the job may still run
}


def closed_budget(
    resource_name: str,
    identity: PodIdentity,
    namespace: pulumi.Input[str],
    *,
    parent: pulumi.Resource,
    table: OwnershipTable | None = None,
) -> PodDisruptionBudget:
    """The budget of one workload, named like it. A flexible one is the controller's to open; others stay Pulumi's."""
    opts = pulumi.ResourceOptions(parent=parent)
    if identity.category is Category.FLEXIBLE:
        field = OwnedField(
            kind="PodDisruptionBudget",
            namespace=namespace,
            name=identity.name,
            field=MAX_UNAVAILABLE,
            owner=FieldOwner.CONTROLLER,
            initial=CLOSED_BUDGET,
        )
        opts = hand_over(field, parent=parent, table=table)
    return PodDisruptionBudget(
        resource_name,
        metadata={"name": identity.name, "namespace": namespace, "labels": identity.labels},
        spec={
            "max_unavailable": CLOSED_BUDGET,
            "selector": {"match_labels": identity.selector},
            "unhealthy_pod_eviction_policy": UNHEALTHY_PODS[identity.category],
        },
        opts=opts,
    )
