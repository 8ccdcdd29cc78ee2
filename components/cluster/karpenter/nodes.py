"""The NodePools and EC2NodeClasses of a stack's groups.

**Destroy.** Pods and their budgets are deleted before this component, and the controller after it. A NodePool is
deleted with its NodeClaims, in the foreground: Karpenter drains the nodes and terminates the instances, and the
deletion waits for this. Then the EC2NodeClass is deleted, with the launch templates. In a live stack, the NodePool of a
removed group waits for its busy workers, whose budgets are closed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource

from components.cluster.karpenter.pools import CLASS_API, class_name, node_class, node_pool, weights
from components.context import StackContext
from components.ownership import DISRUPTION_BUDGETS, FieldOwner, OwnedField, hand_over
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.vocabulary.node_pools import API

_DRAIN = pulumi.CustomTimeouts(delete="1h")


@dataclass(frozen=True, kw_only=True)
class NodePoolsArgs:
    stack: StackContext
    groups: Mapping[str, NodeGroupSettings]
    tags: Mapping[str, Mapping[str, str]]  # of the nodes, by group
    zones: Sequence[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]  # by zone
    security_group_id: pulumi.Input[str | None]
    instance_profile: pulumi.Input[str]


class NodePools(pulumi.ComponentResource):
    def __init__(self, name: str, args: NodePoolsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:NodePools", name, None, opts)
        labels = {CUSTOMER: args.stack.customer}
        for group, weight in weights(args.groups).items():
            settings = args.groups[group]
            of_group = CustomResource(
                f"{name}-{group}-class",
                api_version=CLASS_API,
                kind="EC2NodeClass",
                metadata={"name": class_name(group), "labels": labels},
                spec={
                    **node_class(group, settings, tags=args.tags[group]),
                    "instanceProfile": args.instance_profile,
                    "subnetSelectorTerms": [{"id": args.subnet_ids[zone]} for zone in args.zones],
                    "securityGroupSelectorTerms": [{"id": args.security_group_id}],
                },
                opts=pulumi.ResourceOptions(parent=self, custom_timeouts=_DRAIN),
            )
            owned = OwnedField(
                kind="NodePool", name=group, field=DISRUPTION_BUDGETS, owner=FieldOwner.WORKLOADS, initial=0
            )
            own = pulumi.ResourceOptions(depends_on=[of_group], custom_timeouts=_DRAIN)
            CustomResource(
                f"{name}-{group}",
                api_version=API,
                kind="NodePool",
                metadata={"name": group, "labels": labels},
                spec=node_pool(group, settings, weight=weight, zones=args.zones, region=args.stack.region),
                opts=pulumi.ResourceOptions.merge(hand_over(owned, parent=self, table=args.stack.ownership), own),
            )
        self.register_outputs({})
