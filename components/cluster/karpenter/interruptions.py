"""The queue that notifies Karpenter when AWS takes a node: spot interruption, health event, or a stopped instance.

EventBridge sends the events of all instances in the account and region. Karpenter drops those of other instances.
"""

import json
from collections.abc import Mapping

import pulumi
from pulumi_aws.cloudwatch.event_rule import EventRule
from pulumi_aws.cloudwatch.event_target import EventTarget
from pulumi_aws.sqs.queue import Queue
from pulumi_aws.sqs.queue_policy import QueuePolicy

from components.cluster.karpenter.rights import queue_policy

EVENTS: Mapping[str, tuple[str, str]] = {
    "health": ("aws.health", "AWS Health Event"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "spot": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "state": ("aws.ec2", "EC2 Instance State-change Notification"),
}

KEPT_SECONDS = 300
"""A spot node is gone two minutes after its warning, so older messages are useless."""


def interruption_queue(name: str, tags: Mapping[str, str], *, parent: pulumi.Resource) -> Queue:
    child = pulumi.ResourceOptions(parent=parent)
    queue = Queue(
        f"{name}-interruptions",
        message_retention_seconds=KEPT_SECONDS,
        sqs_managed_sse_enabled=True,
        tags=tags,
        opts=child,
    )
    rules: list[pulumi.Output[str]] = []
    for event, (source, detail_type) in EVENTS.items():
        rule = EventRule(
            f"{name}-{event}",
            event_pattern=json.dumps({"source": [source], "detail-type": [detail_type]}),
            tags=tags,
            opts=child,
        )
        EventTarget(f"{name}-{event}", rule=rule.name, arn=queue.arn, opts=child)
        rules.append(rule.arn)
    policy = pulumi.Output.all(queue.arn, *rules).apply(lambda arns: json.dumps(queue_policy(arns[0], arns[1:])))
    QueuePolicy(f"{name}-interruptions", queue_url=queue.url, policy=policy, opts=child)
    return queue
