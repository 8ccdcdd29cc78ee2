"""The services of AWS that a cluster's nodes and system pods call: what a network without a way out must still reach.

Source: "Deploy private clusters with limited internet access", awsdocs/amazon-eks-user-guide,
`latest/ug/clusters/private-clusters.adoc`. Two things of that page are not followed:

- Load balancers have an endpoint there. The only caller inside the VPC would be a load balancer controller, and Ebbtide
  installs none.
- It wants the cluster autoscaler's built-in list of instance types, from when the autoscaler read a price list on the
  internet. It asks EC2 since. (Source: kubernetes/autoscaler, `cluster-autoscaler/cloudprovider/aws/aws_util.go`.)
"""

from collections.abc import Mapping

CALLED: Mapping[str, str] = {
    "ec2": "a node finds its own name; the network and volume add-ons attach interfaces and volumes",
    "ecr.api": "the node proves who it is to the image registry",
    "ecr.dkr": "the node pulls images; their layers come from S3, through the gateway endpoint",
    "eks": "the cluster autoscaler reads what an empty node group would look like",
    "eks-auth": "pods get their roles by Pod Identity",
    "sts": "whoever takes a role, and `aws eks get-token` run inside the network",
    "autoscaling": "the cluster autoscaler reads and resizes groups",
    "logs": "agents that ship logs to CloudWatch",
}

FOR_SHELLS = ("ssm", "ssmmessages")
"""For shells on nodes. `ec2messages` is for agents before 3.3.40 alone, older than the AMIs of any version we run.
(Source: AWS Systems Manager user guide, "Improve the security of EC2 instances by using VPC endpoints".)"""


def called_services(*, session_manager: bool) -> tuple[str, ...]:
    """By the last part of their endpoint's name."""
    return (*CALLED, *(FOR_SHELLS if session_manager else ()))
