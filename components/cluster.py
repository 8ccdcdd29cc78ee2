"""The control plane, and the way in for whoever deploys.

The API server has its private endpoint, which nodes use, and for now its public one too: a laptop or a hosted runner
outside the network has no other way to run `pulumi up`. Who comes in is decided by IAM and access entries on both.

Traps:

- The log group must exist first, or EKS makes one that keeps logs for ever.
- `bootstrap_self_managed_addons` is read at creation only, and changing it later replaces the cluster.
- The deployer's access entry must outlive everything in the cluster, or a destroy locks itself out. The Kubernetes
  provider depends on it, and so does all that uses the provider. The entry keeps the first deployer: another one's
  `up` must not take the right away from the role that owns the stack.
- The kubeconfig holds no token. `cluster_identifier` is static: without it a kubeconfig that is not yet known, as in a
  preview of a new cluster, would show everything in the cluster as replaced.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws.cloudwatch.log_group import LogGroup
from pulumi_aws.eks import AccessEntry, AccessPolicyAssociation
from pulumi_aws.eks import Cluster as EksCluster
from pulumi_aws.get_caller_identity import get_caller_identity_output
from pulumi_aws.iam import get_session_context_output
from pulumi_aws.kms import Key
from pulumi_kubernetes import Provider as KubernetesProvider

from components.add_ons import AddOnSpec, cni_configuration, install
from components.iam import PodAccount, granted_role, service_trust

LOG_RETENTION_DAYS = 90
KEY_DELETION_DAYS = 30
_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
_LOGS = ("api", "audit", "authenticator")
_NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")


@dataclass(frozen=True, kw_only=True)
class ClusterArgs:
    name: str  # plain, because the log group, the tags and the provider's identity need it before the cluster exists
    region: str
    version: str
    subnet_ids: Sequence[pulumi.Input[str]]
    tags: Mapping[str, str]


class Cluster(pulumi.ComponentResource):
    """EKS, the add-ons that nodes need to join, and the provider for all that lives inside."""

    name: pulumi.Output[str]  # known once the cluster exists, so that whoever uses it waits
    node_role_arn: pulumi.Output[str]
    provider: KubernetesProvider

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Cluster", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        cluster = self._control_plane()
        self.name = cluster.name
        way_in = self._way_in()
        nodes = granted_role(
            f"{name}-node",
            trust=service_trust("ec2.amazonaws.com"),
            policies=_NODE_POLICIES,
            tags=args.tags,
            parent=self,
        )
        self.node_role_arn = nodes.role.arn
        self._add_ons_before_nodes()
        self.provider = KubernetesProvider(
            f"{name}-kubernetes",
            kubeconfig=pulumi.Output.all(cluster.endpoint, cluster.certificate_authority).apply(
                lambda known: json.dumps(kubeconfig(args, endpoint=known[0], certificate=known[1]["data"]))
            ),
            cluster_identifier=args.name,
            enable_server_side_apply=True,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[way_in]),
        )
        self.register_outputs({"name": self.name, "endpoint": cluster.endpoint})

    def _control_plane(self) -> EksCluster:
        name, args = self._name, self._args
        role = granted_role(
            f"{name}-control-plane",
            trust=service_trust("eks.amazonaws.com"),
            policies=["AmazonEKSClusterPolicy"],
            tags=args.tags,
            parent=self,
        )
        logs = LogGroup(
            f"{name}-logs",
            name=f"/aws/eks/{args.name}/cluster",
            retention_in_days=LOG_RETENTION_DAYS,
            tags=args.tags,
            opts=self._child,
        )
        return EksCluster(
            f"{name}-control-plane",
            name=args.name,
            version=args.version,
            role_arn=role.role.arn,
            vpc_config={
                "subnet_ids": args.subnet_ids,
                "endpoint_private_access": True,
                "endpoint_public_access": True,
            },
            access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": False},
            bootstrap_self_managed_addons=False,
            encryption_config={"provider": {"key_arn": self._key().arn}, "resources": ["secrets"]},
            enabled_cluster_log_types=_LOGS,
            deletion_protection=True,
            upgrade_policy={"support_type": "STANDARD"},  # extended support costs six times as much per hour
            tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self, protect=True, depends_on=[logs, *role.grants]),
        )

    def _key(self) -> Key:
        return Key(
            f"{self._name}-secrets",
            description=f"Secrets of the cluster {self._args.name}",
            enable_key_rotation=True,
            deletion_window_in_days=KEY_DELETION_DAYS,
            tags=self._args.tags,
            opts=pulumi.ResourceOptions(parent=self, protect=True),  # without the key no Secret can be read again
        )

    def _way_in(self) -> AccessPolicyAssociation:
        """Admin rights for the role behind the session that runs this; sessions themselves cannot hold an entry."""
        invoke = pulumi.InvokeOutputOptions(parent=self)
        caller = get_caller_identity_output(opts=invoke)
        deployer = get_session_context_output(arn=caller.arn, opts=invoke).issuer_arn
        entry = AccessEntry(
            f"{self._name}-deployer",
            cluster_name=self.name,
            principal_arn=deployer,
            type="STANDARD",
            tags=self._args.tags,
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["principalArn"]),
        )
        return AccessPolicyAssociation(
            f"{self._name}-deployer-admin",
            cluster_name=self.name,
            principal_arn=entry.principal_arn,
            policy_arn=_ADMIN,
            access_scope={"type": "cluster"},
            opts=self._child,
        )

    def _add_ons_before_nodes(self) -> None:
        """Without these three no node becomes ready."""
        tags = self._args.tags
        account = PodAccount(cluster_name=self._args.name, namespace="kube-system", service_account="aws-node")
        cni = AddOnSpec(
            add_on="vpc-cni",
            configuration=cni_configuration(tags),
            account=account,
            policies=["AmazonEKS_CNI_Policy"],
        )
        for spec in (AddOnSpec(add_on="kube-proxy"), AddOnSpec(add_on="eks-pod-identity-agent"), cni):
            install(spec, name=self._name, cluster_name=self.name, tags=tags, parent=self)


def kubeconfig(args: ClusterArgs, *, endpoint: str, certificate: str) -> dict[str, Any]:
    """A way in that asks for a token each time: one written down would expire in a quarter of an hour."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": args.name, "cluster": {"server": endpoint, "certificate-authority-data": certificate}},
        ],
        "contexts": [{"name": args.name, "context": {"cluster": args.name, "user": "deployer"}}],
        "current-context": args.name,
        "users": [
            {
                "name": "deployer",
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "aws",
                        "args": [
                            "--region",
                            args.region,
                            "eks",
                            "get-token",
                            "--cluster-name",
                            args.name,
                            "--output",
                            "json",
                        ],
                        "interactiveMode": "Never",
                    }
                },
            }
        ],
    }
