"""The cluster, as the in-cluster half of a stack sees it, created or existing."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, kw_only=True)
class Foundation:
    cluster_name: pulumi.Input[str]
    provider: pulumi.ProviderResource
    ready: Sequence[pulumi.Resource] = ()
    """Resources that must exist for as long as the customer has pods, such as nodes and add-ons."""
    aws: pulumi.ProviderResource | None = None
    """The AWS provider; only on EKS."""
    cache_host: pulumi.Input[str] | None = None
    """The address of ElastiCache, if the stack file asks for it."""
    definitions: pulumi.ProviderResource | None = None
    """The provider of CustomResourceDefinitions, on EKS. It takes over definitions that an earlier part left behind."""
    transformations: Sequence[pulumi.ResourceTransformation] = ()
    """Applied to every object of the in-cluster half, on a cluster with its own node labels."""
