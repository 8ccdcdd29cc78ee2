"""The control plane, the access to it, and the role that nodes need to join it.

The API server answers inside the network. It is reachable from the internet only from the ranges that the stack file
lists, and from the owner's other networks only with a rule of the cluster's security group. On every path, IAM and
access entries authorize the caller: the deployer, and the people in the stack file. Each principal has one entry,
which keeps its name when a viewer becomes an admin, so that only the policy is replaced.

Traps:

- The log group must exist first, or EKS creates one that keeps logs forever.
- `bootstrap_self_managed_addons` and the key of the Secrets are read at creation only. Changing either later replaces
  the cluster, so both are ignored afterwards.
- The kubeconfig contains no token. `cluster_identifier` is static: without it a kubeconfig that is not yet known, as in
  a preview of a new cluster, would show everything in the cluster as replaced.
- The deployer's entry must outlive everything in the cluster, or a destroy locks itself out. The entry keeps the first
  deployer: an `up` by another role must not revoke the rights of the role that owns the stack.
- The other entries outlive the cluster's contents too, so that a destroy that hangs on a finalizer can be examined. The
  Kubernetes provider depends on all of them, and so does everything that uses the provider.
- EKS refuses a second entry for one principal. Only AWS knows whether an admin is the deployer, and its answer comes
  too late to leave out the entry: the role that runs `pulumi up` does not belong in `admins`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws.cloudwatch.log_group import LogGroup
from pulumi_aws.eks import AccessEntry, AccessPolicyAssociation
from pulumi_aws.eks import Cluster as EksCluster
from pulumi_aws.get_caller_identity import get_caller_identity_output
from pulumi_aws.iam import get_session_context_output
from pulumi_aws.kms import Key
from pulumi_aws.vpc import SecurityGroupIngressRule
from pulumi_kubernetes import Provider as KubernetesProvider

from components.aws.add_ons import before_nodes, install
from components.aws.iam import granted_role, service_trust
from components.context import StackContext
from ebbtide.settings.sections.cluster import ClusterSettings

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
"""The rights of Kubernetes' role `view`. AmazonEKSAdminViewPolicy, whose name is similar, shows Secrets."""


@dataclass(frozen=True, kw_only=True)
class AccessArgs:
    stack: StackContext
    cluster_name: pulumi.Input[str]  # known once the cluster exists
    admins: Sequence[str]
    viewers: Sequence[str]


