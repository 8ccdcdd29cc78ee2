"""The components of a customer's stack: a cluster, and the in-cluster half on it.

The cluster is created on EKS (`infra.eks`) or exists (`components.cluster.existing`). The in-cluster half
(`infra.customer`) is the same on both.
"""

from dataclasses import dataclass, replace

import pulumi

from components.cluster.existing import ExistingCluster, ExistingClusterArgs, placement
from components.context import StackContext
from components.ownership import OwnershipTable
from components.pods.secrets import StackSecrets
from ebbtide.settings.model import StackSettings
from infra.customer import NewToken, Password, customer_half, stack_context
from infra.site import Foundation


@dataclass(frozen=True, kw_only=True)
class Stack:
    """The values that the program exports, and values for a team's own resources."""

    settings: StackSettings
    cluster_name: pulumi.Input[str]
    provider: pulumi.ProviderResource
    """The Kubernetes provider of the cluster."""
    aws: pulumi.ProviderResource | None
    """The AWS provider; only on EKS."""
    context: StackContext
    """The namespaces, images and tags of the stack, as its components receive them."""
    controller: pulumi.Resource
    """The scaler. A resource that depends on it is created after namespaces, Redis, workloads and pools."""
    ownership: OwnershipTable
    controller_document: pulumi.Output[str]


def compose(
    settings: StackSettings,
    *,
    redis_password: Password = None,
    secrets: StackSecrets | None = None,
    new_token: NewToken = lambda: "",
) -> Stack:
    """Build all resources of one customer. `new_token` returns a random token; a rendering has none."""
    ownership = OwnershipTable()
    stack = stack_context(settings, ownership, secrets)
    cluster = _foundation(settings, stack, redis_password)
    stack = replace(stack, on_ebs=cluster.aws is not None, cache_host=cluster.cache_host)
    context, controller = customer_half(settings, cluster, stack, redis_password, new_token)
    return Stack(
        settings=settings,
        cluster_name=cluster.cluster_name,
        provider=cluster.provider,
        aws=cluster.aws,
        context=context,
        controller=controller,
        ownership=ownership,
        controller_document=controller.document,
    )


def _foundation(settings: StackSettings, stack: StackContext, redis_password: Password) -> Foundation:
    context = settings.cluster.context
    if context is not None:
        return _existing(settings, stack, context)
    from infra.eks import eks_foundation  # imported here: a stack on an existing cluster runs without pulumi_aws

    return eks_foundation(settings, stack, redis_password)


def _existing(settings: StackSettings, stack: StackContext, context: str) -> Foundation:
    args = ExistingClusterArgs(stack=stack, context=context, cluster_id=settings.cluster.cluster_id)
    provider = ExistingCluster("cluster", args).provider
    selectors = settings.cluster.node_selectors
    return Foundation(cluster_name=context, provider=provider, transformations=[placement(selectors)])
