"""Sizes of nodes that a stack file describes: of instance types that the price tables lack, and of existing nodes.

A new instance type is described as AWS does, by its capacity. Existing nodes are described as Kubernetes does, by the
allocatable resources that `kubectl describe node` shows, or by their instance types.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import (
    BeforeValidator,
    Field,
    Strict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from ebbtide.prices import (
    InstanceType,
    allocatable,
    default_max_pods,
    instance_type,
    instance_type_names,
    most_pods_by_eni,
    nearest_type,
)
from ebbtide.provisioning_labels import Architecture
from ebbtide.settings.file.problems import all_of, wanted
from ebbtide.settings.sections.checked import MIN_WITHIN_MAX, Check, Settings, each_once, with_faults
from ebbtide.settings.sections.existing import LABEL_NAME
from ebbtide.settings.sections.grammar import choice, text
from ebbtide.settings.sections.types import Count, Mebibytes, Millicores, Positive, PositiveNumber

_GPU_MODEL = "NVIDIA"


class Reserved(Settings):
    """Requests of the team's own DaemonSets on each node. Those of Ebbtide and EKS are always counted."""

    cpu: Millicores | None = Field(default=None, description="total CPU", examples=["500m"])
    memory: Mebibytes | None = Field(default=None, description="total memory", examples=["1Gi"])


def _whole_processors(cpu: int) -> None:
    if cpu % 1000:
        raise wanted("shape.cpu", "the type's vCPUs, a whole number", example="16", at="cpu")


class NodeShape(Settings):
    """An instance type that the price tables lack, by AWS's figures."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("cpu",), _whole_processors),)

    cpu: Millicores = Field(description="the type's vCPUs", examples=["16"])
    memory: Mebibytes = Field(description="the type's memory", examples=["64Gi"])
    gpu: Count = Field(default=0, description="number of GPUs", examples=["1"])
    arch: Annotated[Architecture, *choice("amd64", "arm64", planned={})] = Field(
        default=Architecture.AMD64, description="processor architecture, amd64 or arm64", examples=["arm64"]
    )
    max_pods: Positive | None = Field(
        default=None, description="maximum number of pods; default: 110, from 30 vCPUs on 250", examples=["110"]
    )
    usd_per_hour: PositiveNumber | None = Field(
        default=None,
        description="US dollars per hour of one node, of a spot node in a spot group; default: no estimate of its cost",
        examples=["0.85"],
    )

    def as_type(self, name: str) -> InstanceType:
        """Return the instance type `name` with these sizes."""
        vcpu = self.cpu // 1000
        cpu, memory = allocatable(vcpu, self.memory, self.arch, most_pods_by_eni(vcpu))
        return self._type(name, cpu, memory, self.max_pods or default_max_pods(vcpu))

    def _type(self, name: str, cpu: int, memory: int, max_pods: int, *, eks_daemons: bool = True) -> InstanceType:
        vcpu = -(-self.cpu // 1000)
        return InstanceType(
            name=name,
            vcpu=vcpu,
            memory_mib=self.memory,
            gpu=self.gpu,
            gpu_model=_GPU_MODEL if self.gpu else "",
            gpu_memory_mib=0,
            arch=self.arch,
            allocatable_cpu=cpu,
            allocatable_memory=memory,
            max_pods=max_pods,
            default_pods=most_pods_by_eni(vcpu),
            device="",
            usd_per_hour=self.usd_per_hour,
            eks_daemons=eks_daemons,
        )


TypeName: TypeAlias = Annotated[
    str,
    *text(
        f"^{LABEL_NAME}$",
        "node-shape.type-name",
        "the name of a type of node, best as in its label node.kubernetes.io/instance-type",
        "Standard_D8s_v5",
    ),
]


class ExistingNodeShape(NodeShape):
    """A node of an existing cluster, by its allocatable resources."""

    checks: ClassVar[tuple[Check, ...]] = ()

    cpu: Millicores = Field(description="allocatable CPU of a node", examples=["15800m"])
    memory: Mebibytes = Field(description="allocatable memory of a node", examples=["60Gi"])
    gpu: Count = Field(default=0, description="allocatable GPUs of a node, or other devices", examples=["1"])
    max_pods: Positive | None = Field(
        default=None, description="allocatable pods of a node; default: 110", examples=["110"]
    )

    @property
    def pods(self) -> int:
        """Return the maximum number of pods of a node; without a value in the file, the kubelet's default."""
        return self.max_pods or 110

    def as_type(self, name: str) -> InstanceType:
        return self._type(name, self.cpu, self.memory, self.pods, eks_daemons=False)


def _types_are_known(types: Sequence[str]) -> None:
    faults = [unknown_type(index, name, _OTHERWISE) for index, name in enumerate(types) if not _is_known(name)]
    if faults:
        raise all_of(faults)


_OTHERWISE = "types: { NAME: { cpu: …, memory: … } } in place of instanceTypes"


