"""The nodes of one group in one zone.

Each zone has its own managed group, because AWS rebalances a group's zones by terminating nodes, busy or not, and EKS
has no option to disable this.

After the first creation the autoscaler owns the desired size. The trap: for an ignored field Pulumi sends the value of
its *state*, so a changed minimum or maximum is sent with a stale desired size. `pulumi up --refresh` is the documented
command. AWS refuses a minimum above the number of running nodes, refreshed or not: the autoscaler must first add nodes.

A change of the launch template, including cost tags and the disk, replaces the nodes a third at a time and waits for
budgets: with closed budgets EKS gives up after 15 minutes, and the update fails without harm. Make such changes in a
maintenance window. Another instance type or kind replaces the group: EKS drains the old one, and after some minutes
ends the remaining pods despite budgets (EKS user guide, "Delete a managed node group"). Do this when nothing runs in
the group.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_aws.autoscaling import Tag
from pulumi_aws.eks import NodeGroup as EksNodeGroup

from components.aws.ec2 import LaunchTemplate
from components.aws.node_shape import TEMPLATE, NodeRange, NodeTemplate, name_prefix, user_data
from components.context import StackContext
from components.ownership import DESIRED_SIZE, FieldOwner, OwnedField, hand_over
from ebbtide.provisioning_labels import NodeKind

if TYPE_CHECKING:
    from pulumi_aws.eks import NodeGroupUpdateConfigArgsDict

_TAGGED = ("instance", "volume", "network-interface")


@dataclass(frozen=True, kw_only=True)
class NodeGroupArgs:
    stack: StackContext
    group: str  # the name of the managed group without its zone (`ebbtide.settings.capacity.shapes_of_group`)
    kind: NodeKind
    zone: str
    cluster_name: pulumi.Input[str]
    node_role_arn: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    version: str
    instance_types: Sequence[str]
    ami_type: str
    size: NodeRange
    shape: NodeTemplate
    tags: Mapping[str, str]  # of the group
    node_tags: Mapping[str, str]  # of its nodes, their volumes and interfaces


class NodeGroup(pulumi.ComponentResource):
    """The nodes of one group in one zone; the cluster autoscaler owns their desired number."""

    autoscaling_group: pulumi.Output[str]

    def __init__(self, name: str, args: NodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:NodeGroup", name, None, opts)
        template = self._launch_template(name, args)
        group = EksNodeGroup(
            f"{name}-nodes",
            node_group_name_prefix=name_prefix(args.group, args.kind, args.zone),
            cluster_name=args.cluster_name,
            version=args.version,
            node_role_arn=args.node_role_arn,
            subnet_ids=[args.subnet_id],
            ami_type=args.ami_type,
            capacity_type="SPOT" if args.kind is NodeKind.SPOT else "ON_DEMAND",
            instance_types=args.instance_types,
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            scaling_config={"min_size": args.size.min, "max_size": args.size.max, "desired_size": args.size.min},
            update_config=update_pace(args.shape),
            # EKS replaces a node whose kubelet, network or GPU fails permanently. At night no other check would notice.
            node_repair_config={"enabled": True},
            labels=args.shape.labels,
            taints=[{"key": it.key, "value": it.value, "effect": it.eks_effect} for it in args.shape.taints],
            tags=args.tags,
            opts=hand_over(
                OwnedField(
                    kind="NodeGroup",
                    name=f"{name}-nodes",
                    field=DESIRED_SIZE,
                    owner=FieldOwner.CLUSTER_AUTOSCALER,
                    initial=args.size.min,
                ),
                parent=self,
                table=args.stack.ownership,
            ),
        )
        self.autoscaling_group = group.resources[0].autoscaling_groups[0].name.apply(_known)
        self._tag_for_scale_from_zero(name, args.shape, group)
        self.register_outputs({"autoscaling_group": self.autoscaling_group})

    def _launch_template(self, name: str, args: NodeGroupArgs) -> LaunchTemplate:
        """Create the template without instance type, spot and role, which EKS accepts only in the node group."""
        tags = {"Name": f"{args.group}-{args.zone}", **args.node_tags}
        return LaunchTemplate(
            f"{name}-template",
            update_default_version=True,
            # One hop: a pod cannot reach the metadata service, and so cannot take the node's role.
            metadata_options={"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": 1},
            block_device_mappings=[
                {
                    "device_name": "/dev/xvda",
                    "ebs": {
                        "volume_type": "gp3",
                        "volume_size": args.shape.disk_gib,
                        "encrypted": "true",
                        "delete_on_termination": "true",
                    },
                }
            ],
            user_data=user_data(args.shape.max_pods),
            # EKS does not pass the group's tags on: only the launch template's tags reach billed resources.
            tag_specifications=[{"resource_type": part, "tags": tags} for part in _TAGGED],
            tags=tags,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _tag_for_scale_from_zero(self, name: str, shape: NodeTemplate, group: EksNodeGroup) -> None:
        for key, value in shape.autoscaling_tags().items():
            Tag(
                f"{name}-{_slug(key)}",
                autoscaling_group_name=self.autoscaling_group,
                tag={"key": key, "value": value, "propagate_at_launch": False},
                opts=pulumi.ResourceOptions(parent=self, deleted_with=group),
            )


def update_pace(shape: NodeTemplate) -> "NodeGroupUpdateConfigArgsDict":
    """GPU capacity is scarce, so EKS removes one GPU node at a time before it requests the next."""
    return {"max_unavailable": 1, "update_strategy": "MINIMAL"} if shape.gpus else {"max_unavailable_percentage": 33}


def _known(name: str | None) -> str:
    if name is None:
        raise ValueError("the node group has no Auto Scaling group, although EKS makes one for each")
    return name


def _slug(key: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", key.removeprefix(TEMPLATE + "/"))
