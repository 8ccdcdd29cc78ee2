"""The defaults of a stack file's keys, as people write them, from the schema."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from ebbtide.settings.file.problems import Location
from ebbtide.settings.json_schema import json_schema
from ebbtide.text.durations import format_duration

Node = Mapping[str, Any]


def defaults_at(at: Location) -> dict[str, object]:
    """Return the default of each key of the mapping at a location. Keys that are unset by default are left out."""
    properties = {key: about for node in _nodes_at(at) for key, about in node.get("properties", {}).items()}
    found = {key: _default(forms) for key, about in properties.items() for forms in ([*_forms(about)],)}
    return {key: default for key, default in found.items() if default not in (None, "", [], {})}


def is_key(at: Location) -> bool:
    """True if the mapping above a location may have this key."""
    return any(at[-1] in node.get("properties", {}) for node in _nodes_at(at[:-1]))


def _nodes_at(at: Location) -> list[Node]:
    nodes = [form for about in (_schema()["properties"]["config"],) for form in _forms(about)]
    for part in at:
        nodes = [form for node in nodes for about in _below(node, part) for form in _forms(about)]
    return nodes


def _below(node: Node, part: str | int) -> Iterator[Node]:
    if isinstance(part, int):
        yield from [node["items"]] if isinstance(node.get("items"), Mapping) else []
    elif part in node.get("properties", {}):
        yield node["properties"][part]
    else:
        yield from (about for form, about in node.get("patternProperties", {}).items() if re.search(form, part))


def _forms(node: Node) -> Iterator[Node]:
    """Yield a node and its alternatives, with references followed."""
    yield node
    if (name := node.get("$ref", "")).startswith("#/$defs/"):
        yield from _forms(_schema()["$defs"][name.removeprefix("#/$defs/")])
    for key in ("anyOf", "allOf", "oneOf"):
        for inner in node.get(key, ()):
            yield from _forms(inner)
    if "else" in node:  # a stack without a base, whose schema has the defaults
        yield from _forms(node["else"])


def _default(forms: list[Node]) -> object:
    default = next((form["default"] for form in forms if "default" in form), None)
    if isinstance(default, str) and re.fullmatch(r"PT(\d+H)?(\d+M)?(\d+S)?", default):
        return format_duration(TypeAdapter(timedelta).validate_python(default))
    return None if isinstance(default, Mapping) else default


@cache
def _schema() -> dict[str, Any]:
    return json_schema()