def entries(name: str, args: AccessArgs, *, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """Create all access entries. Objects in the cluster are created after them and deleted before them."""
    policies = {**dict.fromkeys(args.viewers, VIEW), **dict.fromkeys(args.admins, ADMIN)}
    people = [
        _person(f"{name}-access-{_short(principal)}", args, (principal, policy), parent=parent)
        for principal, policy in policies.items()
    ]
    return [_deployer(name, args, parent=parent), *people]


def _deployer(name: str, args: AccessArgs, *, parent: pulumi.Resource) -> AccessPolicyAssociation:
    """Grant admin rights to the role of the current session, since a session cannot have an entry."""
    invoke = pulumi.InvokeOutputOptions(parent=parent)
    caller = get_caller_identity_output(opts=invoke)
    deployer = get_session_context_output(arn=caller.arn, opts=invoke).issuer_arn
    entry = AccessEntry(
        f"{name}-deployer",
        cluster_name=args.cluster_name,
        principal_arn=deployer,
        type="STANDARD",
        tags=args.stack.tags,
        opts=pulumi.ResourceOptions(parent=parent, ignore_changes=["principalArn"]),
    )
    return _grant(f"{name}-deployer-admin", args, (entry, ADMIN), parent=parent)


def _person(
    name: str, args: AccessArgs, principal_policy: tuple[str, str], *, parent: pulumi.Resource
) -> AccessPolicyAssociation:
    principal, policy = principal_policy
    entry = AccessEntry(
        name,
        cluster_name=args.cluster_name,
        principal_arn=principal,
        type="STANDARD",
        tags=args.stack.tags,
        opts=pulumi.ResourceOptions(parent=parent),
    )
    return _grant(f"{name}-{'admin' if policy == ADMIN else 'view'}", args, (entry, policy), parent=parent)


def _grant(
    name: str, args: AccessArgs, entry_policy: tuple[AccessEntry, str], *, parent: pulumi.Resource
) -> AccessPolicyAssociation:
    entry, policy = entry_policy
    return AccessPolicyAssociation(
        name,
        cluster_name=args.cluster_name,
        principal_arn=entry.principal_arn,
        policy_arn=policy,
        access_scope={"type": "cluster"},
        # The principal's ARN is known without the entry, so it creates no dependency.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[entry]),
    )


def _short(principal: str) -> str:
    """Return account, kind, path and name, which identify a principal."""
    return principal.split("::", 1)[1]


KEY_DELETION_DAYS = 30
_HTTPS = 443
_LOGS = ("api", "audit", "authenticator")
_NODE_SHELL = "AmazonSSMManagedInstanceCore"


def node_policies(settings: ClusterSettings) -> tuple[str, ...]:
    """Return the AWS managed policies of the nodes' role, without their common prefix."""
    shell = (_NODE_SHELL,) if settings.session_manager else ()
    return ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", *shell)


@dataclass(frozen=True, kw_only=True)
class ClusterArgs:
    stack: StackContext
    settings: ClusterSettings
    subnet_ids: Sequence[pulumi.Input[str]]


class Cluster(pulumi.ComponentResource):
    """EKS, the add-ons that nodes need to join, and the provider of all objects in the cluster."""

    name: pulumi.Output[str]  # known once the cluster exists, so that its users wait
    security_group_id: pulumi.Output[str | None]  # of the control plane, the nodes and their pods
    node_role_arn: pulumi.Output[str]
    provider: KubernetesProvider

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Cluster", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        cluster = self._control_plane()
        self.name = cluster.name
        self.security_group_id = cluster.vpc_config.cluster_security_group_id
        self._reachable_from_own_networks(cluster)
        settings = args.settings
        access = AccessArgs(
            stack=args.stack, cluster_name=cluster.name, admins=settings.admins, viewers=settings.viewers
        )
        nodes = granted_role(
            f"{name}-node",
            trust=service_trust("ec2.amazonaws.com"),
            policies=node_policies(settings),
            tags=args.stack.tags,
            parent=self,
        )
        self.node_role_arn = nodes.role.arn
        for spec in before_nodes(args.stack.customer, settings, args.stack.tags):
            install(spec, name=name, cluster_name=cluster.name, tags=args.stack.tags, parent=self)
        self._endpoint = pulumi.Output.all(cluster.endpoint, cluster.certificate_authority)
        self._entries = entries(name, access, parent=self)
        self.provider = self._way_in(f"{name}-kubernetes")
        self.register_outputs({"name": self.name, "endpoint": cluster.endpoint})

    def definitions(self) -> KubernetesProvider:
        """Return a provider for CustomResourceDefinitions: they outlive their component, so it takes over old ones."""
        return self._way_in(f"{self._name}-definitions", upsert_existing_objects=True)

    def _way_in(self, resource_name: str, *, upsert_existing_objects: bool | None = None) -> KubernetesProvider:
        args = self._args
        return KubernetesProvider(
            resource_name,
            kubeconfig=self._endpoint.apply(
                lambda access: json.dumps(kubeconfig(args, endpoint=access[0], certificate=access[1]["data"]))
            ),
            cluster_identifier=args.stack.customer,
            enable_server_side_apply=True,
            # Without these two, a change of business hours would delete and recreate the controller's config document.
            enable_config_map_mutable=True,
            enable_secret_mutable=True,
            upsert_existing_objects=upsert_existing_objects,
            opts=pulumi.ResourceOptions(parent=self, depends_on=self._entries),
        )

    def _control_plane(self) -> EksCluster:
        name, args = self._name, self._args
        settings = args.settings
        role = granted_role(
            f"{name}-control-plane",
            trust=service_trust("eks.amazonaws.com"),
            policies=["AmazonEKSClusterPolicy"],
            tags=args.stack.tags,
            parent=self,
        )
        logs = LogGroup(
            f"{name}-logs",
            name=f"/aws/eks/{args.stack.customer}/cluster",
            retention_in_days=args.settings.log_retention_days,
            tags=args.stack.tags,
            opts=self._child,
        )
        return EksCluster(
            f"{name}-control-plane",
            name=args.stack.customer,
            version=settings.version,
            role_arn=role.role.arn,
            vpc_config={
                "subnet_ids": args.subnet_ids,
                "endpoint_private_access": True,
                "endpoint_public_access": bool(settings.public_access),
                "public_access_cidrs": settings.public_access or None,
            },
            access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": False},
            bootstrap_self_managed_addons=False,
            encryption_config={"provider": {"key_arn": self._key().arn}, "resources": ["secrets"]},
            enabled_cluster_log_types=_LOGS,
            deletion_protection=settings.deletion_protection,
            upgrade_policy={"support_type": settings.support_type.value.upper()},
            zonal_shift_config={"enabled": settings.zonal_shift},
            # Set even for the standard tier: if it were left out, a paid tier would stay.
            control_plane_scaling_config={"tier": settings.control_plane_tier.value},
            tags=args.stack.tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=settings.deletion_protection,
                depends_on=[logs, *role.grants],
                ignore_changes=["bootstrapSelfManagedAddons", "encryptionConfig"],
            ),
        )

    def _key(self) -> Key:
        return Key(
            f"{self._name}-secrets",
            description=f"Secrets of the cluster {self._args.stack.customer}",
            enable_key_rotation=True,
            deletion_window_in_days=KEY_DELETION_DAYS,
            tags=self._args.stack.tags,
            # Without the key no Secret can be read again.
            opts=pulumi.ResourceOptions(parent=self, protect=self._args.settings.deletion_protection),
        )

    def _reachable_from_own_networks(self, cluster: EksCluster) -> None:
        """Admit the private ranges: EKS's security group admits only nodes, and a runner elsewhere would time out."""
        for cidr in self._args.settings.private_access:
            SecurityGroupIngressRule(
                f"{self._name}-api-from-{cidr}",
                security_group_id=cluster.vpc_config.cluster_security_group_id,
                description="Kubernetes API",
                cidr_ipv4=cidr,
                ip_protocol="tcp",
                from_port=_HTTPS,
                to_port=_HTTPS,
                tags=self._args.stack.tags,
                opts=self._child,
            )


def kubeconfig(args: ClusterArgs, *, endpoint: str, certificate: str) -> dict[str, Any]:
    """Return a kubeconfig that requests a token for each use: a stored token would expire after 15 minutes."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": args.stack.customer, "cluster": {"server": endpoint, "certificate-authority-data": certificate}},
        ],
        "contexts": [{"name": args.stack.customer, "context": {"cluster": args.stack.customer, "user": "deployer"}}],
        "current-context": args.stack.customer,
        "users": [
            {
                "name": "deployer",
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "aws",
                        "args": [
                            "--region",
                            args.stack.region,
                            "eks",
                            "get-token",
                            "--cluster-name",
                            args.stack.customer,
                            "--output",
                            "json",
                        ],
                        "interactiveMode": "Never",
                    }
                },
            }
        ],
    }
