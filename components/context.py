"""The values that all components of one stack share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from components.images import UPSTREAM, ImageSource
from components.ownership import OwnershipTable
from components.pods.egress import OPEN, Egress
from components.pods.secrets import NO_SECRETS, SecretsSource
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class StackContext:
    """The values that a stack's components share. A stack on AWS has a region and tags."""

    customer: str  # on EKS the cluster's name, too
    namespace: pulumi.Input[str] = NAMESPACE
    worker_namespace: pulumi.Input[str] = WORKER_NAMESPACE
    images: ImageSource = UPSTREAM
    egress: Egress = OPEN
    secrets: SecretsSource = NO_SECRETS
    ownership: OwnershipTable | None = None
    on_ebs: bool = False  # True if the cluster has the EBS CSI driver, as all clusters that Ebbtide creates
    cache_host: pulumi.Input[str] | None = None  # ElastiCache's primary endpoint
    region: str = ""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
