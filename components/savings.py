"""Tags that say what a resource costs whom, and which nodes a Savings Plan is meant to cover. Nothing is ever bought.

A commitment pays for hours that run anyway. Only the fixed group's minimum does: flexible and GPU nodes leave at night
and stay on demand, and no plan covers spot.
"""

from enum import StrEnum

from ebbtide.settings.model import StackSettings
from ebbtide.settings.node_groups import NodeGroupSettings
from ebbtide.vocabulary.labels import CUSTOMER, NODE_GROUP, NODE_KIND, PREFIX, NodeKind

SAVINGS_PLAN = PREFIX + "savings-plan"
STEADY_NODES = PREFIX + "steady-nodes"


class SavingsPlan(StrEnum):
    """What is meant to pay for a group's nodes."""

    COMPUTE = "compute"
    EC2_INSTANCE = "ec2-instance"
    ON_DEMAND = "on-demand"
    SPOT = "spot"


def savings_plan(kind: NodeKind, pricing_assumption: str) -> SavingsPlan:
    """The plan for a group; the assumption of the stack picks between the two kinds of plan."""
    if kind is NodeKind.SPOT:
        return SavingsPlan.SPOT
    if kind is not NodeKind.FIXED:
        return SavingsPlan.ON_DEMAND
    return SavingsPlan.EC2_INSTANCE if pricing_assumption.startswith("ec2") else SavingsPlan.COMPUTE


def steady_nodes(group: NodeGroupSettings) -> int:
    """How many nodes of a group run day and night: what a commitment may be sized by."""
    return group.min if group.kind is NodeKind.FIXED else 0


def cost_tags(settings: StackSettings) -> dict[str, str]:
    """On every resource that takes tags."""
    return {CUSTOMER: settings.customer, **settings.costs.tags}


def node_tags(name: str, group: NodeGroupSettings, settings: StackSettings) -> dict[str, str]:
    """On all that a group's nodes consist of: instances, volumes, network interfaces.

    Only what seldom changes: these tags are part of the launch template, and a new one replaces every node.
    """
    return cost_tags(settings) | {NODE_GROUP: name, NODE_KIND: group.kind.value}


def group_tags(name: str, group: NodeGroupSettings, settings: StackSettings) -> dict[str, str]:
    """On the node group itself: whose it is, and what it may be committed to."""
    return node_tags(name, group, settings) | {
        SAVINGS_PLAN: savings_plan(group.kind, settings.costs.pricing_assumption).value,
        STEADY_NODES: str(steady_nodes(group)),
    }
