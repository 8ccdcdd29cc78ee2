"""One registered resource, for `render`, the cost table, the policies and the preview.

Its values may be secret. The recording replaces values that the program marked as secret; `masked_inputs` also masks
unmarked ones: the values of every Secret, and every input whose name suggests a secret.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ebbtide.recording.values import value_at
from ebbtide.text.records import plain_values

MASK = "[secret]"

_SECRET_NAME = re.compile(r"(password|passwd|secretstring|authtoken|privatekey|accesskey)$", re.IGNORECASE)


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
    aliases: tuple[str, ...] = ()  # former URNs, by which the engine finds it in the state
    deleted_with: str = ""  # a URN whose deletion also deletes this resource
    secret_outputs: tuple[str, ...] = ()
    delete_timeout: str = ""  # in the engine's format, 90s; "" for the provider's default
    read: bool = False  # exists outside the stack: read and never changed


def is_part(resource: Resource) -> bool:
    """False for providers and for resources that are only read: neither is part of the stack."""
    return not (resource.read or resource.type.startswith("pulumi:"))


def short_type(type_: str) -> str:
    """The last part of a type: `NodeGroup` of `aws:eks/nodeGroup:NodeGroup`."""
    return type_.rsplit(":", 1)[-1]


def kind_of(resource: Resource) -> str:
    """The kind of a Kubernetes object; "" for other resources."""
    return short_type(resource.type) if resource.type.startswith("kubernetes:") else ""


def name_of(resource: Resource) -> str:
    name = value_at(resource.inputs, "metadata.name")
    return name if isinstance(name, str) else resource.name


def namespace_of(resource: Resource) -> str:
    namespace = value_at(resource.inputs, "metadata.namespace")
    return namespace if isinstance(namespace, str) else "default"


def display_name(resource: Resource) -> str:
    """The displayed name: "Deployment ebbtide/api" in the cluster, "NodeGroup fixed-a-nodes" in AWS."""
    kind = short_type(resource.type)
    if not kind_of(resource):
        return f"{kind} {resource.name}"
    namespace = value_at(resource.inputs, "metadata.namespace")
    where = f"{namespace}/" if isinstance(namespace, str) else ""
    return f"{kind} {where}{name_of(resource)}"


def as_json(resources: Sequence[Resource]) -> list[dict[str, Any]]:
    """One object per resource, options included and secrets masked, sorted by URN: registration order differs."""
    ordered = sorted(resources, key=lambda resource: resource.urn)
    return [{**plain_values(resource), "inputs": masked_inputs(resource)} for resource in ordered]


def masked_inputs(resource: Resource) -> dict[str, Any]:
    inputs = {key: _masked(key, value) for key, value in sorted(resource.inputs.items())}
    if resource.inputs.get("kind") == "Secret":
        for field in {"data", "stringData"} & inputs.keys():
            inputs[field] = _masked_values(inputs[field])
    return inputs


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _masked(key, item) for key, item in sorted(cast("Mapping[str, Any]", value).items())}
    if isinstance(value, list | tuple):
        return [_masked("", item) for item in cast("Sequence[Any]", value)]
    return MASK if isinstance(value, str) and value and _SECRET_NAME.search(name) else value


def _masked_values(values: Any) -> Any:
    return dict.fromkeys(cast("Mapping[str, Any]", values), MASK) if isinstance(values, Mapping) else MASK
