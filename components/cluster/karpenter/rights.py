"""Karpenter's rights, on AWS and in the cluster. Pure.

On AWS it may launch instances in the stack's subnets with the cluster's security group, and may change only instances
and launch templates that it tagged itself, for this cluster. Pulumi creates the instance profile, so Karpenter changes
nothing in IAM and may pass only the nodes' role. It reads instance profiles because the deletion of an EC2NodeClass
looks for profiles of earlier releases.

In the cluster it has all rights of its chart but one: it may not delete pods. It would delete a pod only at the end of
a `terminationGracePeriod`, and then despite budgets.

Sources: aws/karpenter-provider-aws v1.14.1, `getting-started-with-karpenter/cloudformation.yaml` and
`charts/karpenter/templates`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.aws.iam import Document

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

LEASE = "karpenter-leader-election"

_READ = ["get", "list", "watch"]
_LAUNCH = ["ec2:CreateFleet", "ec2:RunInstances"]
_LAUNCHED = ("fleet", "instance", "launch-template", "network-interface", "spot-instances-request", "volume")
_POOL = "karpenter.sh/nodepool"
_CLUSTER = "eks:eks-cluster-name"

CLUSTER_RULES: "list[PolicyRuleArgsDict]" = [
    {
        "api_groups": ["karpenter.sh"],
        "resources": ["nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status"],
        "verbs": [*_READ, "update", "patch"],
    },
    {"api_groups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["create", "delete"]},
    {"api_groups": ["karpenter.sh"], "resources": ["nodeoverlays", "nodeoverlays/status"], "verbs": _READ},
    {
        "api_groups": ["karpenter.k8s.aws"],
        "resources": ["ec2nodeclasses", "ec2nodeclasses/status"],
        "verbs": [*_READ, "update", "patch"],
    },
    {"api_groups": ["autoscaling.x-k8s.io"], "resources": ["capacitybuffers"], "verbs": _READ},
    {"api_groups": [""], "resources": ["nodes"], "verbs": [*_READ, "delete", "patch", "update"]},
    {
        "api_groups": [""],
        "resources": [
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podtemplates",
            "replicationcontrollers",
        ],
        "verbs": _READ,
    },
    {"api_groups": [""], "resources": ["events"], "verbs": [*_READ, "create", "patch"]},
    {"api_groups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"api_groups": ["apps"], "resources": ["daemonsets", "deployments", "replicasets", "statefulsets"], "verbs": _READ},
    {"api_groups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _READ},
    {
        "api_groups": ["storage.k8s.io"],
        "resources": ["csinodes", "storageclasses", "volumeattachments"],
        "verbs": _READ,
    },
]

NAMESPACE_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "watch"]},
    {
        "api_groups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resource_names": [LEASE],
        "verbs": ["patch", "update"],
    },
    {"api_groups": [""], "resources": ["services"], "resource_names": ["kube-dns"], "verbs": ["get"]},
]


@dataclass(frozen=True, kw_only=True)
class CloudScope:
    """The resources that Karpenter's rights are limited to."""

    cluster: str
    region: str
    account: str
    node_role: str  # ARN
    queue: str  # ARN
    subnets: Sequence[str]
    security_group: str


def cloud_rights(scope: CloudScope) -> Document:
    return {"Version": "2012-10-17", "Statement": [*_launch(scope), *_change_own(scope), *_read(scope)]}


