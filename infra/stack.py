"""Which components a customer gets: a foundation, and the customer's half upon it.

The foundation is a cluster on EKS with all that it needs (`infra.eks`), or one that is there already
(`components.cluster.existing`). The customer's half (`infra.customer`) is the same on both.
"""

from dataclasses import dataclass

import pulumi

from components import ExistingCluster, ExistingClusterArgs, OwnershipTable
from components.aws.savings import cost_tags
from components.cluster.existing import placement
from components.pods.secrets import StackSecrets
from ebbtide.settings.model import StackSettings
from infra.customer import NewToken, Password, customer_half
from infra.foundation import Foundation


@dataclass(frozen=True, kw_only=True)
class Stack:
    """What the program exports."""

    cluster_name: pulumi.Input[str]
    ownership: OwnershipTable
    controller_document: pulumi.Output[str]


def compose(
    settings: StackSettings,
    *,
    redis_password: Password = None,
    secrets: StackSecrets | None = None,
    new_token: NewToken = lambda: "",
) -> Stack:
    """Build the whole stack of one customer. `new_token` makes one that nobody guesses; a rendering has none."""
    ownership = OwnershipTable()
    on = _foundation(settings, ownership, redis_password)
    document = customer_half(settings, on, ownership, redis_password, secrets, new_token)
    return Stack(cluster_name=on.cluster_name, ownership=ownership, controller_document=document)


def _foundation(settings: StackSettings, ownership: OwnershipTable, redis_password: Password) -> Foundation:
    context = settings.cluster.context
    if context is not None:
        return _existing(settings, context)
    from infra.eks import eks_foundation  # a cluster that is there already needs nothing of AWS, not even its SDK

    return eks_foundation(settings, cost_tags(settings), ownership, redis_password)


def _existing(settings: StackSettings, context: str) -> Foundation:
    selectors = settings.cluster.node_selectors
    cluster = ExistingCluster(
        "cluster",
        ExistingClusterArgs(name=settings.customer, context=context, cluster_id=settings.cluster.cluster_id),
    )
    return Foundation(cluster_name=context, provider=cluster.provider, transformations=[placement(selectors)])
