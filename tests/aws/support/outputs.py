"""From what the provider says of a resource to what Pulumi would answer the program: `translation`, the other way."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tests.aws.support.schema import Block

_ONE = frozenset({"certificate_authority"})
"""Computed lists of at most one, which the schema of the protocol does not tell."""


def outputs_of_pulumi(values: Mapping[str, Any], block: Block) -> dict[str, Any]:
    """A list that may hold many is there by both names, as the schema does not say which of them Pulumi takes."""
    told = {key: each for name, value in values.items() for key, each in _renamed(name, value)}
    for name, about in block.blocks.items():
        items: list[Any] = values[name] if isinstance(values[name], list) else [values[name]]
        made = [outputs_of_pulumi(item, about.block) for item in items if item is not None]
        if about.at_most_one:
            told[_camel(name)] = made[0] if made else None
        else:
            told[_plural(_camel(name))] = made
    return told


def _renamed(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    key = _camel(name)
    if isinstance(value, list):
        items = [_inner(item) for item in cast("list[Any]", value)]
        yield _plural(key), items
        yield key, (items[0] if items else None) if name in _ONE else items
    else:
        yield key, value


def _inner(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    pairs = cast("Mapping[str, Any]", value).items()
    return {key: each for name, item in pairs for key, each in _renamed(name, item)}


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


def _plural(key: str) -> str:
    return key if key.endswith("s") else f"{key[:-1]}ies" if key.endswith("y") else f"{key}s"
