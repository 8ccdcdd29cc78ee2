"""The section of node groups, and the defaults of groups that a stack file leaves out. Sizes are totals over zones.

An instance type is in the price tables, or the group's `shape` describes it.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from ebbtide.prices import InstanceType, instance_type, instance_type_names
from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings.file.problems import all_of, wanted
from ebbtide.settings.sections.checked import MIN_WITHIN_MAX, Check, Settings, each_once
from ebbtide.settings.sections.families import families_name_the_types, types_of_families
from ebbtide.settings.sections.grammar import choice
from ebbtide.settings.sections.shapes import NodeSetShape, NodeShape, Reserved, largest_first, unknown_type
from ebbtide.settings.sections.types import Count, Positive


def _types_are_known_or_described(types: Sequence[str], shape: NodeShape | None) -> None:
    known = instance_type_names()
    faults = [
        unknown_type(index, name, "shape: { cpu: …, memory: … } beside it")
        if shape is None
        else _described_twice(index)
        for index, name in enumerate(types)
        if (name in known) is (shape is not None)
    ]
    if faults:
        raise all_of(faults)


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

_BEFORE_ITS_FALLBACK = 300
"""Added to a spot group that is some pool's first choice: above every flexible and GPU group, whatever its `priority`.
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
    """Nodes of one shape; with Karpenter, and on spot nodes with GPUs, of several. `min` and `max` are totals, split
    over the zones and shapes.
    """

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
        description="interchangeable instance types with equal CPU, memory and GPUs; spot groups with GPUs may have "
        "several sizes; with provisioner karpenter one type may be larger than the others; default: by kind",
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
    max: Positive = Field(
        description="maximum number of nodes, at least one per zone; in spot groups with GPUs, one per zone and size",
        examples=["20"],
    )
    disk_size: DiskSize = Field(
        default=50, description="disk of each node in GiB; default with GPUs: 100", examples=["50"]
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

    has_fallback: ClassVar[bool] = False
    """True for spot nodes that are the first choice of a pool with a fallback."""

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
        types of a Karpenter group and of a spot group with GPUs may have several. Karpenter's largest come first.
        """
        types = [
            instance_type(name) if self.shape is None else self.shape.as_type(name) for name in self.instance_types
        ]
        return tuple(largest_first(types) if self.by_karpenter else types)

    def type_like(self, name: str) -> InstanceType | None:
        """Return the type of a node that has the label `name`, or "" without a label; None if the file does not say it.

        A set with one described size has nodes of any type. Of several types, a node without a label may have any.
        """
        types = self.types
        one_size = isinstance(self.shape, NodeSetShape) and self.shape.one_size
        only = types[0] if len(types) == 1 and (one_size or not name) else None
        return next((kind for kind in types if kind.name == name), only)

    @property
    def has_gpus(self) -> bool:
        """True if the nodes have GPUs. All types of a group have some, or none has."""
        return any(kind.gpu for kind in self.types)

    @property
    def gpus_on_spot(self) -> bool:
        """True for spot nodes with GPUs, whose types may have several shapes."""
        return self.kind is NodeKind.SPOT and self.has_gpus

    @property
    def types_to_fit(self) -> tuple[InstanceType, ...]:
        """Return the types that each pod must fit, and by which nodes are counted: all of them, or Karpenter's largest.

        Pods with GPUs on spot nodes must fit the smallest type: AWS may have no other.
        """
        types = self.types
        if not self.by_karpenter or self.gpus_on_spot:
            return types
        return tuple(kind for kind in types if kind.shape == types[0].shape)

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
        """Return the kind's priority, then the file's `priority`. The autoscaler takes the highest.

        A spot group grows before the fallback of its pools.
        """
        return _FIRST_TO_GROW[self.kind] + self.priority + (_BEFORE_ITS_FALLBACK if self.has_fallback else 0)

    def with_fallback(self) -> "NodeGroupSettings":
        """Return the group as the first choice of a pool that has a fallback."""
        return _FirstChoice.model_construct(None, **dict(self))


class _FirstChoice(NodeGroupSettings):
    has_fallback: ClassVar[bool] = True


def shape_name(group: str, kind: InstanceType) -> str:
    """Return the name of a group's nodes of one type, where a group has several sizes."""
    return f"{group}/{kind.name}"


DEFAULT_REGION = "us-east-1"

SPOT_TYPES = ("m7i.2xlarge", "m6i.2xlarge", "m6a.2xlarge", "m7i-flex.2xlarge")
"""Four families: the fewer to choose from, the sooner a node is reclaimed."""

GPU_DISK = 100
"""GiB: images with CUDA and a framework inside take 10 to 20 GiB each."""

_GROUPS: Mapping[NodeKind, Mapping[str, Any]] = {
    # Two nodes, so that the system pods and the controller survive one of them.
    NodeKind.FIXED: {"instanceTypes": ["m7i.2xlarge"], "min": 2, "max": 6},
    # Two families of one shape: when one is sold out in a zone the other may not be.
    NodeKind.FLEXIBLE: {"instanceTypes": ["m7i.4xlarge", "m6i.4xlarge"], "max": 20},
    NodeKind.GPU: {"instanceTypes": ["g5.2xlarge"], "max": 8, "diskSize": GPU_DISK},
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
    if valid_kind is NodeKind.SPOT and _some_have_gpus(filled):
        filled.setdefault("diskSize", GPU_DISK)
    if valid_kind is not NodeKind.FIXED and provisioner is Provisioner.KARPENTER:
        filled.setdefault("provisioner", provisioner.value)
    largest = filled.get("max")
    if "min" not in group and "min" in filled and type(largest) is int and largest > 0:
        filled["min"] = min(filled["min"], largest)
    return filled


def _some_have_gpus(group: Mapping[str, Any]) -> bool:
    """True if one of the types has GPUs, by the price tables or the shape. Values of other forms have a finding."""
    types, shape, known = group["instanceTypes"], group.get("shape"), instance_type_names()
    names = cast("Sequence[object]", types) if isinstance(types, list | tuple) else ()
    described = isinstance(shape, Mapping) and bool(cast("Mapping[str, object]", shape).get("gpu"))
    return described or any(isinstance(name, str) and name in known and instance_type(name).gpu for name in names)


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
