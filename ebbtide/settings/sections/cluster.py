"""The section of the cluster itself."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, Strict

from ebbtide.provisioning_labels import Provisioner
from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.access import Principal, PrivateRange, PublicRange, at_most_forty, viewers_are_no_admins
from ebbtide.settings.sections.checked import Check, Settings, each_once, whole_list
from ebbtide.settings.sections.eks_versions import (
    UNSET_VERSION,
    AddOnName,
    AddOnVersion,
    KubernetesVersion,
    add_ons_of_a_newer_version,
    kube_proxy_follows,
)
from ebbtide.settings.sections.existing import (
    CONTEXT_IS_NAMED,
    ClusterId,
    ContextName,
    NodeLabels,
    NodePoolName,
    names_karpenter,
    node_pools_have_sets,
    shapes_have_selectors,
)
from ebbtide.settings.sections.grammar import choice
from ebbtide.settings.sections.node_groups import PROVISIONERS
from ebbtide.settings.sections.shapes import SetShape
from ebbtide.settings.sections.types import Positive, RetentionDays, ShortName, Zone
from ebbtide.settings.sections.zones import one_way_of_naming

EKS_ARN = r"arn:[\w-]+:eks:(?P<region>[\w-]+):(?P<account>\d{12}):"
"""The begin of an ARN of EKS, as a regular expression."""
CLUSTER_ARN = re.compile(rf"{EKS_ARN}cluster/(?P<name>[\w-]+)")
"""The ARN of an EKS cluster, by which `aws eks update-kubeconfig` names a context."""


class ClusterKind(StrEnum):
    EKS = "eks"
    EXISTING = "existing"


class RayOperatorSource(StrEnum):
    BUNDLED = "bundled"
    EXISTING = "existing"


class SupportType(StrEnum):
    STANDARD = "standard"
    EXTENDED = "extended"


class ControlPlaneTier(StrEnum):
    STANDARD = "standard"
    XL = "tier-xl"
    XL2 = "tier-2xl"
    XL4 = "tier-4xl"
    XL8 = "tier-8xl"


def _two_to_four(zones: Sequence[object]) -> None:
    if len(zones) < 2:
        raise wanted("zones.too-few", "at least two zones, since EKS requires two", example="[a, b]")
    if len(zones) > 4:
        expected = "at most four zones, since each one splits every node group further"
        raise wanted("zones.too-many", expected, found=f"{len(zones)} zones", example="[a, b, c]")


def _zones_of_a_cluster(zones: Sequence[object]) -> None:
    _two_to_four(zones)
    one_way_of_naming(zones)


class ClusterSettings(Settings):
    """The cluster."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("admins", "viewers"), viewers_are_no_admins),
        Check(("version", "add_on_versions"), kube_proxy_follows),
        Check(("version", "add_on_versions"), add_ons_of_a_newer_version),
        CONTEXT_IS_NAMED,
        Check(("node_selectors", "node_shapes"), shapes_have_selectors),
        Check(("node_selectors", "node_pools"), node_pools_have_sets),
    )

    kind: Annotated[ClusterKind, *choice("eks", "existing", planned={})] = Field(
        default=ClusterKind.EKS,
        description="eks: this stack creates the cluster with network and nodes; existing: an existing cluster",
        examples=["existing"],
    )
    context: ContextName | None = Field(
        default=None,
        description="for kind existing: the context in the kubeconfig that pulumi up uses",
        examples=["onprem-gpu"],
    )
    cluster_id: ClusterId | None = Field(
        default=None,
        description="for kind existing: the UID of the namespace kube-system; any other cluster is refused",
        examples=['"3f1c2a9e-6b0d-4c57-9f5e-0a4d8c7b6e21"'],
    )
    node_selectors: dict[ShortName, NodeLabels] = Field(
        default={},
        description="for kind existing: labels of the nodes for fixed, flexible and gpu pods, and further sets by name",
        examples=["{ fixed: { pool: services }, gpu: { pool: gpu } }"],
    )
    node_shapes: dict[ShortName, SetShape] = Field(
        default={},
        description="for kind existing: sizes and number of the nodes of each set in nodeSelectors, for simulate, "
        "preview --trace and advise",
        examples=["{ gpu: { cpu: 15800m, memory: 60Gi, gpu: 1, max: 4 } }"],
    )
    node_pools: dict[
        ShortName, Annotated[tuple[NodePoolName, ...], Field(min_length=1), each_once("NodePool", "[general]")]
    ] = Field(
        default={},
        description="for kind existing: Karpenter's NodePools of each set of nodes; the workload controller writes "
        "their disruption budgets, so that Karpenter moves pods outside business hours only",
        examples=["{ flexible: [general], gpu: [gpu] }"],
    )
    ray_operator: Annotated[RayOperatorSource, *choice(*RayOperatorSource, planned={})] = Field(
        default=RayOperatorSource.BUNDLED,
        description="for kind existing: bundled: the stack brings KubeRay's operator with its Ray clusters; "
        "existing: an existing operator also serves them",
        examples=["existing"],
    )
    parallel_drains: Positive = Field(
        default=5,
        description="nodes that the cluster autoscaler drains at a time, and that Karpenter may disrupt at a time in "
        "each NodePool outside business hours",
        examples=["10"],
    )
    version: KubernetesVersion = Field(
        default=UNSET_VERSION,
        description="Kubernetes version as text, since the number 1.30 is 1.3. A newer version needs "
        "images.autoscaler and every add-on in addOnVersions",
        examples=['"1.36"'],
    )
    zones: Annotated[tuple[Zone, ...], each_once("zone", "[a, b]"), whole_list(_zones_of_a_cluster)] = Field(
        default=("a", "b"),
        description="letters or ids of the availability zones; EKS needs at least two for its own network interfaces",
        examples=["[a, b]", "[use1-az1, use1-az4]"],
    )
    provisioner: Annotated[Provisioner, *PROVISIONERS] = Field(
        default=Provisioner.CLUSTER_AUTOSCALER,
        description="adds and removes the nodes of flexible, gpu and spot groups that name no provisioner: "
        "cluster-autoscaler or karpenter",
        examples=["karpenter"],
    )
    public_access: Annotated[
        tuple[PublicRange, ...], each_once("range", '["203.0.113.0/24"]'), whole_list(at_most_forty)
    ] = Field(
        default=(),
        description="public addresses that may reach the API; default: only the VPC",
        examples=['["203.0.113.0/24"]'],
    )
    private_access: Annotated[
        tuple[PrivateRange, ...], each_once("range", '["10.20.0.0/16"]'), whole_list(at_most_forty)
    ] = Field(
        default=(),
        description="your networks, connected to the VPC, that may reach the API: runners, a VPN",
        examples=['["10.20.0.0/16"]'],
    )
    admins: Annotated[tuple[Principal, ...], each_once("principal", "[arn:aws:iam::123456789012:role/platform]")] = (
        Field(
            default=(),
            description="IAM roles or users with all rights; the role that first ran `pulumi up` always has them",
            examples=["[arn:aws:iam::123456789012:role/platform]"],
        )
    )
    viewers: Annotated[tuple[Principal, ...], each_once("principal", "[arn:aws:iam::123456789012:role/support]")] = (
        Field(
            default=(),
            description="IAM roles or users that may read everything in namespaces except Secrets",
            examples=["[arn:aws:iam::123456789012:role/support]"],
        )
    )
    log_retention_days: RetentionDays = Field(
        default=90,
        description="retention of the control plane's logs in days; CloudWatch accepts certain values only",
        examples=["365"],
    )
    deletion_protection: Annotated[bool, Strict()] = Field(
        default=True,
        description="AWS and Pulumi refuse to delete the cluster; before a destroy, set false and run pulumi up",
        examples=["false"],
    )
    support_type: SupportType = Field(
        default=SupportType.STANDARD,
        description="extended: stay on a version past its standard support, at six times the price per hour",
        examples=["extended"],
    )
    zonal_shift: Annotated[bool, Strict()] = Field(
        default=True,
        description="allow AWS to shift traffic away from an impaired zone",
        examples=["false"],
    )
    control_plane_tier: ControlPlaneTier = Field(
        default=ControlPlaneTier.STANDARD,
        description="standard scales with the load; the other tiers reserve capacity for a price per hour",
        examples=["tier-xl"],
    )
    session_manager: Annotated[bool, Strict()] = Field(
        default=False,
        description="allow operators to open a shell on nodes with AWS Systems Manager",
        examples=["true"],
    )
    add_on_versions: dict[AddOnName, AddOnVersion] = Field(
        default={},
        description="versions of EKS add-ons; default: the versions that this release pins for the cluster's version",
        examples=["{ coredns: v1.12.1-eksbuild.2 }"],
    )

    @property
    def arn(self) -> re.Match[str] | None:
        """Return the ARN that the context is, with its region, account and name."""
        return CLUSTER_ARN.fullmatch(self.context or "")

    def by_karpenter(self, node_set: str) -> bool:
        """True if Karpenter provides the nodes of a set of an existing cluster, by what the stack file says.

        `nodePools` names its NodePools, or `nodeSelectors` selects them by a label that only Karpenter writes.
        """
        return node_set in self.node_pools or names_karpenter(self.node_selectors.get(node_set, {}))
