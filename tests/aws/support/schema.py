"""The provider's schema of a resource: what Terraform itself would look at before it asks the provider."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

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


def proposed(config: Mapping[str, Any], block: Block, prior: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What Terraform proposes: what is set, and the value so far of what the provider computes."""
    state: dict[str, Any] = {}
    for name, about in block.attributes.items():
        so_far = prior[name] if prior else None
        state[name] = so_far if config[name] is None and about.computed else config[name]
    for name, about in block.blocks.items():
        given, before = config[name], prior[name] if prior else None
        if isinstance(given, list):
            state[name] = _proposed_blocks(cast("list[Any]", given), about.block, before)
        else:
            inner = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else None
            state[name] = given if inner is None else proposed(inner, about.block, before)
    return state


def _proposed_blocks(given: list[Any], block: Block, before: list[Any] | None) -> list[Any]:
    """Each with the one before that says the same, of a set; else the one in its place."""
    made: list[Any] = []
    for place, item in enumerate(given):
        same = next((each for each in before or [] if _says(item, each, block)), None)
        in_place = before[place] if before and place < len(before) else None
        made.append(proposed(item, block, same or in_place))
    return made


def _says(item: Mapping[str, Any], before: Mapping[str, Any], block: Block) -> bool:
    return all(
        item[name] == before[name]
        for name, about in block.attributes.items()
        if item[name] is not None or not about.computed
    )
