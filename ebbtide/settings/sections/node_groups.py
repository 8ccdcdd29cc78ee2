"""The section of node groups: totals over the zones.

Instance types are those in the price tables: size and price of any other are not known.
"""

from typing import Annotated, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from ebbtide.prices import instance_type_names, nearest_type
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.file.wanted import wanted
from ebbtide.settings.sections.checked import MIN_WITHIN_MAX, Check, Settings, each_once
from ebbtide.settings.sections.types import Count, Mebibytes, Millicores, Positive


def parse_instance_type(value: object) -> str:
    """The name of a type in the price tables."""
    names = instance_type_names()
    if isinstance(value, str) and value in names:
        return value
    near = nearest_type(value) if isinstance(value, str) else ""
    raise wanted(
        "instance-type.unknown",
        "an instance type that the price tables know",
        example="m7i.4xlarge",
        hint=f"did you mean {near}?" if near else "",
    )


# An editor with an older schema must not refuse a type that was added since, so the schema does not list them.
InstanceTypeName: TypeAlias = Annotated[str, BeforeValidator(parse_instance_type), WithJsonSchema({"type": "string"})]


LEAST_DISK = 20
"""GiB, the image's size: no node starts on less. Source: amazon-eks-ami, templates/al2023/variables-default.json."""

MOST_DISK = 16_384  # GiB, of a gp3 volume

MOST_PRIORITY = 99

_FIRST_TO_GROW = {NodeKind.FLEXIBLE: 300, NodeKind.GPU: 300, NodeKind.FIXED: 200, NodeKind.SPOT: 100}
"""Pods of a stack name their kind or their group, so this settles where the pods of others go, which name neither: not
to fixed nodes, which are slow to leave, and to spot nodes last, since nobody said that those pods bear it. No such pod
fits on a GPU node, so flexible and GPU groups need no order between them, and least waste decides as it always did."""

DiskSize: TypeAlias = Annotated[int, Strict(), Field(ge=LEAST_DISK, le=MOST_DISK)]
Priority: TypeAlias = Annotated[int, Strict(), Field(ge=0, le=MOST_PRIORITY)]


def _fixed_nodes_stay(kind: NodeKind, least: int) -> None:
    if kind is NodeKind.FIXED and least < 1:
        raise wanted(
            "node-group.fixed-min", "at least 1: fixed pods and the controller need a node", example="2", at="min"
        )


class Reserved(Settings):
    """Requests of the team's own DaemonSets on each node. Those of Ebbtide and EKS are always counted."""

    cpu: Millicores | None = Field(default=None, description="total CPU", examples=["500m"])
    memory: Mebibytes | None = Field(default=None, description="total memory", examples=["1Gi"])


class NodeGroupSettings(Settings):
    """Nodes of one shape. `min` and `max` are totals, split over the zones."""

    checks: ClassVar[tuple[Check, ...]] = (MIN_WITHIN_MAX, Check(("kind", "min"), _fixed_nodes_stay))

    kind: NodeKind = Field(
        description="fixed, flexible, gpu or spot; default: the group's name, if it is a kind",
        examples=["gpu"],
    )
    instance_types: Annotated[
        tuple[InstanceTypeName, ...],
        Field(min_length=1),
        each_once("instance type", "[m7i.4xlarge, m6i.4xlarge]"),
    ] = Field(
        description="interchangeable instance types with equal CPU, memory and GPUs; default: by kind",
        examples=["[m7i.4xlarge, m6i.4xlarge]"],
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

    reserved: Reserved = Field(
        default=Reserved(),
        description="requests of your own DaemonSets on each node, which other pods cannot use",
        examples=["{ cpu: 500m, memory: 1Gi }"],
    )

    @property
    def growth_priority(self) -> int:
        """The kind first, then the file's `priority`. The autoscaler takes the highest."""
        return _FIRST_TO_GROW[self.kind] + self.priority
