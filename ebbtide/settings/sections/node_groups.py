"""The section of node groups, and the defaults of groups that a stack file leaves out. Sizes are totals over zones.

An instance type is in the price tables, or the group's `shape` describes it.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from ebbtide.prices import InstanceType, instance_type, instance_type_names, nearest_type
from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings.file.problems import all_of, wanted
from ebbtide.settings.sections.checked import MIN_WITHIN_MAX, Check, Settings, each_once
from ebbtide.settings.sections.families import families_name_the_types, types_of_families
from ebbtide.settings.sections.grammar import choice
from ebbtide.settings.sections.shapes import NodeSetShape, NodeShape, Reserved
from ebbtide.settings.sections.types import Count, Positive


def _types_are_known_or_described(types: Sequence[str], shape: NodeShape | None) -> None:
    known = instance_type_names()
    faults = [
        _unknown_type(index, name) if shape is None else _described_twice(index)
        for index, name in enumerate(types)
        if (name in known) is (shape is not None)
    ]
    if faults:
        raise all_of(faults)


def _unknown_type(index: int, name: str) -> PydanticCustomError:
    near = nearest_type(name)
    return wanted(
        "instance-type.unknown",
        "an instance type that the price tables know, or shape: { cpu: …, memory: … } beside it",
        example="m7i.4xlarge",
        hint=f"did you mean {near}?" if near else "",
        at=("instanceTypes", index),
    )


def _described_twice(index: int) -> PydanticCustomError:
    return wanted(
        "instance-type.with-shape",
        "types that the price tables lack, since the group has a shape",
        example="m9i.4xlarge",
        hint="the tables have the sizes of this type: remove shape",
        at=("instanceTypes", index),
    )


LEAST_DISK = 20
"""GiB, the image's size: smaller nodes do not start. Source: amazon-eks-ami, templates/al2023/variables-default.json.
"""

MOST_DISK = 16_384  # GiB, of a gp3 volume

MOST_PRIORITY = 99

_FIRST_TO_GROW = {NodeKind.FLEXIBLE: 300, NodeKind.GPU: 300, NodeKind.FIXED: 200, NodeKind.SPOT: 100}
"""Order for pods from outside the stack; the stack's own pods name their kind or group. Fixed nodes come late, since
they are slow to leave, and spot nodes last, since such pods may not tolerate them. No such pod fits on a GPU node, so
flexible and GPU groups need no order, and least waste decides.
"""

DiskSize: TypeAlias = Annotated[int, Strict(), Field(ge=LEAST_DISK, le=MOST_DISK)]
Priority: TypeAlias = Annotated[int, Strict(), Field(ge=0, le=MOST_PRIORITY)]


def _fixed_nodes_stay(kind: NodeKind, least: int) -> None:
    if kind is NodeKind.FIXED and least < 1:
        raise wanted(
            "node-group.fixed-min", "at least 1: fixed pods and the controller need a node", example="2", at="min"
        )


def _karpenter_scales_from_zero(provisioner: Provisioner, kind: NodeKind, least: int) -> None:
    if provisioner is not Provisioner.KARPENTER:
        return
    if kind is NodeKind.FIXED:
        raise wanted(
            "node-group.fixed-provisioner",
            "cluster-autoscaler for fixed nodes: Karpenter runs on them",
            example="cluster-autoscaler",
            at="provisioner",
        )
    if least > 0:
        raise wanted("node-group.karpenter-min", "0: Karpenter keeps no minimum of nodes", example="0", at="min")


def _families_are_for_karpenter(families: Sequence[str], provisioner: Provisioner) -> None:
    if families and provisioner is not Provisioner.KARPENTER:
        raise wanted(
            "node-group.families-without-karpenter",
            "instanceTypes, or provisioner: karpenter: the cluster autoscaler takes types of one size only",
            example="[m7i.4xlarge, m6i.4xlarge]",
            at="families",
        )


PROVISIONERS = choice(
    *Provisioner,
    planned={"auto-mode": "EKS Auto Mode replaces each node after at most 21 days, busy or not"},
)


class NodeGroupSettings(Settings):
    """Nodes of one shape, with Karpenter of several. `min` and `max` are totals, split over the zones."""

    instead_of: ClassVar[dict[str, str]] = {
        "arch": "the instance types decide the nodes' architecture; arch is a key of pods, and says what their image is"
    }
    checks: ClassVar[tuple[Check, ...]] = (
        MIN_WITHIN_MAX,
        Check(("kind", "min"), _fixed_nodes_stay),
        Check(("provisioner", "kind", "min"), _karpenter_scales_from_zero),
        Check(("instance_types", "shape"), _types_are_known_or_described),
        Check(("families", "provisioner"), _families_are_for_karpenter),
        Check(("families", "cpu", "instance_types"), families_name_the_types),
    )

    kind: NodeKind = Field(
        description="fixed, flexible, gpu or spot; default: the group's name, if it is a kind",
        examples=["gpu"],
    )
    instance_types: Annotated[
        # An editor with an older schema must not refuse a type that was added since, so the schema lists none.
        tuple[Annotated[str, BeforeValidator(str), WithJsonSchema({"type": "string"})], ...],
        Field(min_length=1),
        each_once("instance type", "[m7i.4xlarge, m6i.4xlarge]"),
    ] = Field(
        description="interchangeable instance types with equal CPU, memory and GPUs; with provisioner karpenter "
        "one type may be larger than the others; default: by kind",
        examples=["[m7i.4xlarge, m6i.4xlarge]"],
    )
    families: tuple[Annotated[str, BeforeValidator(str), WithJsonSchema({"type": "string"})], ...] = Field(
        default=(),
        description="with provisioner karpenter: all instance types of these families within `cpu`, in place of "
        "instanceTypes",
        examples=["[m7i, m6i]"],
    )
    cpu: Annotated[str, BeforeValidator(str), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]})] = (
        Field(default="", description="minimum and maximum CPUs of a node, with `families`", examples=["4-32"])
    )
    shape: NodeShape | None = Field(
        default=None,
        description="size of the group's instance types, if the price tables lack them",
        examples=["{ cpu: 16, memory: 64Gi, arch: arm64, usdPerHour: 0.85 }"],
    )
    min: Count = Field(default=0, description="minimum number of nodes; 0 lets the group scale to zero", examples=["0"])
    max: Positive = Field(description="maximum number of nodes, at least one per zone", examples=["20"])
    disk_size: DiskSize = Field(
        default=50, description="disk of each node in GiB; default for gpu: 100", examples=["50"]
    )
    priority: Priority = Field(
        default=0,
        description="among the groups that fit a pod, the highest priority scales up first",
        examples=["10"],
    )

    provisioner: Annotated[Provisioner, *PROVISIONERS] = Field(
        default=Provisioner.CLUSTER_AUTOSCALER,
        description="adds and removes the nodes: cluster-autoscaler or karpenter; default: cluster.provisioner, and "
        "cluster-autoscaler for fixed nodes",
        examples=["karpenter"],
    )

    reserved: Reserved = Field(
        default=Reserved(),
        description="requests of your own DaemonSets on each node, which other pods cannot use",
        examples=["{ cpu: 500m, memory: 1Gi }"],
    )

    for_any_pod: ClassVar[bool] = True
    """False for nodes that only pods with this `nodeGroup` use."""

    @property
    def existing(self) -> bool:
        """True for nodes of an existing cluster (`ebbtide.settings.capacity.node_sets`)."""
        return isinstance(self.shape, NodeSetShape)

    @property
    def by_karpenter(self) -> bool:
        """True if Karpenter adds and removes the nodes."""
        return self.provisioner is Provisioner.KARPENTER

    @property
    def types(self) -> tuple[InstanceType, ...]:
        """Return the instance types, from the price tables or from `shape`. All have the same size, except that the
        types of a Karpenter group may have several: the largest come first.
        """
        types = [
            instance_type(name) if self.shape is None else self.shape.as_type(name) for name in self.instance_types
        ]
        if self.by_karpenter:
            types.sort(key=lambda kind: (kind.gpu, kind.vcpu, kind.memory_mib), reverse=True)
        return tuple(types)

    @property
    def largest_types(self) -> tuple[InstanceType, ...]:
        """Return the types that pods must fit, and by which nodes are counted: all of them, or Karpenter's largest."""
        types = self.types
        return tuple(kind for kind in types if kind.shape == types[0].shape) if self.by_karpenter else types

    def with_types(self, names: tuple[str, ...]) -> "NodeGroupSettings":
        """Return the group on other nodes, whose types are in the price tables."""
        if names == self.instance_types:
            return self
        return self.model_copy(update={"instance_types": names, "shape": None})

    def of_type(self, kind: InstanceType) -> "NodeGroupSettings":
        """Return the group with one of its types."""
        return self.model_copy(update={"instance_types": (kind.name,)})

    @property
    def growth_priority(self) -> int:
        """Return the kind's priority, then the file's `priority`. The autoscaler takes the highest."""
        return _FIRST_TO_GROW[self.kind] + self.priority


