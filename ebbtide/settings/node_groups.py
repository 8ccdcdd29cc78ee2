"""The section of node groups: totals over the zones."""

from typing import Annotated, ClassVar

from pydantic import Field

from ebbtide.settings.checked import MIN_WITHIN_MAX, Check, Settings
from ebbtide.settings.instance_types import InstanceTypeName
from ebbtide.settings.lists import each_once
from ebbtide.settings.types import Count, Positive
from ebbtide.settings.wanted import wanted
from ebbtide.vocabulary.labels import NodeKind


def _fixed_nodes_stay(kind: NodeKind, least: int) -> None:
    if kind is NodeKind.FIXED and least < 1:
        raise wanted("at least 1: fixed pods and the controller need a node", example="2", at="min")


class NodeGroupSettings(Settings):
    """Nodes of one shape. `min` and `max` are totals, split over the zones."""

    checks: ClassVar[tuple[Check, ...]] = (MIN_WITHIN_MAX, Check(("kind", "min"), _fixed_nodes_stay))

    kind: NodeKind = Field(
        description="fixed, flexible, gpu or spot; default: the group's own name, where that is a kind",
        examples=["gpu"],
    )
    instance_types: Annotated[
        tuple[InstanceTypeName, ...],
        Field(min_length=1),
        each_once("instance type", "[m7i.4xlarge, m6i.4xlarge]"),
    ] = Field(
        description="interchangeable types of one CPU, memory and GPU shape; default by kind",
        examples=["[m7i.4xlarge, m6i.4xlarge]"],
    )
    min: Count = Field(default=0, description="nodes at least; 0, so that the group can vanish", examples=["0"])
    max: Positive = Field(description="nodes at most, no fewer than the zones", examples=["20"])
