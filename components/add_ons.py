"""The add-ons that EKS runs for us, and the storage class that replaces its old default.

Versions are left out: EKS then picks its default for the cluster's version when the add-on is created, and keeps it, so
two previews of one stack agree. What only watches or answers (DNS, the volume controller) goes to fixed nodes: on a
flexible node it would keep that node all night, or be moved in the middle of the day.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_aws.eks import Addon
from pulumi_kubernetes.storage.v1 import StorageClass

from components.iam import PodAccount, granted_role, pod_trust
from ebbtide.vocabulary.labels import NODE_KIND, NodeKind

if TYPE_CHECKING:
    from pulumi_aws.eks import AddonPodIdentityAssociationArgsDict

ON_FIXED_NODES = {NODE_KIND: NodeKind.FIXED.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOnSpec:
    """One add-on; with an account, its pods get a role with `policies`."""

    add_on: str  # as EKS calls it
    configuration: Mapping[str, Any] | None = None
    account: PodAccount | None = None
    policies: Sequence[str] = ()


def cni_configuration(tags: Mapping[str, str]) -> dict[str, Any]:
    """Network policies are enforced, and the network interfaces that the plugin adds to a node carry the cost tags."""
    return {"enableNetworkPolicy": "true", "env": {"ADDITIONAL_ENI_TAGS": json.dumps(dict(tags), sort_keys=True)}}


def dns_configuration() -> dict[str, Any]:
    return {"nodeSelector": ON_FIXED_NODES}


def volume_configuration(tags: Mapping[str, str]) -> dict[str, Any]:
    """Volumes that pods ask for carry the cost tags too."""
    return {"controller": {"nodeSelector": ON_FIXED_NODES, "extraVolumeTags": dict(tags)}}


def install(
    spec: AddOnSpec,
    *,
    name: str,
    cluster_name: pulumi.Input[str],
    tags: Mapping[str, str],
    parent: pulumi.Resource,
) -> Addon:
    """Create the add-on, and before it the role that its pods take."""
    identities: list[AddonPodIdentityAssociationArgsDict] = []
    depends_on: list[pulumi.Resource] = []
    if spec.account is not None:
        granted = granted_role(
            f"{name}-{spec.add_on}", trust=pod_trust(spec.account), policies=spec.policies, tags=tags, parent=parent
        )
        identities = [{"role_arn": granted.role.arn, "service_account": spec.account.service_account}]
        depends_on = [*granted.grants]
    return Addon(
        f"{name}-{spec.add_on}",
        cluster_name=cluster_name,
        addon_name=spec.add_on,
        configuration_values=None if spec.configuration is None else json.dumps(spec.configuration, sort_keys=True),
        pod_identity_associations=identities or None,
        # On a cluster that had been left without them there is nothing of ours to keep.
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        tags=tags,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=depends_on),
    )


@dataclass(frozen=True, kw_only=True)
class ClusterAddOnsArgs:
    name: str  # of the cluster
    cluster_name: pulumi.Input[str]  # the same, known once it exists
    tags: Mapping[str, str]


class ClusterAddOns(pulumi.ComponentResource):
    """DNS and volumes. After the nodes: without one to run on, these add-ons count as failed."""

    def __init__(self, name: str, args: ClusterAddOnsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:ClusterAddOns", name, None, opts)
        volumes = AddOnSpec(
            add_on="aws-ebs-csi-driver",
            configuration=volume_configuration(args.tags),
            account=PodAccount(
                cluster_name=args.name, namespace="kube-system", service_account="ebs-csi-controller-sa"
            ),
            policies=["service-role/AmazonEBSCSIDriverPolicy"],
        )
        for spec in (AddOnSpec(add_on="coredns", configuration=dns_configuration()), volumes):
            install(spec, name=name, cluster_name=args.cluster_name, tags=args.tags, parent=self)
        StorageClass(
            f"{name}-gp3",
            metadata={"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            provisioner="ebs.csi.aws.com",
            parameters={"type": "gp3", "encrypted": "true"},
            volume_binding_mode="WaitForFirstConsumer",  # a volume made earlier may lie in a zone without room
            allow_volume_expansion=True,
            reclaim_policy="Delete",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
