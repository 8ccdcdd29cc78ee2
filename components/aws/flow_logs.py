"""VPC flow logs of accepted and rejected traffic.

The role may write to this log group but not create it: a record that arrives after a destroy would otherwise recreate
the group, without retention and owner. The role's trust names the account and the kind of resource, so that the service
cannot use the role on behalf of another account.
(Source: "IAM role for publishing flow logs to CloudWatch Logs", Amazon VPC user guide.)
"""

import json
from dataclasses import dataclass

import pulumi
from pulumi_aws.cloudwatch.log_group import LogGroup
from pulumi_aws.get_caller_identity import get_caller_identity_output
from pulumi_aws.iam import Role, RolePolicy

from components.aws.ec2 import FlowLog
from components.aws.iam import Document
from components.context import StackContext

_EVERY_TEN_MINUTES = 600  # seconds; an interval of one minute would write several times as many records


@dataclass(frozen=True, kw_only=True)
class FlowLogArgs:
    stack: StackContext
    vpc_id: pulumi.Input[str]
    retention_days: int


def flow_logs(name: str, args: FlowLogArgs, *, parent: pulumi.Resource) -> FlowLog:
    """Log everything that enters, leaves or crosses the VPC."""
    child = pulumi.ResourceOptions(parent=parent)
    tags = {"Name": f"{args.stack.customer}-flow-logs", **args.stack.tags}
    group = LogGroup(
        f"{name}-flow-logs",
        name=f"/aws/vpc/{args.stack.customer}/flow-logs",
        retention_in_days=args.retention_days,
        tags=tags,
        opts=child,
    )
    account = get_caller_identity_output(opts=pulumi.InvokeOutputOptions(parent=parent)).account_id
    role = Role(
        f"{name}-flow-logs",
        assume_role_policy=account.apply(lambda account_id: json.dumps(flow_log_trust(account_id, args.stack.region))),
        tags=tags,
        opts=child,
    )
    rights = RolePolicy(
        f"{name}-flow-logs",
        role=role.name,
        policy=group.arn.apply(lambda arn: json.dumps(flow_log_rights(arn))),
        opts=child,
    )
    return FlowLog(
        f"{name}-flow-logs",
        vpc_id=args.vpc_id,
        traffic_type="ALL",
        log_destination_type="cloud-watch-logs",
        log_destination=group.arn,
        iam_role_arn=role.arn,
        max_aggregation_interval=_EVERY_TEN_MINUTES,
        tags=tags,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[rights]),
    )


def flow_log_trust(account: str, region: str) -> Document:
    """Return a trust policy for the flow logs of this account and region."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "vpc-flow-logs.amazonaws.com"},
                "Action": ["sts:AssumeRole"],
                "Condition": {
                    "StringEquals": {"aws:SourceAccount": account},
                    "ArnLike": {"aws:SourceArn": f"arn:*:ec2:{region}:{account}:vpc-flow-log/*"},
                },
            }
        ],
    }


def flow_log_rights(group_arn: str) -> Document:
    """Allow writes to the streams of one group. The service lists groups first, which IAM cannot limit by name."""
    writing = ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": writing, "Resource": [group_arn, f"{group_arn}:*"]},
            {"Effect": "Allow", "Action": ["logs:DescribeLogGroups"], "Resource": ["*"]},
        ],
    }
