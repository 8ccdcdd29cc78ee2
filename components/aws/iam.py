"""IAM roles: trust and permissions. The documents are plain data, so that tests can read them.

Pods get their roles by Pod Identity. Two things are easily forgotten: the trust needs `sts:TagSession` beside
`sts:AssumeRole`, and a trust without conditions lets every pod of every cluster in the account be associated with it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pulumi
from pulumi_aws.eks import PodIdentityAssociation
from pulumi_aws.iam import Role, RolePolicyAttachment

Document: TypeAlias = Mapping[str, Any]

_MANAGED = "arn:aws:iam::aws:policy/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAccount:
    """The one ServiceAccount that may take a role."""

    cluster_name: str
    namespace: str
    service_account: str


@dataclass(frozen=True, slots=True)
class GrantedRole:
    """A role with its policies: who waits for `grants` finds the rights in force, and they outlive it on destroy."""

    role: Role
    grants: tuple[RolePolicyAttachment, ...]


def service_trust(service: str) -> Document:
    """For a service of AWS, such as `ec2.amazonaws.com`."""
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": ["sts:AssumeRole"]}],
    }


def pod_trust(account: PodAccount) -> Document:
    """For the pods of one ServiceAccount in one cluster, and no other."""
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
    """A role with policies that AWS manages, named without their common prefix."""
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
    """Give a role to the pods of a ServiceAccount. Pods that already run do not see it."""
    return PodIdentityAssociation(
        name,
        cluster_name=account.cluster_name,
        namespace=account.namespace,
        service_account=account.service_account,
        role_arn=role_arn,
        tags=tags,
        opts=pulumi.ResourceOptions(parent=parent),
    )