def _launch(scope: CloudScope) -> Iterator[Mapping[str, Any]]:
    yield _allow(
        "LaunchInOwnNetwork",
        _LAUNCH,
        [
            f"arn:aws:ec2:{scope.region}::image/*",
            f"arn:aws:ec2:{scope.region}::snapshot/*",
            *(_arn(scope, f"subnet/{subnet}") for subnet in scope.subnets),
            _arn(scope, f"security-group/{scope.security_group}"),
        ],
    )
    yield _allow("LaunchFromOwnTemplates", _LAUNCH, [_arn(scope, "launch-template/*")], _of_this_cluster(scope))
    tagged = {
        "StringEquals": {
            f"aws:RequestTag/kubernetes.io/cluster/{scope.cluster}": "owned",
            f"aws:RequestTag/{_CLUSTER}": scope.cluster,
        },
        "StringLike": {f"aws:RequestTag/{_POOL}": "*"},
    }
    created = [_arn(scope, f"{kind}/*") for kind in _LAUNCHED]
    yield _allow("LaunchWithTags", [*_LAUNCH, "ec2:CreateLaunchTemplate"], created, tagged)
    actions = {"ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]}
    at_creation = {**tagged, "StringEquals": {**tagged["StringEquals"], **actions}}
    yield _allow("TagAtLaunch", ["ec2:CreateTags"], created, at_creation)
    to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    yield _allow("PassNodeRole", ["iam:PassRole"], [scope.node_role], to_ec2)


def _change_own(scope: CloudScope) -> Iterator[Mapping[str, Any]]:
    instances = _arn(scope, "instance/*")
    yield _allow(
        "NameOwnInstances",
        ["ec2:CreateTags"],
        [instances],
        {
            **_of_this_cluster(scope),
            "StringEqualsIfExists": {f"aws:RequestTag/{_CLUSTER}": scope.cluster},
            "ForAllValues:StringEquals": {"aws:TagKeys": [_CLUSTER, "karpenter.sh/nodeclaim", "Name"]},
        },
    )
    yield _allow(
        "EndOwnInstances",
        ["ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"],
        [instances, _arn(scope, "launch-template/*")],
        _of_this_cluster(scope),
    )
    yield _allow("Interruptions", ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"], [scope.queue])


def _read(scope: CloudScope) -> Iterator[Mapping[str, Any]]:
    described = (
        "CapacityReservations",
        "Images",
        "InstanceStatus",
        "InstanceTypeOfferings",
        "InstanceTypes",
        "Instances",
        "LaunchTemplates",
        "PlacementGroups",
        "SecurityGroups",
        "SpotPriceHistory",
        "Subnets",
    )
    here = {"StringEquals": {"aws:RequestedRegion": scope.region}}
    yield _allow("Look", [f"ec2:Describe{kind}" for kind in described], ["*"], here)
    cluster = f"arn:aws:eks:{scope.region}:{scope.account}:cluster/{scope.cluster}"
    yield _allow("LookAtCluster", ["eks:DescribeCluster"], [cluster])
    yield _allow("LookAtImages", ["ssm:GetParameter"], [f"arn:aws:ssm:{scope.region}::parameter/aws/service/*"])
    yield _allow("LookAtPricesAndProfiles", ["pricing:GetProducts", "iam:ListInstanceProfiles"], ["*"])
    yield _allow("LookAtOneProfile", ["iam:GetInstanceProfile"], [f"arn:aws:iam::{scope.account}:instance-profile/*"])


def _of_this_cluster(scope: CloudScope) -> dict[str, Any]:
    return {
        "StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{scope.cluster}": "owned"},
        "StringLike": {f"aws:ResourceTag/{_POOL}": "*"},
    }


def _arn(scope: CloudScope, resource: str) -> str:
    return f"arn:aws:ec2:{scope.region}:*:{resource}"


def _allow(
    sid: str, actions: Sequence[str], resources: Sequence[str], condition: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    statement = {"Sid": sid, "Effect": "Allow", "Action": [*actions], "Resource": [*resources]}
    return statement if condition is None else {**statement, "Condition": condition}


def queue_policy(queue: str, rules: Sequence[str]) -> Document:
    """Return the queue's policy: only these EventBridge rules may send, and only over TLS."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "Rules",
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": queue,
                "Condition": {"ArnEquals": {"aws:SourceArn": [*rules]}},
            },
            {
                "Sid": "EncryptedOnly",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": queue,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    }
