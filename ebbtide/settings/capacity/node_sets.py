"""The nodes of an existing cluster as node groups, for replays.

`cluster.nodeShapes` describes the nodes of each set in `cluster.nodeSelectors`. The stack itself has no node groups:
Ebbtide creates no nodes there, and prices never choose a pod's set.

Karpenter provides the sets of `ClusterSettings.by_karpenter`: `cluster.nodePools` names their NodePools, or they are
selected by a label that only Karpenter writes. All other sets have the cluster autoscaler or none. A Karpenter that
runs in the cluster proves nothing about them: it may provide nodes for other pods only.
"""

from typing import ClassVar

from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.ray import RayHead
from ebbtide.settings.sections.shapes import NodeSetShape


def with_node_sets(settings: StackSettings) -> StackSettings:
    """Return the stack with a node group for each described set of nodes. A stack on EKS is unchanged.

    If the file names no region (`stated_region`), the region is empty, which has no prices.
    """
    cluster = settings.cluster
    if not cluster.node_shapes:
        return settings
    groups = {
        name: _group(name, shape, by_karpenter=cluster.by_karpenter(name))
        for name, shape in cluster.node_shapes.items()
    }
    return settings.model_copy(update={"node_groups": groups, "region": settings.stated_region})


def sets_without_autoscaler(settings: StackSettings) -> tuple[str, ...]:
    """Return the sets of nodes that no autoscaler adds or removes, by the stack file."""
    cluster = settings.cluster
    return tuple(
        name for name, shape in cluster.node_shapes.items() if not shape.autoscaled and not cluster.by_karpenter(name)
    )


def constant_groups(settings: StackSettings) -> tuple[str, ...]:
    """Return these sets without the fixed nodes, which always stay."""
    return tuple(name for name in sets_without_autoscaler(settings) if name != NodeKind.FIXED)


def sets_without_shape(settings: StackSettings) -> tuple[str, ...]:
    """Return the sets of nodes that pods of the stack use and that no shape describes."""
    pods = sorted(placed_pods(settings), key=lambda pod: isinstance(pod.pod, RayHead))
    return tuple(
        name for name in dict.fromkeys(pod.node_set for pod in pods) if name not in settings.cluster.node_shapes
    )


class _NamedNodes(NodeGroupSettings):
    """A set other than `fixed`, `flexible` and `gpu`: services do not use it."""

    for_any_pod: ClassVar[bool] = False


def _group(name: str, shape: NodeSetShape, *, by_karpenter: bool) -> NodeGroupSettings:
    kinds = (NodeKind.FIXED, NodeKind.FLEXIBLE, NodeKind.GPU)
    kind = next((kind for kind in kinds if kind == name), NodeKind.GPU if shape.gpu else NodeKind.FLEXIBLE)
    model = NodeGroupSettings if kind == name else _NamedNodes
    autoscaled = shape.min if shape.autoscaled else shape.max
    return model.model_construct(
        kind=kind,
        instance_types=shape.type_names,
        shape=shape,
        provisioner=Provisioner.KARPENTER if by_karpenter else Provisioner.CLUSTER_AUTOSCALER,
        min=0 if by_karpenter else autoscaled,
        max=shape.max,
        reserved=shape.reserved,
    )
