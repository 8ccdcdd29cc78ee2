"""One resource as the program registered it: what `render`, the cost table and the policies read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A registration seen by the recording monitor, before any engine or cloud. Input names are the provider's own."""

    urn: str
    type: str  # "aws:eks/nodeGroup:NodeGroup", "kubernetes:apps/v1:Deployment", "ebbtide:components:Workload"
    name: str
    parent: str  # a URN, or "" for the stack itself
    custom: bool  # False for components
    inputs: Mapping[str, Any]
    provider: str = ""
    depends_on: tuple[str, ...] = ()  # URNs, sorted
    ignore_changes: tuple[str, ...] = ()
    protect: bool = False
    retain_on_delete: bool = False
    deleted_with: str = ""  # a URN: once that is gone, so is this, and nobody has to delete it
    secret_outputs: tuple[str, ...] = ()
    read: bool = False  # there already: looked at and never changed


def mapping(value: object) -> Mapping[str, Any]:
    """A part of some inputs as the mapping that it should be; a wrong shape reads as nothing."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