class NodeSetShape(ExistingNodeShape):
    """The nodes of one set of an existing cluster: one size, or the instance types that Karpenter chooses from.

    With several types, the sizes are those of the largest.
    """

    checks: ClassVar[tuple[Check, ...]] = (MIN_WITHIN_MAX, Check(("instance_types",), _types_are_known))

    cpu: Millicores = Field(
        description="allocatable CPU of a node; required without instanceTypes and types", examples=["15800m"]
    )
    memory: Mebibytes = Field(
        description="allocatable memory of a node; required without instanceTypes and types", examples=["60Gi"]
    )
    instance_types: Annotated[
        tuple[Annotated[str, BeforeValidator(str), WithJsonSchema({"type": "string"})], ...],
        Field(min_length=1),
        each_once("instance type", "[m7i.2xlarge, m7i.4xlarge]"),
    ] = Field(
        default=(),
        description="instance types of the nodes, in place of their size; several only for Karpenter's nodes",
        examples=["[m7i.2xlarge, m7i.4xlarge]"],
    )
    types: Annotated[dict[TypeName, ExistingNodeShape], Field(min_length=1)] = Field(
        default={},
        description="described types of Karpenter's nodes by name, in place of the size and of instanceTypes",
        examples=["{ D8s: { cpu: 7800m, memory: 29Gi }, D16s: { cpu: 15800m, memory: 60Gi } }"],
    )
    max: Positive = Field(description="number of nodes; with an autoscaler, their maximum", examples=["8"])
    min: Count = Field(
        default=0,
        description="minimum number of nodes, with the cluster autoscaler; Karpenter keeps none",
        examples=["1"],
    )
    autoscaled: Annotated[bool, Strict()] = Field(
        default=False,
        description="true: the cluster autoscaler adds and removes nodes; nodes of Karpenter need no value",
        examples=["true"],
    )
    reserved: Reserved = Field(
        default=Reserved(),
        description="requests of the DaemonSets on each node, which other pods cannot use",
        examples=["{ cpu: 500m, memory: 1Gi }"],
    )

    @property
    def type_names(self) -> tuple[str, ...]:
        """Return the names of the node types; one described size has no name of its own."""
        return self.instance_types or tuple(self.types) or ("node",)

    @property
    def one_size(self) -> bool:
        """True if the file describes one size, which holds for nodes of any type."""
        return not (self.instance_types or self.types)

    def as_type(self, name: str) -> InstanceType:
        """Return the type `name`, one of `type_names`."""
        if name in self.instance_types:
            return instance_type(name)
        return self.types[name].as_type(name) if name in self.types else super().as_type(name)


_SIZE_KEYS = ("cpu", "memory", "gpu", "arch", "maxPods", "usdPerHour")


def _with_largest_size(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Give a set with types the size of its largest type, and refuse a second description of the size."""
    written = _mapping(value)
    ways = [key for key in ("instanceTypes", "types") if key in written]
    if not ways:
        return handler(value)
    doubled = [*ways[1:], *(key for key in _SIZE_KEYS if key in written)]
    faults = [
        wanted("node-shape.one-way", f"{ways[0]} or {key}, not both: {ways[0]} has the sizes", found="both", at=key)
        for key in doubled
    ]
    sizes = {key: size for key, size in _largest_size(written).items() if key not in written}
    try:
        shape = handler({**written, **sizes})
    except ValidationError as error:
        raise with_faults(error, faults, written) from None
    if faults:
        raise all_of(faults)
    return shape


def _largest_size(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the size of the largest readable type. Without one, a size that hides no other fault of the set."""
    names, described = written.get("instanceTypes"), written.get("types")
    kinds = [instance_type(name) for name in _texts(names) if _is_known(name)]
    for name, shape in _mapping(described).items():
        try:
            kinds.append(ExistingNodeShape.model_validate(shape).as_type(name))
        except ValidationError:
            continue
    if not kinds:
        return {"cpu": 1, "memory": "1Gi"}
    largest = largest_first(kinds)[0]
    return {
        "cpu": f"{largest.allocatable_cpu}m",
        "memory": f"{largest.allocatable_memory}Mi",
        "gpu": largest.gpu,
        "arch": largest.arch,
        "maxPods": largest.max_pods,
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _texts(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]


def largest_first(kinds: Sequence[InstanceType]) -> list[InstanceType]:
    """Return the types with the largest first, by GPUs, then CPUs, then memory. Equal ones keep their order."""
    return sorted(kinds, key=lambda kind: (kind.gpu, kind.vcpu, kind.memory_mib), reverse=True)


def _is_known(name: str) -> bool:
    return name in instance_type_names()


def unknown_type(index: int, name: str, otherwise: str) -> PydanticCustomError:
    """Return the fault of an instance type that the price tables lack. `otherwise` describes such a type."""
    near = nearest_type(name)
    return wanted(
        "instance-type.unknown",
        f"an instance type that the price tables know, or {otherwise}",
        example="m7i.4xlarge",
        hint=f"did you mean {near}?" if near else "",
        at=("instanceTypes", index),
    )


SetShape: TypeAlias = Annotated[NodeSetShape, WrapValidator(_with_largest_size)]
