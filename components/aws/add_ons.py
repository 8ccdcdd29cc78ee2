"""The EKS add-ons with their versions, and the StorageClass that replaces EKS's default.

**Order.** Without the add-ons of `before_nodes` no node becomes ready; those of `after_nodes` count as failed until a
node can run their pods.

**Placement.** Pods that only watch or answer (DNS, the volume controller, metrics) run on fixed nodes: on a flexible
node they would keep that node all night, or be moved during the day. Pods that run on every node tolerate every taint
by default, except the GPU part of the node monitoring agent.

**Trap.** EKS validates a configuration against the schema of the add-on's version and refuses unknown fields. So this
module sets nothing whose default is right: coredns and the volume controller, for example, already have budgets that
allow one eviction at a time, which is what the drain of a fixed node needs. A moment without metrics does no harm.
Sources for the schemas: aws/aws-ebs-csi-driver `charts/aws-ebs-csi-driver/values.schema.json` at v1.59.0,
aws/eks-node-monitoring-agent `charts/configuration.schema.json` at v1.6.4, the answer of `aws eks
describe-addon-configuration` for coredns, and kubernetes-sigs/metrics-server's chart.

**Versions** are pinned for each Kubernetes minor, so that two `up`s of one release build the same cluster. The stack
file's `addOnVersions` take precedence. For an add-on without a version here EKS chooses its default for the cluster's
minor when the add-on is created, and keeps it. The versions are EKS's defaults of May 2026, each of which `aws eks
describe-addon-versions` listed for its minor. For 1.36 they are the defaults of October 2026.

Sources of the versions, read at that time:

- vpc-cni, kube-proxy, coredns, aws-ebs-csi-driver, metrics-server: wandb/terraform-aws-wandb
  `modules/app_eks/add-ons.tf`, a table by minor of the published defaults. For kube-proxy and coredns 1.35 a second
  public table of all minors agrees.
- eks-pod-identity-agent: that second table, and the defaults for 1.33 that a third team wrote down on 2026-06-05.
- eks-node-monitoring-agent: a public list of May 2026, for 1.35 only; v1.6.4 is a release of
  aws/eks-node-monitoring-agent of 2026-04-10. For 1.33 and 1.34 no list was found, so EKS chooses.
- 1.36: public logs of runs on EKS 1.36 in September and October 2026; several for vpc-cni, kube-proxy and coredns, one
  for the others.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_aws.eks import Addon
from pulumi_kubernetes.storage.v1 import StorageClass

from components.aws.iam import PodAccount, granted_role, pod_trust
from components.context import StackContext
from ebbtide.kube.taints import ANY_GPU_TAINT
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.cluster import ClusterSettings
from ebbtide.settings.sections.eks_versions import AddOn
from ebbtide.vocabulary.labels import NODE_KIND

if TYPE_CHECKING:
    from pulumi_aws.eks import AddonPodIdentityAssociationArgsDict

_UP_TO_1_35 = {
    AddOn.POD_IDENTITY_AGENT: "v1.3.10-eksbuild.3",
    AddOn.EBS_CSI_DRIVER: "v1.59.0-eksbuild.1",
    AddOn.METRICS_SERVER: "v0.8.1-eksbuild.6",
}

PINNED: Mapping[str, Mapping[AddOn, str | None]] = {
    "1.33": {
        **_UP_TO_1_35,
        AddOn.VPC_CNI: "v1.20.5-eksbuild.1",
        AddOn.KUBE_PROXY: "v1.33.10-eksbuild.2",
        AddOn.COREDNS: "v1.12.4-eksbuild.10",
        AddOn.NODE_MONITORING_AGENT: None,
    },
    "1.34": {
        **_UP_TO_1_35,
        AddOn.VPC_CNI: "v1.20.5-eksbuild.1",
        AddOn.KUBE_PROXY: "v1.34.6-eksbuild.2",
        AddOn.COREDNS: "v1.12.4-eksbuild.10",
        AddOn.NODE_MONITORING_AGENT: None,
    },
    "1.35": {
        **_UP_TO_1_35,
        AddOn.VPC_CNI: "v1.21.1-eksbuild.1",
        AddOn.KUBE_PROXY: "v1.35.3-eksbuild.2",
        AddOn.COREDNS: "v1.13.2-eksbuild.4",
        AddOn.NODE_MONITORING_AGENT: "v1.6.4-eksbuild.1",
    },
    "1.36": {
        AddOn.POD_IDENTITY_AGENT: "v1.3.10-eksbuild.3",
        AddOn.EBS_CSI_DRIVER: "v1.66.0-eksbuild.1",
        AddOn.METRICS_SERVER: "v0.9.0-eksbuild.11",
        AddOn.VPC_CNI: "v1.22.4-eksbuild.3",
        AddOn.KUBE_PROXY: "v1.36.0-eksbuild.25",
        AddOn.COREDNS: "v1.14.3-eksbuild.23",
        AddOn.NODE_MONITORING_AGENT: "v1.7.2-eksbuild.1",
    },
}
"""Add-on versions by Kubernetes minor. Every minor lists every add-on; with None, EKS chooses the version."""


def add_on_version(add_on: AddOn, cluster_version: str, overrides: Mapping[AddOn, str]) -> str | None:
    """Return the version to install on a cluster of that minor; `overrides`: the stack file's versions."""
    return overrides.get(add_on) or PINNED[cluster_version][add_on]


