"""Cost tags, and the tags of nodes that a Savings Plan should cover. Ebbtide buys nothing.

A commitment pays for hours that run anyway. Only the fixed group's minimum does: flexible and GPU nodes leave at night
and stay on demand, and no plan covers spot. The keys are listed, and their use told, in docs/how-to/cost-tags.md.

What seldom changes is on the nodes themselves. What follows the file's numbers and estimates is on the node group
alone: tags of nodes are part of the launch template, and a new one replaces every node.
"""

from enum import StrEnum

from ebbtide.provisioning_labels import CUSTOMER, NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.vocabulary.labels import NODE_GROUP, NODE_KIND, PREFIX

SAVINGS_PLAN = PREFIX + "savings-plan"
PLAN_TYPE = PREFIX + "savings-plan-type"
STEADY_NODES = PREFIX + "steady-nodes"


class SavingsPlan(StrEnum):
    """What is meant to pay for a node. Its kind alone decides, so the tag never changes under a running one."""

    COMMITMENT = "commitment"
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class PlanType(StrEnum):
    """Which of the two kinds of plan the estimates of the stack assume."""

    COMPUTE = "compute"
    EC2_INSTANCE = "ec2-instance"


def savings_plan(kind: NodeKind) -> SavingsPlan:
    if kind is NodeKind.SPOT:
        return SavingsPlan.SPOT
    return SavingsPlan.COMMITMENT if kind is NodeKind.FIXED else SavingsPlan.ON_DEMAND


def plan_type(pricing_assumption: str) -> PlanType:
    return PlanType.EC2_INSTANCE if pricing_assumption.startswith("ec2") else PlanType.COMPUTE


def steady_nodes(group: NodeGroupSettings) -> int:
    """How many nodes of a group run day and night: what a commitment may be sized by."""
    return group.min if group.kind is NodeKind.FIXED else 0


def cost_tags(settings: StackSettings) -> dict[str, str]:
    """On every resource that takes tags."""
    return {CUSTOMER: settings.customer, **settings.costs.tags}


def node_tags(name: str, group: NodeGroupSettings, settings: StackSettings) -> dict[str, str]:
    """On all that a group's nodes consist of: instances, volumes, network interfaces."""
    return cost_tags(settings) | {
        NODE_GROUP: name,
        NODE_KIND: group.kind.value,
        SAVINGS_PLAN: savings_plan(group.kind).value,
    }


def group_tags(name: str, group: NodeGroupSettings, settings: StackSettings) -> dict[str, str]:
    """On the node group itself: whose it is, and what it may be committed to."""
    tags = node_tags(name, group, settings) | {STEADY_NODES: str(steady_nodes(group))}
    if savings_plan(group.kind) is not SavingsPlan.COMMITMENT:
        return tags
    return tags | {PLAN_TYPE: plan_type(settings.costs.pricing_assumption).value}
