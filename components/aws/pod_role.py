"""The AWS role of one pod, from its section `aws`, and the association of the role with the pod's account.

One role per workload, and its trust names the cluster, the namespace and the account: no other pod can be associated
with it. A role that is there already is only associated; whether it lets itself be taken is up to its own trust policy.

Two traps. AWS shows an association to new pods a few seconds late, and never to those that run. And an empty list of
resources in a statement is an error to IAM, so a statement without resources is not written.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws.get_caller_identity import get_caller_identity_output
from pulumi_aws.iam import Role, RolePolicy, RolePolicyAttachment

from components.aws.iam import Document, PodAccount, associate, pod_trust
from components.context import StackContext
from ebbtide.settings.sections.pods.aws import LISTING, OBJECT_ACTIONS, QUEUE_ACTIONS, AwsRights


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
        return account.apply(lambda known: json.dumps(policy(args.rights, region=args.stack.region, account=known)))


def policy(rights: AwsRights, *, region: str, account: str) -> Document:
    """One statement for each set of actions, with the ARNs of those that get it."""
    return {"Version": "2012-10-17", "Statement": [*_statements(rights, region, account)]}


def _statements(rights: AwsRights, region: str, account: str) -> Iterator[Mapping[str, Any]]:
    for access, actions in OBJECT_ACTIONS.items():
        buckets = sorted(f"arn:aws:s3:::{name}" for name, given in rights.buckets.items() if given is access)
        yield from _allowed(LISTING[access], buckets)
        yield from _allowed(actions, [f"{bucket}/*" for bucket in buckets])
    for access, actions in QUEUE_ACTIONS.items():
        names = sorted(name for name, given in rights.queues.items() if given is access)
        yield from _allowed(actions, [f"arn:aws:sqs:{region}:{account}:{name}" for name in names])


def _allowed(actions: tuple[str, ...], resources: list[str]) -> Iterator[Mapping[str, Any]]:
    if actions and resources:
        yield {"Effect": "Allow", "Action": sorted(actions), "Resource": resources}
