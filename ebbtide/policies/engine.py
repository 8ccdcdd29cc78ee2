"""What the engine shows a policy pack, as the resources that the rules read.

It shows a resource twice. On its own, before anything is done, with its inputs; and among all others, at the end, with
its outputs. The rules read inputs, so the pack keeps those (`inputs_of`). Outputs would not do: on the first preview of
a stack that makes its own cluster, the provider of all that stands in it is not known, and the engine shows those
resources without any (pulumi/pulumi, pkg/resource/plugin/provider_plugin.go, `Create`). They stand in for what the
engine showed only once: what is not registered in this run, for instance with `--target`.

Differences to a recording: numbers are floats; secrets come in the clear, so they are masked here, before any rule sees
them; and a value that is not known yet raises when it is touched. A namespace that is made in the same run is such a
value, and is taken from the namespace itself. A field that the controller owns may show what the controller wrote, the
open budget of a night included: it is read as closed, since what stands there is not ours.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from components.ownership import MAX_UNAVAILABLE
from ebbtide.recording.record import UNKNOWN
from ebbtide.recording.resources import Resource, masked_inputs, name_of
from ebbtide.recording.values import mapping, value_at

_COMPONENT = "ebbtide:components:"
_NAMESPACE = "kubernetes:core/v1:Namespace"
_STACK_OF = re.compile(r"urn:pulumi:([^:]+)::")


class EngineOptions(Protocol):
    ignore_changes: Sequence[str]
    protect: bool


class EngineInputs(Protocol):
    """A resource on its own, as far as it is read; `pulumi_policy.ResourceValidationArgs` is one."""

    props: Mapping[str, Any]
    urn: str


class EngineResource(Protocol):
    """One of all, as far as it is read; `pulumi_policy.PolicyResource` is one."""

    resource_type: str
    props: Mapping[str, Any]
    urn: str
    name: str
    opts: EngineOptions
    parent: "EngineResource | None"
    property_dependencies: "Mapping[str, Sequence[EngineResource]]"


def inputs_of(one: EngineInputs, unknown: type[Exception]) -> Mapping[str, Any]:
    """`unknown` is what the engine's values raise where nothing is known."""
    return mapping(_plain(one.props, unknown))


def resources_of(
    seen: Sequence[EngineResource], inputs: Mapping[str, Mapping[str, Any]], unknown: type[Exception]
) -> tuple[Resource, ...]:
    """`inputs` are those that were shown before, by URN."""
    read = {one.urn: inputs.get(one.urn) or mapping(_plain(one.props, unknown)) for one in seen}
    found = {one.urn: _resource(one, read[one.urn]) for one in seen}
    return tuple(_placed(found[one.urn], one, found) for one in seen)


def stack_named_in(urn: str) -> str:
    match = _STACK_OF.match(urn)
    return match[1] if match else ""


def _resource(one: EngineResource, inputs: Mapping[str, Any]) -> Resource:
    resource = Resource(
        urn=one.urn,
        type=one.resource_type,
        name=one.name,
        parent=one.parent.urn if one.parent is not None else "",
        custom=not one.resource_type.startswith(_COMPONENT),
        inputs=inputs,
        ignore_changes=tuple(one.opts.ignore_changes),
        protect=one.opts.protect,
    )
    masked = masked_inputs(resource)
    if MAX_UNAVAILABLE in resource.ignore_changes:
        masked["spec"] = {**mapping(masked.get("spec")), "maxUnavailable": 0}
    return replace(resource, inputs=masked)


def _placed(resource: Resource, one: EngineResource, found: Mapping[str, Resource]) -> Resource:
    """With its namespace, where that is made in the same run and so has no name yet."""
    if value_at(resource.inputs, "metadata.namespace") != UNKNOWN:
        return resource
    needed = [it.urn for it in one.property_dependencies.get("metadata", ()) if it.resource_type == _NAMESPACE]
    if len(needed) != 1:
        return resource
    metadata = {**mapping(resource.inputs.get("metadata")), "namespace": name_of(found[needed[0]])}
    return replace(resource, inputs={**resource.inputs, "metadata": metadata})


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
