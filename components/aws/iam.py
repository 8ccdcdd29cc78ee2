"""IAM roles: trust and permissions, and the role of one pod. The documents are plain data, so that tests can read them.

Pods get their roles by Pod Identity. Two things are easily forgotten: the trust needs `sts:TagSession` in addition to
`sts:AssumeRole`, and a trust without conditions lets any pod of any cluster in the account be associated with the role.

Each workload with a section `aws` has its own role. The role's trust names the cluster, the namespace and the account,
so no other pod can be associated with it. An existing role is only associated; its own trust policy must allow that.

Two traps. An association reaches new pods after a few seconds, and running pods never. IAM refuses a statement with an
empty list of resources, so a statement without resources is not written.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pulumi
from pulumi_aws.eks import PodIdentityAssociation
from pulumi_aws.get_caller_identity import get_caller_identity_output
from pulumi_aws.iam import Role, RolePolicy, RolePolicyAttachment

from components.context import StackContext
from ebbtide.settings.sections.pods.aws import LISTING, OBJECT_ACTIONS, QUEUE_ACTIONS, AwsRights

Document: TypeAlias = Mapping[str, Any]

_MANAGED = "arn:aws:iam::aws:policy/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAccount:
    """The ServiceAccount that may assume a role."""

    cluster_name: str
    namespace: str
    service_account: str


@dataclass(frozen=True, slots=True)
class GrantedRole:
    """A role with its policies. Resources that depend on `grants` have the rights from creation to deletion."""

    role: Role
    grants: tuple[RolePolicyAttachment, ...]


def service_trust(service: str) -> Document:
    """Return a trust policy for an AWS service, such as `ec2.amazonaws.com`."""
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": ["sts:AssumeRole"]}],
    }


def pod_trust(account: PodAccount) -> Document:
    """Return a trust policy for the pods of one ServiceAccount in one cluster."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "pods.eks.amazonaws.com"},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
                "Condition": {
                    "StringEquals": {
                        "aws:RequestTag/eks-cluster-name": account.cluster_name,
                        "aws:RequestTag/kubernetes-namespace": account.namespace,
                        "aws:RequestTag/kubernetes-service-account": account.service_account,
                    }
                },
            }
        ],
    }


def granted_role(
    name: str, *, trust: Document, policies: Sequence[str], tags: Mapping[str, str], parent: pulumi.Resource
) -> GrantedRole:
    """Create a role with AWS managed policies, named without their common prefix."""
    child = pulumi.ResourceOptions(parent=parent)
    role = Role(name, assume_role_policy=json.dumps(trust), tags=tags, opts=child)
    grants = tuple(
        RolePolicyAttachment(
            f"{name}-{policy.rsplit('/')[-1]}", role=role.name, policy_arn=_MANAGED + policy, opts=child
        )
        for policy in policies
    )
    return GrantedRole(role, grants)


def associate(
    name: str, account: PodAccount, role_arn: pulumi.Input[str], *, tags: Mapping[str, str], parent: pulumi.Resource
) -> PodIdentityAssociation:
    """Give a role to the pods of a ServiceAccount. Running pods do not get it."""
    return PodIdentityAssociation(
        name,
        cluster_name=account.cluster_name,
        namespace=account.namespace,
        service_account=account.service_account,
        role_arn=role_arn,
        tags=tags,
        opts=pulumi.ResourceOptions(parent=parent),
    )


@dataclass(frozen=True, kw_only=True)
class PodRoleArgs:
    stack: StackContext
    account: PodAccount
    rights: AwsRights


class PodRole(pulumi.ComponentResource):
    def __init__(self, name: str, args: PodRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:PodRole", name, None, opts)
        associate(f"{name}-identity", args.account, self._role(name, args), tags=args.stack.tags, parent=self)
        self.register_outputs({})

    def _role(self, name: str, args: PodRoleArgs) -> pulumi.Input[str]:
        rights, child = args.rights, pulumi.ResourceOptions(parent=self)
        if rights.role is not None:
            return rights.role
        role = Role(name, assume_role_policy=json.dumps(pod_trust(args.account)), tags=args.stack.tags, opts=child)
        if rights.buckets or rights.queues:
            RolePolicy(f"{name}-policy", role=role.name, policy=self._policy(args), opts=child)
        for arn in rights.policies:
            attached = f"{name}-{arn.removeprefix('arn:aws:iam::').replace(':policy/', '-')}"
            RolePolicyAttachment(attached, role=role.name, policy_arn=arn, opts=child)
        return role.arn

    def _policy(self, args: PodRoleArgs) -> pulumi.Input[str]:
        if not args.rights.queues:
            return json.dumps(policy(args.rights, region=args.stack.region, account=""))
        account = get_caller_identity_output(opts=pulumi.InvokeOutputOptions(parent=self)).account_id
        return account.apply(
            lambda account_id: json.dumps(policy(args.rights, region=args.stack.region, account=account_id))
        )


def policy(rights: AwsRights, *, region: str, account: str) -> Document:
    """Return one statement for each set of actions, with the ARNs of its resources."""
    return {"Version": "2012-10-17", "Statement": [*_statements(rights, region, account)]}


def _statements(rights: AwsRights, region: str, account: str) -> Iterator[Mapping[str, Any]]:
    for access, actions in OBJECT_ACTIONS.items():
        buckets = sorted(
            f"arn:aws:s3:::{name}" for name, granted_access in rights.buckets.items() if granted_access is access
        )
        yield from _allowed(LISTING[access], buckets)
        yield from _allowed(actions, [f"{bucket}/*" for bucket in buckets])
    for access, actions in QUEUE_ACTIONS.items():
        names = sorted(name for name, granted_access in rights.queues.items() if granted_access is access)
        yield from _allowed(actions, [f"arn:aws:sqs:{region}:{account}:{name}" for name in names])


def _allowed(actions: tuple[str, ...], resources: list[str]) -> Iterator[Mapping[str, Any]]:
    if actions and resources:
        yield {"Effect": "Allow", "Action": sorted(actions), "Resource": resources}
