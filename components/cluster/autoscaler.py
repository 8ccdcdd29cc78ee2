"""The cluster autoscaler: adds nodes for pending pods, and drains nodes whose pods may be evicted.

Its rights on AWS end at the Auto Scaling groups of this cluster, by the tags that EKS puts on them. In the cluster it
may evict and taint; it cannot delete a pod, change a workload or read a Secret.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_aws.iam import RolePolicy
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, ServiceAccount
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget
from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding

from components.aws.add_ons import ON_FIXED_NODES
from components.aws.iam import Document, PodAccount, associate, granted_role, pod_trust
from components.cluster.autoscaler_settings import CONFIG_MAP, KEY, autoscaler_flags, autoscaler_image, priorities
from components.context import StackContext
from components.pods.egress import ca_bundle
from components.pods.rules import CLUSTER_CRITICAL, OLD_POD_FIRST, container_security, resources
from ebbtide.provisioning_labels import CUSTOMER, SAFE_TO_EVICT
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.labels import WORKLOAD

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict, SubjectArgsDict

NAME = "cluster-autoscaler"
NAMESPACE = "kube-system"

_READ = ["get", "list", "watch"]

# The autoscaler runs the scheduler's code against a copy of the cluster, so it reads many kinds of objects.
CLUSTER_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"api_groups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"api_groups": [""], "resources": ["pods/status"], "verbs": ["update"]},
    {"api_groups": [""], "resources": ["nodes"], "verbs": [*_READ, "update"]},
    {
        "api_groups": [""],
        "resources": [
            "namespaces",
            "pods",
            "services",
            "replicationcontrollers",
            "persistentvolumeclaims",
            "persistentvolumes",
        ],
        "verbs": _READ,
    },
    {"api_groups": ["apps"], "resources": ["daemonsets", "replicasets", "statefulsets"], "verbs": _READ},
    {"api_groups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": _READ},
    {"api_groups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _READ},
    {
        "api_groups": ["storage.k8s.io"],
        "resources": ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
        "verbs": _READ,
    },
    {
        "api_groups": ["resource.k8s.io"],
        "resources": ["deviceclasses", "resourceclaims", "resourceslices"],
        "verbs": _READ,
    },
]

NAMESPACE_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "api_groups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resource_names": [NAME],
        "verbs": ["get", "update"],
    },
    {"api_groups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "watch"]},
    {
        "api_groups": [""],
        "resources": ["configmaps"],
        "resource_names": ["cluster-autoscaler-status"],
        "verbs": ["get", "update", "delete"],
    },
]


def cloud_rights(cluster_name: str) -> Document:
    """Return rights to read everything and to change only the groups with this cluster's tag."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "Look",
                "Effect": "Allow",
                "Action": [
                    "autoscaling:DescribeAutoScalingGroups",
                    "autoscaling:DescribeAutoScalingInstances",
                    "autoscaling:DescribeLaunchConfigurations",
                    "autoscaling:DescribeScalingActivities",
                    "autoscaling:DescribeTags",
                    "ec2:DescribeImages",
                    "ec2:DescribeInstanceTypes",
                    "ec2:DescribeLaunchTemplateVersions",
                    "ec2:GetInstanceTypesFromInstanceRequirements",
                ],
                "Resource": "*",
            },
            {
                "Sid": "LookAtGroups",
                "Effect": "Allow",
                "Action": ["eks:DescribeNodegroup"],
                "Resource": f"arn:aws:eks:*:*:nodegroup/{cluster_name}/*/*",
            },
            {
                "Sid": "ChangeOwnGroups",
                "Effect": "Allow",
                "Action": ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
                "Resource": "*",
                "Condition": {
                    "StringEquals": {
                        "aws:ResourceTag/k8s.io/cluster-autoscaler/enabled": "true",
                        f"aws:ResourceTag/k8s.io/cluster-autoscaler/{cluster_name}": "owned",
                    }
                },
            },
        ],
    }


@dataclass(frozen=True, kw_only=True)
class AutoscalerArgs:
    stack: StackContext
    image: str
    flags: Mapping[str, str]
    priorities: str  # of the groups, for the expander


def autoscaler_args(settings: StackSettings, stack: StackContext) -> AutoscalerArgs:
    return AutoscalerArgs(
        stack=stack,
        image=settings.images.autoscaler or stack.images.of(autoscaler_image(settings.cluster.version)),
        flags=autoscaler_flags(settings),
        priorities=priorities(settings.autoscaled_groups, settings.cluster.zones),
    )


