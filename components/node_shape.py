"""What a node of a group looks like, told once. Pure.

Three readers must agree on it: EKS, which puts labels and taints on the nodes; the scheduler, which reads them there;
and the cluster autoscaler, which for a group at zero has no node to look at and reads tags of the Auto Scaling group
instead. EKS does not pass the node group's own tags on to that group, so the tags are made here, from the same object.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from components.autoscaler_flags import group_options
from components.node_config import most_pods
from ebbtide.prices.catalog import instance_type
from ebbtide.settings.node_groups import NodeGroupSettings
from ebbtide.vocabulary.labels import (
    GPU_RESOURCE,
    GPU_TAINT_KEY,
    GPU_TAINT_VALUE,
    NODE_GROUP,
    NODE_KIND,
    NodeKind,
)

ACCELERATOR = "k8s.amazonaws.com/accelerator"
"""On GPU nodes: the autoscaler waits for the GPUs of a new node that has this label, instead of adding another node."""

TEMPLATE = "k8s.io/cluster-autoscaler/node-template"

PODS_TAKEN_FOR_GRANTED = 110
"""The autoscaler thinks that every new node takes so many pods. Source: kubernetes/autoscaler, aws_manager.go."""

_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str
    effect: str  # as EKS writes it: NO_SCHEDULE

    @property
    def kubernetes_effect(self) -> str:
        return _EFFECTS[self.effect]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """Labels, taints and room of every node of a group, and how the autoscaler treats the group."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    gpus: int = 0
    max_pods: int = PODS_TAKEN_FOR_GRANTED
    disk_gib: int
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def scratch_gib(self) -> int:
        """What pods may ask of the disk: the kubelet keeps 1 GiB and a tenth, the file system a little."""
        return (9 * self.disk_gib - 11) // 10

    def autoscaling_tags(self) -> dict[str, str]:
        """The tags by which the autoscaler knows a node that does not exist yet.

        CPU and memory it knows by the instance type. Of a disk it knows nothing, and takes a pod that asks for some to
        fit nowhere.
        """
        tags = {f"{TEMPLATE}/label/{key}": value for key, value in self.labels.items()}
        tags |= {f"{TEMPLATE}/taint/{taint.key}": f"{taint.value}:{taint.kubernetes_effect}" for taint in self.taints}
        tags[f"{TEMPLATE}/resources/ephemeral-storage"] = f"{self.scratch_gib}Gi"
        if self.max_pods != PODS_TAKEN_FOR_GRANTED:
            tags[f"{TEMPLATE}/resources/pods"] = str(self.max_pods)
        if self.gpus:
            tags[f"{TEMPLATE}/resources/{GPU_RESOURCE}"] = str(self.gpus)
        return tags | {f"{TEMPLATE}/autoscaling-options/{option}": value for option, value in self.options.items()}


def node_shape(name: str, group: NodeGroupSettings) -> NodeShape:
    """The shape of the group `name`; its instance types have one shape, so the first speaks for all."""
    first = instance_type(group.instance_types[0])
    plain = NodeShape(
        labels={NODE_GROUP: name, NODE_KIND: group.kind.value},
        max_pods=most_pods(group.instance_types),
        disk_gib=group.disk_size,
        options=group_options(group.kind),
    )
    if first.gpu == 0:
        return plain
    return replace(
        plain,
        labels={**plain.labels, ACCELERATOR: first.gpu_model.lower().replace(" ", "-")},
        taints=(Taint(key=GPU_TAINT_KEY, value=GPU_TAINT_VALUE, effect="NO_SCHEDULE"),),
        gpus=first.gpu,
    )


def ami_type(group: NodeGroupSettings) -> str:
    """The family of images for a group; the NVIDIA ones bring the driver."""
    first = instance_type(group.instance_types[0])
    arch = "ARM_64" if first.arch == "arm64" else "x86_64"
    return f"AL2023_{arch}_{'NVIDIA' if first.gpu else 'STANDARD'}"


@dataclass(frozen=True, slots=True)
class NodeRange:
    min: int
    max: int


def split(total: int, zones: Sequence[str]) -> dict[str, int]:
    """Share a number of nodes over the zones as evenly as it goes; what is left over goes to the first ones."""
    share, left_over = divmod(total, len(zones))
    return {zone: share + (index < left_over) for index, zone in enumerate(zones)}


def ranges(group: NodeGroupSettings, zones: Sequence[str]) -> dict[str, NodeRange]:
    """The group's minimum and maximum in each zone; the sums are the group's own."""
    least, most = split(group.min, zones), split(group.max, zones)
    return {zone: NodeRange(least[zone], most[zone]) for zone in zones}


def name_prefix(name: str, kind: NodeKind, zone: str) -> str:
    """The start of the group's name in EKS. The provider adds 26 characters, EKS takes 63. Renaming replaces nodes."""
    return f"{name_stem(name, kind)}-{zone}-"


def name_stem(name: str, kind: NodeKind) -> str:
    """What the names of the group's parts in all zones begin with; no two groups share it."""
    return (name if name == kind.value else f"{kind.value}-{name}")[:34]
