"""What the engine shows a policy pack, as the resources that the rules read.

Differences to a recording: values are the resource's outputs, so defaults are filled in; numbers are floats; secrets
come in the clear, so they are masked here, before any rule sees them; and a value that is not known yet raises when it
is touched. A field that the controller owns shows what the controller wrote last, the open budget of a night included:
it is read as closed, since what stands there is not ours.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

from components.ownership import MAX_UNAVAILABLE
from ebbtide.policies.values import mapping
from ebbtide.preview.masked import masked_inputs
from ebbtide.preview.recording import UNKNOWN
from ebbtide.preview.resources import Resource

_COMPONENT = "ebbtide:components:"
_STACK_OF = re.compile(r"urn:pulumi:([^:]+)::")


class EngineOptions(Protocol):
    ignore_changes: Sequence[str]
    protect: bool


class EngineResource(Protocol):
    """As far as it is read; `pulumi_policy.PolicyResource` is one."""

    resource_type: str
    props: Mapping[str, Any]
    urn: str
    name: str
    opts: EngineOptions
    parent: "EngineResource | None"


def resources_of(seen: Iterable[EngineResource], unknown: type[Exception]) -> tuple[Resource, ...]:
    """`unknown` is what the engine's values raise where nothing is known."""
    return tuple(_resource(one, unknown) for one in seen)


def stack_named_in(urn: str) -> str:
    match = _STACK_OF.match(urn)
    return match[1] if match else ""


def project_root(stack: str, starts: Iterable[Path]) -> Path | None:
    """The directory whose stacks/ holds the stack's file, here or above one of `starts`."""
    for start in starts:
        for folder in (start, *start.parents):
            if (folder / "stacks" / f"Pulumi.{stack}.yaml").is_file():
                return folder
    return None


def _resource(one: EngineResource, unknown: type[Exception]) -> Resource:
    resource = Resource(
        urn=one.urn,
        type=one.resource_type,
        name=one.name,
        parent=one.parent.urn if one.parent is not None else "",
        custom=not one.resource_type.startswith(_COMPONENT),
        inputs=mapping(_plain(one.props, unknown)),
        ignore_changes=tuple(one.opts.ignore_changes),
        protect=one.opts.protect,
    )
    inputs = masked_inputs(resource)
    if MAX_UNAVAILABLE in resource.ignore_changes:
        inputs["spec"] = {**mapping(inputs.get("spec")), "maxUnavailable": 0}
    return replace(resource, inputs=inputs)


def _plain(value: object, unknown: type[Exception]) -> Any:
    if isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value)
        return {key: _item(given, key, unknown) for key in given}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = cast("Sequence[object]", value)
        return [_item(items, index, unknown) for index in range(len(items))]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, str | bool | int | float) or value is None else UNKNOWN


def _item(holder: Any, key: str | int, unknown: type[Exception]) -> Any:
    try:
        item = holder[key]
    except unknown:
        return UNKNOWN
    return _plain(item, unknown)