class Autoscaler(pulumi.ComponentResource):
    """One replica on a fixed node. While it is down, the number of nodes does not change, and nothing breaks."""

    def __init__(self, name: str, args: AutoscalerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Autoscaler", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        self._labels = {WORKLOAD: NAME, CUSTOMER: args.stack.customer}
        bundle = ca_bundle(f"{name}-ca-bundle", args.stack.egress, NAMESPACE, parent=self)
        self._deployment(after=[*self._cloud_role(), *self._cluster_roles(), *bundle, self._order_of_groups()])
        PodDisruptionBudget(
            f"{name}-budget",
            metadata={"name": NAME, "namespace": NAMESPACE, "labels": self._labels},
            # Open: with one replica a closed budget would block every upgrade of its node.
            spec={"max_unavailable": 1, "selector": {"match_labels": {WORKLOAD: NAME}}},
            opts=self._child,
        )
        self.register_outputs({})

    def _cloud_role(self) -> Sequence[pulumi.Resource]:
        args = self._args
        account = PodAccount(cluster_name=args.stack.customer, namespace=NAMESPACE, service_account=NAME)
        granted = granted_role(
            f"{self._name}-role", trust=pod_trust(account), policies=[], tags=args.stack.tags, parent=self
        )
        policy = RolePolicy(
            f"{self._name}-rights",
            role=granted.role.name,
            policy=json.dumps(cloud_rights(args.stack.customer)),
            opts=self._child,
        )
        identity = associate(f"{self._name}-identity", account, granted.role.arn, tags=args.stack.tags, parent=self)
        return [policy, identity]

    def _cluster_roles(self) -> Sequence[pulumi.Resource]:
        meta: ObjectMetaArgsDict = {"name": NAME, "labels": self._labels}
        local_meta = self._meta()
        account = ServiceAccount(f"{self._name}-account", metadata=local_meta, opts=self._child)
        subject: SubjectArgsDict = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
        role = ClusterRole(f"{self._name}-cluster-role", metadata=meta, rules=CLUSTER_RULES, opts=self._child)
        local = Role(f"{self._name}-role", metadata=local_meta, rules=NAMESPACE_RULES, opts=self._child)
        return [
            account,
            ClusterRoleBinding(
                f"{self._name}-cluster-role",
                metadata=meta,
                role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
                subjects=[subject],
                opts=pulumi.ResourceOptions(parent=self, depends_on=[role]),
            ),
            RoleBinding(
                f"{self._name}-role",
                metadata=local_meta,
                role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
                subjects=[subject],
                opts=pulumi.ResourceOptions(parent=self, depends_on=[local]),
            ),
        ]

    def _order_of_groups(self) -> pulumi.Resource:
        return ConfigMap(
            f"{self._name}-priorities",
            metadata={"name": CONFIG_MAP, "namespace": NAMESPACE, "labels": self._labels},
            data={KEY: self._args.priorities},
            opts=self._child,
        )

    def _deployment(self, *, after: Sequence[pulumi.Resource]) -> None:
        Deployment(
            f"{self._name}-deployment",
            metadata=self._meta(),
            spec={
                "replicas": 1,
                "strategy": OLD_POD_FIRST,
                "revision_history_limit": 3,
                "selector": {"match_labels": {WORKLOAD: NAME}},
                "template": {
                    # The autoscaler must not evict itself while it drains nodes.
                    "metadata": {"labels": self._labels, "annotations": {SAFE_TO_EVICT: "false"}},
                    "spec": self._args.stack.images.pulled(self._args.stack.egress.through(self._pod())),
                },
            },
            # A pod that starts before its role is associated never gets it.
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )

    def _pod(self) -> "PodSpecArgsDict":
        return {
            "service_account_name": NAME,
            "node_selector": ON_FIXED_NODES,
            "priority_class_name": CLUSTER_CRITICAL,
            "security_context": {
                "run_as_non_root": True,
                "run_as_user": 65534,
                "run_as_group": 65534,
                "seccomp_profile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": NAME,
                    "image": self._args.image,
                    "command": ["./cluster-autoscaler"],
                    "args": [f"--{flag}={value}" for flag, value in self._args.flags.items()],
                    # Pods cannot reach the metadata service, so they need the region.
                    "env": [{"name": "AWS_REGION", "value": self._args.stack.region}],
                    "ports": [{"name": "metrics", "container_port": 8085}],
                    "liveness_probe": {
                        "http_get": {"path": "/health-check", "port": "metrics"},
                        "initial_delay_seconds": 60,
                        "period_seconds": 30,
                    },
                    # The port opens before the pod leads, so a new pod is ready while the old one still leads.
                    "readiness_probe": {"tcp_socket": {"port": "metrics"}, "period_seconds": 10},
                    "resources": resources(cpu=100, memory=600),
                    "security_context": container_security(read_only=True),
                }
            ],
        }

    def _meta(self) -> "ObjectMetaArgsDict":
        return {"name": NAME, "namespace": NAMESPACE, "labels": self._labels}
