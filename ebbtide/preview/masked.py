"""Every resource as plain JSON values, keys sorted, with nothing secret in it.

The recording replaces what the program marked as secret. This is the second net, for what it did not mark: the values
of every Secret, and every input whose name says that it is one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from ebbtide.preview.resources import Resource

MASK = "[secret]"

_SECRET_NAME = re.compile(r"(password|passwd|secretstring|authtoken|privatekey|accesskey)$", re.IGNORECASE)


def as_json(resources: Sequence[Resource]) -> list[dict[str, Any]]:
    """One object per resource, options included, sorted by URN: the order of registration differs between runs."""
    ordered = sorted(resources, key=lambda resource: resource.urn)
    return [{**asdict(resource), "inputs": masked_inputs(resource)} for resource in ordered]


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
