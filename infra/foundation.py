"""What the customer's half of a stack knows of the cluster that it stands on, whoever made that."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, kw_only=True)
class Foundation:
    cluster_name: pulumi.Input[str]
    provider: pulumi.ProviderResource
    ready: Sequence[pulumi.Resource] = ()
    """What must run before a pod of the customer can, and for as long as one does."""
    aws: pulumi.ProviderResource | None = None
    """On EKS alone."""
    cache_host: pulumi.Input[str] | None = None
    """Of the Redis that AWS runs, where the file asks for one."""
    definitions: pulumi.ProviderResource | None = None
    """On EKS, where a part brings kinds of objects: it takes over those that such a part left."""
    transformations: Sequence[pulumi.ResourceTransformation] = ()
    """What becomes of every object of the customer's half, on a cluster that names its nodes in its own way."""
