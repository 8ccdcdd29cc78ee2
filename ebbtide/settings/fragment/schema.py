"""The fields of a PodSpec, as Kubernetes publishes them. `data/README.md` says from where.

**One schema for all minors.** It is that of the newest minor that Ebbtide supports. A field that an older minor does
not know carries the minor that brought it, and is refused for a stack below. The values of enumerations are those of
the newest minor. Whether a feature gate is on, nobody can tell from here: a field behind one that is off is dropped by
the API server without a word.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

POD_SPEC = "PodSpec"
LIST, MAP = "[]", "{}"
"""What a type begins with that has many values: `[]Container`, `{}string`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    type: str
    enum: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # of a list: what tells its entries apart, and nothing for a list that has no such keys
    since: str = ""  # the minor that brought it, where that is not the oldest that Ebbtide supports


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    fields: Mapping[str, Field]
    required: tuple[str, ...]


def type_named(name: str) -> Type | None:
    """None for a plain value: `string`, `integer`, `boolean`, `quantity`, `int-or-string`."""
    return _types().get(name)


def type_names() -> tuple[str, ...]:
    return tuple(_types())


@cache
def _types() -> Mapping[str, Type]:
    text = files("ebbtide.settings.fragment").joinpath("data", "pod-spec.json").read_text(encoding="utf-8")
    shipped: dict[str, Any] = json.loads(text)["types"]
    return {
        name: Type(
            fields={field: _field(facts) for field, facts in kind["fields"].items()},
            required=tuple(kind.get("required", ())),
        )
        for name, kind in shipped.items()
    }


def _field(facts: str | Mapping[str, Any]) -> Field:
    if isinstance(facts, str):
        return Field(type=facts)
    return Field(
        type=facts["type"],
        enum=tuple(facts.get("enum", ())),
        keys=tuple(facts.get("keys", ())),
        since=facts.get("since", ""),
    )