def shape_name(group: str, kind: InstanceType) -> str:
    """Return the name of a group's nodes of one type, where a group has several sizes."""
    return f"{group}/{kind.name}"


DEFAULT_REGION = "us-east-1"

SPOT_TYPES = ("m7i.2xlarge", "m6i.2xlarge", "m6a.2xlarge", "m7i-flex.2xlarge")
"""Four families: the fewer to choose from, the sooner a node is reclaimed."""

_GROUPS: Mapping[NodeKind, Mapping[str, Any]] = {
    # Two nodes, so that the system pods and the controller survive one of them.
    NodeKind.FIXED: {"instanceTypes": ["m7i.2xlarge"], "min": 2, "max": 6},
    # Two families of one shape: when one is sold out in a zone the other may not be.
    NodeKind.FLEXIBLE: {"instanceTypes": ["m7i.4xlarge", "m6i.4xlarge"], "max": 20},
    # Images with CUDA and a framework inside take 10 to 20 GiB each.
    NodeKind.GPU: {"instanceTypes": ["g5.2xlarge"], "max": 8, "diskSize": 100},
    NodeKind.SPOT: {"instanceTypes": list(SPOT_TYPES), "max": 20},
}


def filled_group(
    name: str,
    group: object,
    provisioner: Provisioner = Provisioner.CLUSTER_AUTOSCALER,
    region: str = DEFAULT_REGION,
) -> object:
    """Return a group with its kind and the kind's defaults. Values that are not mappings are unchanged.

    `provisioner` is the cluster's default. `families` become the region's instance types.
    """
    if not isinstance(group, Mapping):
        return group
    filled = dict(cast("Mapping[str, Any]", group))
    if "kind" not in filled and name in set(NodeKind):
        filled["kind"] = name
    kind = filled.get("kind")
    # A kind that is missing or wrong is one fault only: the keys that would follow from it are filled in anyway.
    valid_kind = NodeKind(kind) if isinstance(kind, str) and kind in set(NodeKind) else NodeKind.FLEXIBLE
    if "instanceTypes" not in filled and (types := types_of_families(filled, region)):
        filled["instanceTypes"] = types
    filled = {**_GROUPS[valid_kind], **filled}
    if valid_kind is not NodeKind.FIXED and provisioner is Provisioner.KARPENTER:
        filled.setdefault("provisioner", provisioner.value)
    largest = filled.get("max")
    if "min" not in group and "min" in filled and type(largest) is int and largest > 0:
        filled["min"] = min(filled["min"], largest)
    return filled


def filled_groups(
    groups: Mapping[str, object],
    *,
    gpus_wanted: bool,
    provisioner: Provisioner = Provisioner.CLUSTER_AUTOSCALER,
    region: str = DEFAULT_REGION,
) -> dict[str, object]:
    """Return the file's groups with defaults, and a default group for each missing kind that is needed.

    Fixed nodes run system pods and the controller; flexible ones are always needed.
    """
    filled = {name: filled_group(name, group, provisioner, region) for name, group in groups.items()}
    present = [
        cast("Mapping[str, object]", group).get("kind") for group in filled.values() if isinstance(group, Mapping)
    ]
    needed = [NodeKind.FIXED, NodeKind.FLEXIBLE, *([NodeKind.GPU] if gpus_wanted else [])]
    absent = [kind for kind in needed if kind not in present and kind not in filled]
    return filled | {str(kind): filled_group(kind, {}, provisioner) for kind in absent}
