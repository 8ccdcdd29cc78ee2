"""The provider's schema of a resource: what Terraform itself would look at before it asks the provider."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tests.aws.support.messagepack import UNKNOWN

_SINGLE = {1, 5}  # nesting: one object, or a group
_MAP = 4


@dataclass(frozen=True, slots=True)
class Attribute:
    type: Any  # "string", ["list", "string"], ["object", {"key": "string"}]
    required: bool
    settable: bool  # False: only the provider says it
    computed: bool  # the provider says it where nobody sets it


@dataclass(frozen=True, slots=True)
class Nested:
    block: "Block"
    single: bool
    least: int
    most: int  # 0: any number

    @property
    def at_most_one(self) -> bool:
        return self.single or self.most == 1


@dataclass(frozen=True, slots=True)
class Block:
    attributes: Mapping[str, Attribute]
    blocks: Mapping[str, Nested]


def block_of(message: Any) -> Block:
    return Block(
        {
            each.name: Attribute(json.loads(each.type), each.required, each.required or each.optional, each.computed)
            for each in message.attributes
        },
        {each.type_name: _nested(each) for each in message.block_types},
    )


def _nested(message: Any) -> Nested:
    if message.nesting == _MAP:
        raise ValueError(f"{message.type_name}: blocks by name are in no resource of ours")
    return Nested(block_of(message.block), message.nesting in _SINGLE, message.min_items, message.max_items)


def empty(block: Block) -> dict[str, Any]:
    """A configuration in which nothing is set."""
    nested = {name: None if about.single else list[Any]() for name, about in block.blocks.items()}
    return {**dict.fromkeys(block.attributes), **nested}


def proposed(config: Mapping[str, Any], block: Block) -> dict[str, Any]:
    """What Terraform proposes for a resource that is to be made: what is set, and marks for what will be computed."""
    state: dict[str, Any] = {}
    for name, about in block.attributes.items():
        state[name] = UNKNOWN if config[name] is None and about.computed else config[name]
    for name, about in block.blocks.items():
        given = config[name]
        if isinstance(given, list):
            state[name] = [proposed(each, about.block) for each in cast("list[Mapping[str, Any]]", given)]
        else:
            inner = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else None
            state[name] = given if inner is None else proposed(inner, about.block)
    return state
