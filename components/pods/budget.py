"""PodDisruptionBudgets: one for every workload, created closed.

Exceptions are created open: workers with checkpoints and variants of services on spot nodes.

A budget sets `maxUnavailable`. A budget with both `maxUnavailable` and `minAvailable` is invalid, so a manager could
not switch between them. No pod has two budgets, since the Eviction API then refuses every eviction.

Pods without a scale are different: pods of Jobs, pods of operators, and bare pods. Kubernetes does not know their
intended number, and `maxUnavailable` either fails or lets a pod be evicted by day (docs/adr/0024). Their budget sets
`minAvailable` to a number that no cluster reaches, and the controller never opens it.

A running pod that is not ready may always be evicted if it is flexible; other pods may not while their budget is
closed. See docs/adr/0006 for the reasons.
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
    opens: bool = False,
) -> PodDisruptionBudget:
    """The budget of one workload or pool, named like it. Where it `opens`, it is the controller's to open: of flexible
    pods that somebody stands in for, and of workers whose jobs are saved. Others stay Pulumi's.
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
    """Of pods on spot nodes that must be told to stop: all those of a node are, within its two minutes.

    Its name is another than that of the closed one: whoever had written that one's field would be in conflict with
    Pulumi, and while a change brings both, two budgets on one pod refuse every eviction.
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
    """The budget of pods that nothing counts. Not for flexible ones: a whole number opens it for all at once."""
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
    """Of pods that nothing counts and whose work may run again: on spot nodes all of them are told at once."""
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