ON_FIXED_NODES = {NODE_KIND: NodeKind.FIXED.value}
REPLICAS = 2
"""One replica answers while the other is moved. The add-ons have two by default, which `up` must not lower."""

_ACROSS_ZONES = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOnSpec:
    """One add-on. With an account, its pods get a role with `policies`."""

    add_on: AddOn
    version: str | None  # None: EKS chooses
    configuration: Mapping[str, Any] | None = None
    account: PodAccount | None = None
    policies: Sequence[str] = ()


def before_nodes(name: str, settings: ClusterSettings, tags: Mapping[str, str]) -> tuple[AddOnSpec, ...]:
    """Pod identity and service addresses come before the network plugin, which needs both."""
    return (
        _spec(settings, AddOn.KUBE_PROXY),
        _spec(settings, AddOn.POD_IDENTITY_AGENT),
        _spec(
            settings,
            AddOn.VPC_CNI,
            configuration=cni_configuration(tags),
            account=_system_account(name, "aws-node"),
            policies=["AmazonEKS_CNI_Policy"],
        ),
    )


def after_nodes(name: str, settings: ClusterSettings, tags: Mapping[str, str]) -> tuple[AddOnSpec, ...]:
    return (
        _spec(settings, AddOn.COREDNS, configuration=dns_configuration()),
        _spec(
            settings,
            AddOn.EBS_CSI_DRIVER,
            configuration=volume_configuration(tags),
            account=_system_account(name, "ebs-csi-controller-sa"),
            policies=["service-role/AmazonEBSCSIDriverPolicy"],
        ),
        _spec(settings, AddOn.METRICS_SERVER, configuration=metrics_configuration()),
        _spec(settings, AddOn.NODE_MONITORING_AGENT, configuration=monitoring_configuration()),
    )


def cni_configuration(tags: Mapping[str, str]) -> dict[str, Any]:
    """Enforce network policies, and put the cost tags on the network interfaces that the plugin adds to a node.

    A node takes addresses in prefixes of /28, so that it can run as many pods as its launch template allows. One prefix
    is kept in reserve: without it the first pods of a new node wait for a call to EC2.
    """
    return {
        "enableNetworkPolicy": "true",
        "env": {
            "ADDITIONAL_ENI_TAGS": json.dumps(dict(tags), sort_keys=True),
            "ENABLE_PREFIX_DELEGATION": "true",
            "WARM_PREFIX_TARGET": "1",
        },
    }


