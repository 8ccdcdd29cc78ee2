"""From what the provider says of a resource to what Pulumi would answer the program: `translation`, the other way."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tests.aws.support.messagepack import UNKNOWN
from tests.aws.support.schema import Block

_ONE = frozenset({"certificate_authority", "resource_locations", "times"})
"""Computed lists of at most one, which the schema of the protocol does not tell."""


def outputs_of_pulumi(values: Mapping[str, Any], block: Block, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A list that may hold many is there by both names, as the schema does not say which of them Pulumi takes.

    `inputs` tell which lists Pulumi takes as the one value that they hold.
    """
    told = {key: each for name in block.attributes for key, each in _renamed(name, values[name])}
    for name, about in block.blocks.items():
        items: list[Any] = values[name] if isinstance(values[name], list) else [values[name]]
        key = _camel(name) if about.at_most_one else _plural(_camel(name))
        given = _listed(inputs.get(key))
        made = [
            item
            if item is UNKNOWN
            else outputs_of_pulumi(item, about.block, given[place] if place < len(given) else {})
            for place, item in enumerate(items)
            if item is not None
        ]
        told[key] = (made[0] if made else None) if about.at_most_one else made
    return {key: _alone(value) if _is_one(inputs.get(key)) else value for key, value in told.items()}


def _renamed(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    key = _camel(name)
    if isinstance(value, list):
        items = [_inner(item) for item in cast("list[Any]", value)]
        yield _plural(key), items
        yield key, _alone(items) if name in _ONE else items
    else:
        yield key, value


def _inner(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    pairs = cast("Mapping[str, Any]", value).items()
    return {key: each for name, item in pairs for key, each in _renamed(name, item)}


def _is_one(given: Any) -> bool:
    return given is not None and not isinstance(given, list)


def _alone(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return next(iter(cast("list[Any]", value)), None)


def _listed(given: Any) -> list[Any]:
    return cast("list[Any]", given) if isinstance(given, list) else [] if given is None else [given]


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


def _plural(key: str) -> str:
    return key if key.endswith("s") else f"{key[:-1]}ies" if key.endswith("y") else f"{key}s"
