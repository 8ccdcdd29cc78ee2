"""Access to the cluster: the deployer, and the people in the stack file.

All of it is IAM and access entries; the cluster knows no other way in. An entry stands for one principal: it keeps its
name when a viewer becomes an admin, so that only the policy is exchanged.

Traps:

- The deployer's entry must outlive everything in the cluster, or a destroy locks itself out. It keeps the first
  deployer: another one's `up` must not take the right away from the role that owns the stack.
- The others outlive it too, so that a destroy that hangs on a finalizer can be looked at. The Kubernetes provider
  depends on all of them, and so does whatever uses the provider.
- A second entry for one principal is refused by EKS. Whether an admin is the deployer is known only while AWS is asked,
  too late to leave the entry out: the role that runs `pulumi up` does not belong into `admins`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws.eks import AccessEntry, AccessPolicyAssociation
from pulumi_aws.get_caller_identity import get_caller_identity_output
from pulumi_aws.iam import get_session_context_output

from components.context import StackContext

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
"""What Kubernetes' own role `view` allows. AmazonEKSAdminViewPolicy, which sounds alike, shows Secrets."""


@dataclass(frozen=True, kw_only=True)
class AccessArgs:
    stack: StackContext
    cluster_name: pulumi.Input[str]  # known once the cluster exists
    admins: Sequence[str]
    viewers: Sequence[str]


def entries(name: str, args: AccessArgs, *, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """Every way into the cluster; what lives in it waits for them and goes before them."""
    policies = {**dict.fromkeys(args.viewers, VIEW), **dict.fromkeys(args.admins, ADMIN)}
    people = [
        _person(f"{name}-access-{_short(principal)}", args, (principal, policy), parent=parent)
        for principal, policy in policies.items()
    ]
    return [_deployer(name, args, parent=parent), *people]


def _deployer(name: str, args: AccessArgs, *, parent: pulumi.Resource) -> AccessPolicyAssociation:
    """Admin rights for the role behind the session that runs this; sessions themselves cannot hold an entry."""
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


def _person(name: str, args: AccessArgs, who: tuple[str, str], *, parent: pulumi.Resource) -> AccessPolicyAssociation:
    principal, policy = who
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
    name: str, args: AccessArgs, what: tuple[AccessEntry, str], *, parent: pulumi.Resource
) -> AccessPolicyAssociation:
    entry, policy = what
    return AccessPolicyAssociation(
        name,
        cluster_name=args.cluster_name,
        principal_arn=entry.principal_arn,
        policy_arn=policy,
        access_scope={"type": "cluster"},
        # The principal's ARN is known without the entry, so it alone makes nothing wait.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[entry]),
    )


def _short(principal: str) -> str:
    """Account, kind, path and name: what tells two principals apart."""
    return principal.split("::", 1)[1]