def dns_configuration() -> dict[str, Any]:
    return {
        "nodeSelector": ON_FIXED_NODES,
        "replicaCount": REPLICAS,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": _ACROSS_ZONES,
                "whenUnsatisfiable": "ScheduleAnyway",  # a single fixed node runs both replicas, and none is pending
                "labelSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            }
        ],
    }


def volume_configuration(tags: Mapping[str, str]) -> dict[str, Any]:
    """Put the cost tags on the volumes that pods claim, too."""
    return {
        "controller": {
            "nodeSelector": ON_FIXED_NODES,
            "replicaCount": REPLICAS,
            "extraVolumeTags": dict(tags),
            # The chart adds the selector of its pods.
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": _ACROSS_ZONES, "whenUnsatisfiable": "ScheduleAnyway"}
            ],
        }
    }


def metrics_configuration() -> dict[str, Any]:
    return {"nodeSelector": ON_FIXED_NODES, "replicas": REPLICAS}


def monitoring_configuration() -> dict[str, Any]:
    """Let the GPU part of the agent run on GPU nodes: by default it does not tolerate their taint."""
    return {"dcgmAgent": {"tolerations": [ANY_GPU_TAINT.document]}}


def install(
    spec: AddOnSpec,
    *,
    name: str,
    cluster_name: pulumi.Input[str],
    tags: Mapping[str, str],
    parent: pulumi.Resource,
) -> Addon:
    """Create the role that the add-on's pods assume, then the add-on."""
    identities: list[AddonPodIdentityAssociationArgsDict] = []
    depends_on: list[pulumi.Resource] = []
    if spec.account is not None:
        granted = granted_role(
            f"{name}-{spec.add_on.value}",
            trust=pod_trust(spec.account),
            policies=spec.policies,
            tags=tags,
            parent=parent,
        )
        identities = [{"role_arn": granted.role.arn, "service_account": spec.account.service_account}]
        depends_on = [*granted.grants]
    return Addon(
        f"{name}-{spec.add_on.value}",
        cluster_name=cluster_name,
        addon_name=spec.add_on.value,
        addon_version=spec.version,
        configuration_values=None if spec.configuration is None else json.dumps(spec.configuration, sort_keys=True),
        pod_identity_associations=identities or None,
        # The cluster was created without add-ons, so there are no changes to preserve.
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        tags=tags,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=depends_on),
    )


@dataclass(frozen=True, kw_only=True)
class ClusterAddOnsArgs:
    stack: StackContext
    cluster_name: pulumi.Input[str]  # known once the cluster exists
    settings: ClusterSettings


class ClusterAddOns(pulumi.ComponentResource):
    """Add-ons for DNS, volumes, metrics and node health. They follow the nodes: without nodes they count as failed."""

    def __init__(self, name: str, args: ClusterAddOnsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:ClusterAddOns", name, None, opts)
        for spec in after_nodes(args.stack.customer, args.settings, args.stack.tags):
            install(spec, name=name, cluster_name=args.cluster_name, tags=args.stack.tags, parent=self)
        StorageClass(
            f"{name}-gp3",
            metadata={"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            provisioner="ebs.csi.aws.com",
            parameters={"type": "gp3", "encrypted": "true"},
            volume_binding_mode="WaitForFirstConsumer",  # a volume created earlier may be in a zone without capacity
            allow_volume_expansion=True,
            reclaim_policy="Delete",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def _spec(
    settings: ClusterSettings,
    add_on: AddOn,
    *,
    configuration: Mapping[str, Any] | None = None,
    account: PodAccount | None = None,
    policies: Sequence[str] = (),
) -> AddOnSpec:
    version = add_on_version(add_on, settings.version, settings.add_on_versions)
    return AddOnSpec(add_on=add_on, version=version, configuration=configuration, account=account, policies=policies)


def _system_account(cluster_name: str, service_account: str) -> PodAccount:
    return PodAccount(cluster_name=cluster_name, namespace="kube-system", service_account=service_account)
