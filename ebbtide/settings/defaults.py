"""The defaults of a stack file's keys, as people write them, from the schema."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from ebbtide.settings.file.problems import Location
from ebbtide.settings.json_schema import json_schema

Node = Mapping[str, Any]


def defaults_at(at: Location) -> dict[str, object]:
    """Return the default of each key of the mapping at a location. Keys that are unset by default are left out."""
    found = {key: _default([*_forms(about)]) for key, about in keys_at(at).items()}
    return {key: default for key, default in found.items() if default not in (None, "", [], {})}


def meaning_of_absence(at: Location) -> str:
    """Return the effect of a key's absence where no value has it, from the key's description; "" without one."""
    about = keys_at(at[:-1]).get(str(at[-1]), {})
    described = (str(form["description"]) for form in _forms(about) if "description" in form)
    return next(described, "").partition("default: ")[2]


def has_effect_unset(at: Location) -> bool:
    """True if the defaults below a key apply without the key: it is a section, or a part that is never missing."""
    about = keys_at(at[:-1]).get(str(at[-1]))
    return about is not None and about.get("default", about) is not None


def is_key(at: Location) -> bool:
    """True if the mapping above a location may have this key."""
    return at[-1] in keys_at(at[:-1])


def keys_at(at: Location) -> dict[str, Node]:
    """Return the keys that the mapping at a location may have, with their schemas. Free names are left out."""
    return {key: about for node in _nodes_at(at) for key, about in node.get("properties", {}).items()}


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
    return next((form["default"] for form in forms if "default" in form), None)


@cache
def _schema() -> dict[str, Any]:
    return json_schema()
