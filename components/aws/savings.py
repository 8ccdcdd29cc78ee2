"""Cost tags, and the tags of nodes that a Savings Plan should cover. Ebbtide buys nothing.

A commitment pays off for nodes that always run. Only the fixed group's minimum does: flexible and GPU nodes stop at
night and stay on demand, and no plan covers spot. docs/how-to/cost-tags.md lists the keys and their use.

Tags that seldom change are on the nodes. Tags with the file's numbers and estimates are on the node group only: tags of
nodes are part of the launch template, and a changed template replaces every node.
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
    """The intended way to pay for a node. It depends on the kind only, so the tag of a running node never changes."""

    COMMITMENT = "commitment"
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class PlanType(StrEnum):
    """The kind of plan that the stack's estimates assume."""

    COMPUTE = "compute"
    EC2_INSTANCE = "ec2-instance"


def savings_plan(kind: NodeKind) -> SavingsPlan:
    if kind is NodeKind.SPOT:
        return SavingsPlan.SPOT
    return SavingsPlan.COMMITMENT if kind is NodeKind.FIXED else SavingsPlan.ON_DEMAND


def plan_type(pricing_assumption: str) -> PlanType:
    return PlanType.EC2_INSTANCE if pricing_assumption.startswith("ec2") else PlanType.COMPUTE


def steady_nodes(group: NodeGroupSettings) -> int:
    """Return the number of nodes that run day and night: the size of a possible commitment."""
    return group.min if group.kind is NodeKind.FIXED else 0


def cost_tags(settings: StackSettings) -> dict[str, str]:
    """Return the tags of every resource."""
    return {CUSTOMER: settings.customer, **settings.costs.tags}


def node_tags(name: str, group: NodeGroupSettings, settings: StackSettings) -> dict[str, str]:
    """Return the tags of a group's instances, volumes and network interfaces."""
    return cost_tags(settings) | {
        NODE_GROUP: name,
        NODE_KIND: group.kind.value,
        SAVINGS_PLAN: savings_plan(group.kind).value,
    }


def group_tags(name: str, group: NodeGroupSettings, settings: StackSettings) -> dict[str, str]:
    """Return the tags of the node group: its customer, and the commitment that fits it."""
    tags = node_tags(name, group, settings) | {STEADY_NODES: str(steady_nodes(group))}
    if savings_plan(group.kind) is not SavingsPlan.COMMITMENT:
        return tags
    return tags | {PLAN_TYPE: plan_type(settings.costs.pricing_assumption).value}
