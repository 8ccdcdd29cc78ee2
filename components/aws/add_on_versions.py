"""The version of each EKS add-on for each Kubernetes minor.

Pinned, so that two `up`s of one release build the same cluster, and an add-on moves when this table does. What a stack
file names in `addOnVersions` comes first. An add-on that stands here without a version is left to EKS: it takes its
default for the cluster's minor when the add-on is made, and keeps it.

The versions are EKS's defaults of May 2026, each of which `aws eks describe-addon-versions` listed for its minor. For
1.36 they are the defaults of October 2026.

Sources, read at that age:

- vpc-cni, kube-proxy, coredns, aws-ebs-csi-driver, metrics-server: wandb/terraform-aws-wandb
  `modules/app_eks/add-ons.tf`, a table by minor of the published defaults. For kube-proxy and coredns 1.35 a second
  public table of all minors agrees.
- eks-pod-identity-agent: that second table, and the defaults for 1.33 that a third team wrote down on 2026-06-05.
- eks-node-monitoring-agent: a public list for 1.35 alone, of May 2026; v1.6.4 is a release of
  aws/eks-node-monitoring-agent of 2026-04-10. For 1.33 and 1.34 no list was found, so EKS chooses.
- 1.36: public logs of runs on EKS 1.36 in September and October 2026; several for vpc-cni, kube-proxy and coredns, one
  for the others.
"""

from collections.abc import Mapping

from ebbtide.settings.sections.eks_versions import AddOn

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
"""By Kubernetes minor. Every minor names every add-on; None leaves the version to EKS."""


def add_on_version(add_on: AddOn, cluster_version: str, asked: Mapping[AddOn, str]) -> str | None:
    """The version to install on a cluster of that minor; `asked` is what the stack file wants instead."""
    return asked.get(add_on) or PINNED[cluster_version][add_on]
