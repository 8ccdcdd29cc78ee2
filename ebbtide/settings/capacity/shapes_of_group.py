"""The managed groups of a node group in the stack file. Pure.

The cluster autoscaler takes one node as the pattern for all nodes of a managed group, so a managed group has one shape.
A spot group with GPUs may have types of several shapes, since few GPU types share one: it has a managed group for each
shape. Each other group is one managed group, as is a group of Karpenter, which needs no pattern, and a group whose
`shape` describes its types.

The names carry the shape, even of a group with only one, and the types of a shape are sorted. So no further shape and
no other order in the file renames a managed group or changes its types, either of which would replace its nodes. A
further type of a present shape does change the types of that managed group.

Pods select the label `ebbtide.dev/node-group`, whose value is the name in the stack file for all of them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ebbtide.prices import InstanceType
from ebbtide.provisioning_labels import Provisioner
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings, shape_name

LONGEST_NAME = 18
"""Characters of the group's name: EKS allows 63 in the name of a managed group, of which `spot-`, the shape
(`-192x2048x8`), the zone and the provider's suffix take 45.
"""


def has_parts(group: NodeGroupSettings) -> bool:
    """True if the group has a managed group for each shape."""
    return group.gpus_on_spot and not group.by_karpenter and group.shape is None


def parts_of(name: str, group: NodeGroupSettings) -> Mapping[str, NodeGroupSettings]:
    """Return the managed groups by name, the smallest shape first. `min` and `max` are the part's share of the total.

    A group without parts is returned unchanged, under its name in the stack file.
    """
    if not has_parts(group):
        return {name: group}
    types: defaultdict[str, list[str]] = defaultdict(list)
    for kind in sorted(group.types, key=lambda kind: (kind.gpu, kind.vcpu, kind.memory_mib, kind.name)):
        types[f"{name}-{shape_text(kind)}"].append(kind.name)
    least, most = split(group.min, [*types]), split(group.max, [*types])
    return {
        part: group.model_copy(update={"instance_types": tuple(names), "min": least[part], "max": most[part]})
        for part, names in types.items()
    }


def managed_parts(name: str, group: NodeGroupSettings) -> Mapping[str, NodeGroupSettings]:
    """Return the managed groups that the group has, or that a spot group with GPUs of Karpenter would have."""
    if group.gpus_on_spot:
        group = group.model_copy(update={"provisioner": Provisioner.CLUSTER_AUTOSCALER})
    return parts_of(name, group)


def with_parts(settings: StackSettings) -> StackSettings:
    """Return the stack with a further group for each managed group of a spot group with GPUs, for nodes in replays."""
    groups = dict(settings.node_groups)
    for name, group in settings.node_groups.items():
        groups |= {part: managed for part, managed in managed_parts(name, group).items() if part != name}
    return settings.model_copy(update={"node_groups": groups})


def types_of_nodes(settings: StackSettings) -> dict[str, InstanceType]:
    """Return the type by which the nodes of each group are priced: its first one, but in a spot group with GPUs that of
    each managed group, and with Karpenter each type.
    """
    types: dict[str, InstanceType] = {}
    for name, group in settings.node_groups.items():
        if group.gpus_on_spot and group.by_karpenter:
            types |= {shape_name(name, kind): kind for kind in group.types}
        else:
            types |= {part: managed.types[0] for part, managed in parts_of(name, group).items()}
    return types


def shape_text(kind: InstanceType) -> str:
    """Return vCPUs, GiB of memory and GPUs: 8x64x1."""
    return f"{kind.vcpu}x{kind.memory_mib // 1024}x{kind.gpu}"


def split(total: int, parts: Sequence[str]) -> dict[str, int]:
    """Share a number of nodes as evenly as possible; the first parts get the remainder."""
    share, left_over = divmod(total, len(parts))
    return {part: share + (index < left_over) for index, part in enumerate(parts)}
