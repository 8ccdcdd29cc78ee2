"""Which fields Pulumi declares once and then leaves to others, read from a recording, so without engine or cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.ownership import DESIRED_SIZE, MAX_UNAVAILABLE, REPLICAS, REPLICAS_OWNER, FieldOwner
from ebbtide.preview.resources import Resource, mapping

KEPT = "nobody: kept as created"
_ABSENT = "-"
_STRUCTURE = "as created"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipRow:
    object: str  # "Deployment ebbtide-workers/train"
    field: str
    owner: str
    initial: str  # the value that Pulumi declares once


def ownership_rows(resources: Sequence[Resource]) -> tuple[OwnershipRow, ...]:
    """One row per ignored field, in the order of registration."""
    return tuple(
        OwnershipRow(
            object=_described(resource),
            field=field,
            owner=_owner(resource, field),
            initial=_shown(_value_at(resource.inputs, field)),
        )
        for resource in resources
        for field in resource.ignore_changes
    )


def _described(resource: Resource) -> str:
    kind = resource.type.rsplit(":", 1)[-1]
    metadata = mapping(resource.inputs.get("metadata"))
    if not metadata:
        return f"{kind} {resource.name}"
    where = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{kind} {where}{metadata.get('name', resource.name)}"


def _owner(resource: Resource, field: str) -> str:
    if field == REPLICAS:
        annotations = mapping(mapping(resource.inputs.get("metadata")).get("annotations"))
        return str(annotations.get(REPLICAS_OWNER, KEPT))
    owners = {MAX_UNAVAILABLE: FieldOwner.CONTROLLER, DESIRED_SIZE: FieldOwner.CLUSTER_AUTOSCALER}
    return owners.get(field, KEPT)


def _value_at(inputs: Mapping[str, Any], path: str) -> Any:
    value: Any = inputs
    for part in path.split("."):
        value = mapping(value).get(part, _ABSENT)
    return value


def _shown(value: Any) -> str:
    """A whole structure has no room in a table, and says no more there than that it stays."""
    if isinstance(value, bool):
        return str(value).lower()
    return _STRUCTURE if isinstance(value, Mapping | list) else str(value)
