"""PodDisruptionBudgets: one for every workload, created closed.

Exceptions are created open: workers with checkpoints and variants of services on spot nodes.

A budget sets `maxUnavailable`. A budget with both `maxUnavailable` and `minAvailable` is invalid, so a manager could
not switch between them. No pod has two budgets, since the Eviction API then refuses every eviction.

Pods without a scale are different: pods of Jobs, pods of operators, and bare pods. Kubernetes does not know their
intended number, and `maxUnavailable` either fails or allows evictions by day (docs/adr/0024). Their budget sets
`minAvailable` to a number that no cluster reaches, and the controller never opens it.

A running flexible pod that is not ready may always be evicted; an unready pod of another category may not while its
budget is closed. See docs/adr/0006 for the reasons.
"""

from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components.ownership import MAX_UNAVAILABLE, FieldOwner, OwnedField, OwnershipTable, hand_over
from components.pods.rules import CLOSED_BUDGET, OPEN_TO_ALL, PodIdentity
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, Category

if TYPE_CHECKING:
    from pulumi_kubernetes.policy.v1 import PodDisruptionBudgetSpecArgsDict

UNHEALTHY_PODS = {
    Category.FLEXIBLE: "AlwaysAllow",  # an unready pod serves no requests, and must not keep its node
    Category.FIXED: "IfHealthyBudget",  # an unready orchestrator may still hold its state
    Category.WORKER: "IfHealthyBudget",  # on an unreachable node the job may still run
}


def closed_budget(
    resource_name: str,
    identity: PodIdentity,
    namespace: pulumi.Input[str],
    *,
    parent: pulumi.Resource,
    table: OwnershipTable | None = None,
    opens: bool = False,
) -> PodDisruptionBudget:
    """Create the budget of one workload or pool, under the same name.

    With `opens` the controller opens the budget, for flexible pods with another replica and for workers whose jobs are
    saved. Pulumi owns all other budgets.
    """
    opts = pulumi.ResourceOptions(parent=parent)
    if opens:
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
        spec={"max_unavailable": CLOSED_BUDGET, **_covering(identity)},
        opts=opts,
    )


def open_budget(
    resource_name: str, identity: PodIdentity, namespace: pulumi.Input[str], *, parent: pulumi.Resource
) -> PodDisruptionBudget:
    """Create the budget of pods on spot nodes: all pods of a node must get the stop signal within its two minutes.

    Its name differs from a closed budget's: under the same name, the former writer of the field would conflict with
    Pulumi. While a change replaces one budget by the other, the pods have two, which refuse every eviction.
    """
    return PodDisruptionBudget(
        resource_name,
        metadata={"name": f"{identity.name}.spot", "namespace": namespace, "labels": identity.labels},
        spec={"max_unavailable": OPEN_TO_ALL, **_covering(identity)},
        opts=pulumi.ResourceOptions(parent=parent),
    )


def budget_without_scale(
    resource_name: str, identity: PodIdentity, namespace: pulumi.Input[str], *, parent: pulumi.Resource
) -> PodDisruptionBudget:
    """Create the budget of pods without a scale. Flexible pods cannot have one: it would open for all at once."""
    if identity.category is Category.FLEXIBLE:
        raise ValueError(
            f"{identity.name}: pods without a scale are fixed or workers, since nothing could open their budget"
        )
    return PodDisruptionBudget(
        resource_name,
        metadata={"name": identity.name, "namespace": namespace, "labels": identity.labels},
        spec={"min_available": CLOSED_MINIMUM, **_covering(identity)},
        opts=pulumi.ResourceOptions(parent=parent),
    )


def open_budget_without_scale(
    resource_name: str, identity: PodIdentity, namespace: pulumi.Input[str], *, parent: pulumi.Resource
) -> PodDisruptionBudget:
    """Create an open budget for pods without a scale whose work is repeatable: on spot nodes all stop at once."""
    return PodDisruptionBudget(
        resource_name,
        metadata={"name": identity.name, "namespace": namespace, "labels": identity.labels},
        spec={"min_available": 0, **_covering(identity)},
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _covering(identity: PodIdentity) -> "PodDisruptionBudgetSpecArgsDict":
    return {
        "selector": {"match_labels": identity.selector},
        "unhealthy_pod_eviction_policy": UNHEALTHY_PODS[identity.category],
    }
