"""The properties of a group's nodes, in one place: labels, taints, tags, and the number of pods. Pure.

Three readers must agree on them: EKS, which sets labels and taints on the nodes; the scheduler, which reads them there;
and the cluster autoscaler, which for a group without nodes reads tags of the Auto Scaling group. EKS does not copy the
node group's tags to the Auto Scaling group, so the tags are created here, from the same object.

With prefix delegation a slot of a network interface holds 16 addresses instead of one, so addresses no longer limit the
pods: a node with up to 30 vCPUs takes 110 pods, a larger one 250, the maximum that EKS allows in a managed group.
Without this user data nodes would start with the former, smaller number. If a group has several types, the smallest
number applies to all, as in EKS.

The trap: the number belongs in the kubelet's configuration, not in nodeadm's `maxPodsExpression`. From the latter
nodeadm also calculates its reservation, 11 MiB of memory for each pod, so that a node of 32 GiB would lose half a GiB
and no longer fit the last worker. `ebbtide.prices` assumes nodeadm's default reservation.

Sources: EKS user guide, "Assign more IP addresses to Amazon EKS nodes with prefixes"; awslabs/amazon-eks-ami,
nodeadm/doc/examples.md (text of the user data) and nodeadm/internal/kubelet/config.go (the reservation).
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ebbtide.kube.autoscaler import THRESHOLD, unneeded_time
from ebbtide.kube.taints import GPU_TAINT, Taint
from ebbtide.prices import InstanceType
from ebbtide.provisioning_labels import ARCH, NodeKind
from ebbtide.settings.capacity.placement import room_on_disk
from ebbtide.settings.capacity.shapes_of_group import split
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.text.durations import go_text
from ebbtide.vocabulary.labels import GPU_RESOURCE, NODE_GROUP, NODE_KIND

ACCELERATOR = "k8s.amazonaws.com/accelerator"
"""On GPU nodes: the autoscaler waits for the GPUs of a new node that has this label, instead of adding another node."""

TEMPLATE = "k8s.io/cluster-autoscaler/node-template"

PODS_TAKEN_FOR_GRANTED = 110
"""The autoscaler's default for the number of pods on a new node. Source: kubernetes/autoscaler, aws_manager.go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTemplate:
    """Labels, taints and pod limit of every node of a group, and the autoscaler's options for the group."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    gpus: int = 0
    max_pods: int = PODS_TAKEN_FOR_GRANTED
    disk_gib: int
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    described: InstanceType | None = None  # the stack file's own description of the instance type

    @property
    def scratch_gib(self) -> int:
        return room_on_disk(self.disk_gib)

    def autoscaling_tags(self) -> dict[str, str]:
        """Return the tags that describe a future node to the autoscaler.

        The autoscaler derives CPU, memory and the architecture label from the instance type (aws_manager.go,
        buildGenericLabels); tags replace this for types that its list may lack. It does not know the disk's size, so
        without the tag a pod that requests disk fits nowhere.
        """
        tags = {f"{TEMPLATE}/label/{key}": value for key, value in self.labels.items()}
        tags |= {f"{TEMPLATE}/taint/{taint.key}": f"{taint.value}:{taint.effect}" for taint in self.taints}
        tags[f"{TEMPLATE}/resources/ephemeral-storage"] = f"{self.scratch_gib}Gi"
        if self.max_pods != PODS_TAKEN_FOR_GRANTED:
            tags[f"{TEMPLATE}/resources/pods"] = str(self.max_pods)
        if self.described is not None:
            tags[f"{TEMPLATE}/label/{ARCH}"] = self.described.arch
            tags[f"{TEMPLATE}/resources/cpu"] = f"{self.described.allocatable_cpu}m"
            tags[f"{TEMPLATE}/resources/memory"] = f"{self.described.allocatable_memory}Mi"
        if self.gpus:
            tags[f"{TEMPLATE}/resources/{GPU_RESOURCE}"] = str(self.gpus)
        return tags | {f"{TEMPLATE}/autoscaling-options/{option}": value for option, value in self.options.items()}


def node_shape(name: str, group: NodeGroupSettings) -> NodeTemplate:
    """Return the shape of the nodes with the label `name`, the group's name in the stack file.

    The instance types have one shape (`parts_of`), or Karpenter provides them.
    """
    first = group.types[0]
    plain = NodeTemplate(
        labels={NODE_GROUP: name, NODE_KIND: group.kind.value},
        max_pods=min(kind.max_pods for kind in group.types_to_fit),
        disk_gib=group.disk_size,
        options=group_options(group.kind, gpus=group.has_gpus),
        described=None if group.shape is None else first,
    )
    if first.gpu == 0:
        return plain
    return replace(
        plain,
        labels={**plain.labels, ACCELERATOR: _gpu_model(group).lower().replace(" ", "-")},
        taints=(GPU_TAINT,),
        gpus=min(kind.gpu for kind in group.types_to_fit),
    )


def _gpu_model(group: NodeGroupSettings) -> str:
    """Return the model with the least memory on spot nodes, which may be of any; otherwise that of the first type."""
    if not group.gpus_on_spot:
        return group.types[0].gpu_model
    return min((kind.gpu_memory_mib, kind.gpu_model) for kind in group.types)[1]


def ami_type(group: NodeGroupSettings) -> str:
    """Return the image family of a group. The NVIDIA images include the driver."""
    first = group.types[0]
    arch = "ARM_64" if first.arch == "arm64" else "x86_64"
    return f"AL2023_{arch}_{'NVIDIA' if first.gpu else 'STANDARD'}"


@dataclass(frozen=True, slots=True)
class NodeRange:
    min: int
    max: int


def ranges(group: NodeGroupSettings, zones: Sequence[str]) -> dict[str, NodeRange]:
    """Return the minimum and maximum of each zone. They add up to the group's minimum and maximum."""
    least, most = split(group.min, zones), split(group.max, zones)
    return {zone: NodeRange(least[zone], most[zone]) for zone in zones}


def name_prefix(name: str, kind: NodeKind, zone: str) -> str:
    """Return the prefix of the group's name in EKS. The provider adds 26 characters, EKS allows 63. A new name
    replaces the nodes.

    A zone's id contributes its number only: the region part is too long.
    """
    return f"{name_stem(name, kind)}-{zone[-1]}-"


def name_stem(name: str, kind: NodeKind) -> str:
    """Return the prefix of the group's names in all zones. It is unique to the group."""
    return (name if name == kind.value else f"{kind.value}-{name}")[:34]


_USER_DATA = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="EBBTIDE"

--EBBTIDE
Content-Type: application/node.eks.aws

---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      maxPods: {max_pods}

--EBBTIDE--
"""


def user_data(max_pods: int) -> str:
    """Return the user data of the launch template in base64. EKS merges it with its own."""
    return b64encode(_USER_DATA.format(max_pods=max_pods).encode()).decode()


def group_options(kind: NodeKind, *, gpus: bool) -> dict[str, str]:
    """Return the options that the autoscaler reads from tags of the group. Without a tag its flags apply."""
    unneeded = unneeded_time(kind, gpus=gpus)
    if unneeded is None:
        return {}
    threshold = f"{THRESHOLD:g}"
    options = {"scaledownunneededtime": go_text(unneeded), "scaledownutilizationthreshold": threshold}
    return options | {"scaledowngpuutilizationthreshold": threshold} if gpus else options
