"""Karpenter's controller, its roles, and the role of the nodes that it launches.

Two replicas run on fixed nodes; one leads. While both are down, no node is added or removed, and running pods stay.

**Destroy.** NodePools are deleted first, while the controller can still drain their nodes and terminate their
instances: see `components.cluster.karpenter.nodes`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_aws.eks import AccessEntry
from pulumi_aws.get_caller_identity import get_caller_identity_output
from pulumi_aws.iam import InstanceProfile, RolePolicy
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ServiceAccount
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components import images
from components.aws.cluster import node_policies
from components.aws.iam import GrantedRole, PodAccount, associate, granted_role, pod_trust, service_trust
from components.cluster.karpenter.interruptions import interruption_queue
from components.cluster.karpenter.rights import CLUSTER_RULES, NAMESPACE_RULES, CloudScope, cloud_rights
from components.context import StackContext
from components.definitions import definitions
from components.granting import grant, grant_everywhere
from components.pods.egress import ca_bundle
from components.pods.rules import OLD_POD_FIRST, container_security, home, pod_security, resources, spread
from components.program import KUBE_SYSTEM, identity, probe
from ebbtide.provisioning_labels import CUSTOMER, NodeKind
from ebbtide.settings.sections.cluster import ClusterSettings
from ebbtide.vocabulary.labels import WORKLOAD

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import EnvVarArgsDict, PodSpecArgsDict

NAME = "karpenter"
REPLICAS = 2

_METRICS, _HEALTH = 8080, 8081
_USER = 65532


@dataclass(frozen=True, kw_only=True)
class KarpenterArgs:
    stack: StackContext
    settings: ClusterSettings
    cluster_name: pulumi.Input[str]  # the stack's customer, known once the cluster exists
    subnet_ids: Mapping[str, pulumi.Input[str]]  # by zone
    security_group_id: pulumi.Input[str | None]
    definitions: pulumi.ProviderResource | None
    isolated: bool  # True if the network has no route to the internet


class Karpenter(pulumi.ComponentResource):
    instance_profile: pulumi.Output[str]

    def __init__(self, name: str, args: KarpenterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Karpenter", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        nodes = self._node_role()
        profile = InstanceProfile(f"{name}-node", role=nodes.role.name, tags=args.stack.tags, opts=self._child)
        self.instance_profile = profile.name
        queue = interruption_queue(name, args.stack.tags, parent=self)
        kinds = definitions(name, NAME, provider=args.definitions, parent=self)
        before = [*nodes.grants, *self._cloud_role(nodes, queue.arn), *self._cluster_roles(), *kinds]
        bundle = ca_bundle(f"{name}-ca-bundle", args.stack.egress, KUBE_SYSTEM, parent=self)
        self._deployment(queue.name, after=[*before, *bundle])
        self.register_outputs({})

    def _node_role(self) -> GrantedRole:
        """Create a separate role: EKS removes the access of the managed groups' role when the last group is deleted."""
        args = self._args
        nodes = granted_role(
            f"{self._name}-node",
            trust=service_trust("ec2.amazonaws.com"),
            policies=node_policies(args.settings),
            tags=args.stack.tags,
            parent=self,
        )
        AccessEntry(
            f"{self._name}-node",
            cluster_name=args.cluster_name,
            principal_arn=nodes.role.arn,
            type="EC2_LINUX",
            tags=args.stack.tags,
            opts=self._child,
        )
        return nodes

    def _cloud_role(self, nodes: GrantedRole, queue_arn: pulumi.Output[str]) -> Sequence[pulumi.Resource]:
        args = self._args
        account = PodAccount(cluster_name=args.stack.customer, namespace=KUBE_SYSTEM, service_account=NAME)
        granted = granted_role(
            f"{self._name}-role", trust=pod_trust(account), policies=[], tags=args.stack.tags, parent=self
        )
        caller = get_caller_identity_output(opts=pulumi.InvokeOutputOptions(parent=self))
        known = {
            "account": caller.account_id,
            "node_role": nodes.role.arn,
            "queue": queue_arn,
            "subnets": [*args.subnet_ids.values()],
            "security_group": args.security_group_id,
        }
        scope = {"cluster": args.stack.customer, "region": args.stack.region}
        document = pulumi.Output.all(**known).apply(lambda ids: json.dumps(cloud_rights(CloudScope(**scope, **ids))))
        policy = RolePolicy(f"{self._name}-rights", role=granted.role.name, policy=document, opts=self._child)
        return [
            policy,
            associate(f"{self._name}-identity", account, granted.role.arn, tags=args.stack.tags, parent=self),
        ]

    def _cluster_roles(self) -> Sequence[pulumi.Resource]:
        account = ServiceAccount(
            f"{self._name}-account",
            metadata={"name": NAME, "namespace": KUBE_SYSTEM, "labels": self._labels},
            opts=self._child,
        )
        everywhere = grant_everywhere(f"{self._name}-cluster", NAME, CLUSTER_RULES, home=KUBE_SYSTEM, parent=self)
        return [account, *everywhere, *grant(self._name, NAME, KUBE_SYSTEM, NAMESPACE_RULES, parent=self)]

    @property
    def _labels(self) -> dict[str, str]:
        return {WORKLOAD: NAME, CUSTOMER: self._args.stack.customer}

    def _deployment(self, queue: pulumi.Output[str], *, after: Sequence[pulumi.Resource]) -> None:
        PodDisruptionBudget(
            f"{self._name}-budget",
            metadata={"name": NAME, "namespace": KUBE_SYSTEM, "labels": self._labels},
            # Open for one pod: the other replica takes over.
            spec={"max_unavailable": 1, "selector": {"match_labels": {WORKLOAD: NAME}}},
            opts=self._child,
        )
        stack = self._args.stack
        Deployment(
            f"{self._name}-deployment",
            metadata={"name": NAME, "namespace": KUBE_SYSTEM, "labels": self._labels},
            spec={
                "replicas": REPLICAS,
                "strategy": OLD_POD_FIRST,
                "revision_history_limit": 3,
                "selector": {"match_labels": {WORKLOAD: NAME}},
                "template": {
                    "metadata": {"labels": self._labels},
                    "spec": stack.images.pulled(stack.egress.through(self._pod(queue))),
                },
            },
            # A pod that starts before its role is associated never gets it.
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )

    def _pod(self, queue: pulumi.Output[str]) -> "PodSpecArgsDict":
        stack = self._args.stack
        return {
            "service_account_name": NAME,
            **home(NodeKind.FIXED),
            "topology_spread_constraints": spread(identity(NAME, stack.customer), revision_label="pod-template-hash"),
            "security_context": pod_security(_USER),
            "containers": [
                {
                    "name": "controller",
                    "image": stack.images.of(images.KARPENTER),
                    "env": [*self._environment(queue)],
                    "ports": [
                        {"name": "http-metrics", "container_port": _METRICS},
                        {"name": "http", "container_port": _HEALTH},
                    ],
                    "liveness_probe": {**probe("/healthz", _HEALTH, within=30), "initial_delay_seconds": 30},
                    "readiness_probe": {**probe("/readyz", _HEALTH, within=30), "initial_delay_seconds": 5},
                    "resources": resources(cpu=250, memory=1024),
                    "security_context": container_security(read_only=True),
                }
            ],
        }

    def _environment(self, queue: pulumi.Output[str]) -> "Sequence[EnvVarArgsDict]":
        args = self._args
        values: Mapping[str, pulumi.Input[str]] = {
            # Pods cannot reach the metadata service, so they need the region.
            "AWS_REGION": args.stack.region,
            "CLUSTER_NAME": args.stack.customer,
            "INTERRUPTION_QUEUE": queue,
            # The price API has no VPC endpoint. Karpenter then uses the price table that it contains.
            **({"ISOLATED_VPC": "true"} if args.isolated else {}),
            "METRICS_PORT": str(_METRICS),
            "HEALTH_PROBE_PORT": str(_HEALTH),
            # By default Karpenter treats preferences as required: pods that prefer a spread would each keep a node.
            "PREFERENCE_POLICY": "Ignore",
        }
        return [
            *({"name": key, "value": value} for key, value in values.items()),
            {"name": "SYSTEM_NAMESPACE", "value_from": {"field_ref": {"field_path": "metadata.namespace"}}},
            {
                "name": "MEMORY_LIMIT",
                "value_from": {
                    "resource_field_ref": {
                        "container_name": "controller",
                        "divisor": "0",
                        "resource": "limits.memory",
                    }
                },
            },
        ]
