"""Convert the resources that the engine passes to a policy pack into the resources that the rules read.

The engine passes each resource twice: alone before the update, with its inputs, and among all others at the end, with
its outputs. The rules read inputs, so the pack keeps those (`inputs_of`). Outputs do not suffice: on the first preview
of a stack that creates its own cluster, the cluster's provider is not known, and the engine passes the objects in it
without outputs (pulumi/pulumi, pkg/resource/plugin/provider_plugin.go, `Create`). Outputs replace inputs only for
resources that the engine passes once, since they are not registered in this run, for example with `--target`.

Differences to a recording: numbers are floats; secrets are in the clear, so they are masked here before any rule sees
them; and reading a value that is not known yet raises an error. The namespace of an object is such a value if it is
created in the same run; its name is then taken from the namespace itself. A field that the controller owns may have the
controller's value, such as a budget that is open at night: it is read as closed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from components.ownership import MAX_UNAVAILABLE, MIN_AVAILABLE
from ebbtide.recording.record import UNKNOWN
from ebbtide.recording.resources import Resource, masked_inputs, name_of
from ebbtide.recording.values import mapping, value_at
from ebbtide.vocabulary.labels import CLOSED_MINIMUM

_COMPONENT = "ebbtide:components:"
_NAMESPACE = "kubernetes:core/v1:Namespace"
_STACK_OF = re.compile(r"urn:pulumi:([^:]+)::")


class EngineOptions(Protocol):
    ignore_changes: Sequence[str]
    protect: bool


class EngineInputs(Protocol):
    """The attributes read of a single resource; `pulumi_policy.ResourceValidationArgs` has them."""

    props: Mapping[str, Any]
    urn: str


class EngineResource(Protocol):
    """The attributes read of a resource among all; `pulumi_policy.PolicyResource` has them."""

    resource_type: str
    props: Mapping[str, Any]
    urn: str
    name: str
    opts: EngineOptions
    parent: "EngineResource | None"
    property_dependencies: "Mapping[str, Sequence[EngineResource]]"


def inputs_of(resource: EngineInputs, unknown: type[Exception]) -> Mapping[str, Any]:
    """The inputs as plain values. `unknown` is the error that unknown values raise."""
    return mapping(_plain(resource.props, unknown))


def resources_of(
    engine_resources: Sequence[EngineResource], inputs: Mapping[str, Mapping[str, Any]], unknown: type[Exception]
) -> tuple[Resource, ...]:
    """Resources with their inputs; `inputs` by URN were passed before the update."""
    inputs_by_urn = {
        engine_resource.urn: inputs.get(engine_resource.urn) or mapping(_plain(engine_resource.props, unknown))
        for engine_resource in engine_resources
    }
    resources = {
        engine_resource.urn: _resource(engine_resource, inputs_by_urn[engine_resource.urn])
        for engine_resource in engine_resources
    }
    return tuple(
        _placed(resources[engine_resource.urn], engine_resource, resources) for engine_resource in engine_resources
    )


def stack_named_in(urn: str) -> str:
    match = _STACK_OF.match(urn)
    return match[1] if match else ""


def _resource(engine_resource: EngineResource, inputs: Mapping[str, Any]) -> Resource:
    resource = Resource(
        urn=engine_resource.urn,
        type=engine_resource.resource_type,
        name=engine_resource.name,
        parent=engine_resource.parent.urn if engine_resource.parent is not None else "",
        custom=not engine_resource.resource_type.startswith(_COMPONENT),
        inputs=inputs,
        ignore_changes=tuple(engine_resource.opts.ignore_changes),
        protect=engine_resource.opts.protect,
    )
    masked = masked_inputs(resource)
    for field, closed in ((MAX_UNAVAILABLE, 0), (MIN_AVAILABLE, CLOSED_MINIMUM)):
        if field in resource.ignore_changes:
            masked["spec"] = {**mapping(masked.get("spec")), field.removeprefix("spec."): closed}
    return replace(resource, inputs=masked)


def _placed(resource: Resource, engine_resource: EngineResource, resources: Mapping[str, Resource]) -> Resource:
    """The resource with the name of its namespace, if that is created in the same run."""
    if value_at(resource.inputs, "metadata.namespace") != UNKNOWN:
        return resource
    needed = [
        dependency.urn
        for dependency in engine_resource.property_dependencies.get("metadata", ())
        if dependency.resource_type == _NAMESPACE
    ]
    if len(needed) != 1:
        return resource
    metadata = {**mapping(resource.inputs.get("metadata")), "namespace": name_of(resources[needed[0]])}
    return replace(resource, inputs={**resource.inputs, "metadata": metadata})


def _plain(value: object, unknown: type[Exception]) -> Any:
    if isinstance(value, Mapping):
        properties = cast("Mapping[str, object]", value)
        return {key: _item(properties, key, unknown) for key in properties}
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
