"""The fields of a PodSpec as Kubernetes publishes them, and the check of a fragment against them.

`data/README.md` names the source. The schema of the newest supported minor serves all minors. A field that an older
minor lacks carries the minor that introduced it, and is refused for older stacks. Enumerations are those of the newest
minor. Feature gates are unknown here: the API server silently drops a field whose gate is off.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ebbtide.settings.file.problems import Finding, Location, Secret, did_you_mean, show
from ebbtide.settings.fragment.formats import format_findings
from ebbtide.settings.fragment.values import is_list, is_mapping
from ebbtide.text.quantities import read_quantity

POD_SPEC = "PodSpec"
LIST, MAP = "[]", "{}"
"""Prefix of a type with several values: `[]Container`, `{}string`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    type: str
    enum: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # of a list: the keys that identify its entries; () without such keys
    since: str = ""  # the minor that introduced it, if newer than the oldest supported one


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    fields: Mapping[str, Field]
    required: tuple[str, ...]


def type_named(name: str) -> Type | None:
    """Return None for a plain type: `string`, `integer`, `boolean`, `quantity`, `int-or-string`."""
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


_INSTEAD = {
    "metadata": "a fragment covers only the pod's spec; labels and annotations have their own keys, "
    "and budgets and the controller identify the pod by Ebbtide's labels",
    "spec": "leave out `spec:`; the content of `pod:` is the spec",
    "template": "leave out `template:`; the content of `pod:` is the pod's spec",
}
_DEFAULTS = {"protocol": "TCP"}  # of the fields that identify entries


def shape_findings(fragment: object, at: Location, minor: str | None) -> Iterator[Finding]:
    """Check a fragment. `minor` is the stack's Kubernetes version; None if unreadable, and then fields of all minors
    pass.
    """
    yield from _value_findings(fragment, Field(type=POD_SPEC), at, minor)


def _value_findings(value: object, field: Field, at: Location, minor: str | None) -> Iterator[Finding]:
    kind = field.type
    if isinstance(value, Secret):
        return  # `ebbtide.settings.checks.secrets` reports misplaced secrets
    if kind.startswith(LIST):
        yield from _list_findings(value, field, at, minor)
    elif kind.startswith(MAP):
        if is_mapping(value):
            inner = Field(type=kind.removeprefix(MAP))
            for key, item in value.items():
                yield from _value_findings(item, inner, (*at, key), minor)
        else:
            yield _wrong("type.mapping", "a mapping", value, at)
    elif type_named(kind) is not None:
        yield from _type_findings(value, kind, at, minor)
    else:
        yield from _plain_findings(value, field, at)


def _list_findings(value: object, field: Field, at: Location, minor: str | None) -> Iterator[Finding]:
    if not is_list(value):
        yield _wrong("type.list", "a list", value, at)
        return
    inner = Field(type=field.type.removeprefix(LIST), enum=field.enum)
    counts: Counter[tuple[str, ...]] = Counter()
    for index, item in enumerate(value):
        yield from _value_findings(item, inner, (*at, index), minor)
        if field.keys and is_mapping(item):
            key = tuple(str(item.get(name, _DEFAULTS.get(name, ""))) for name in field.keys)
            counts[key] += 1
            if counts[key] == 2:
                actual = f"{', '.join(filter(None, key))!r} twice"
                expected = f"each {' and '.join(field.keys)} once"
                yield Finding(code="list.twice", at=(*at, index), wanted=expected, found=actual)


def _type_findings(value: object, kind: str, at: Location, minor: str | None) -> Iterator[Finding]:
    schema = type_named(kind)
    if not is_mapping(value) or schema is None:
        yield _wrong("type.mapping", f"a mapping, {kind} of Kubernetes", value, at)
        return
    for key, inner in value.items():
        field = schema.fields.get(key)
        if field is None:
            hint = (_INSTEAD.get(key) if kind == POD_SPEC else None) or did_you_mean(key, tuple(schema.fields))
            expected = f"a field of {kind} as Kubernetes spells it"
            yield Finding(code="key.unknown", at=(*at, key), wanted=expected, found=f"the key {key!r}", hint=hint)
        elif field.since and minor is not None and number_of(minor) < number_of(field.since):
            expected = f"a field that Kubernetes {minor} has"
            hint = f"Kubernetes {field.since} introduced it"
            yield Finding(code="pod.newer-field", at=(*at, key), wanted=expected, found=f"the key {key!r}", hint=hint)
        elif faults := list(_value_findings(inner, field, (*at, key), minor)):
            yield from faults
        elif not _holds_secret(inner):
            yield from format_findings(kind, key, inner, (*at, key))
    for key in schema.required if kind != POD_SPEC else ():
        if key not in value:
            expected = f"this key, which {kind} of Kubernetes must have"
            yield Finding(code="key.missing", at=(*at, key), wanted=expected, found="nothing")


def _holds_secret(value: object) -> bool:
    return any(isinstance(item, Secret) for item in ([*value] if is_list(value) else [value]))


def _plain_findings(value: object, field: Field, at: Location) -> Iterator[Finding]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match field.type:
        case "string" if not isinstance(value, str):
            hint = "quote it" if isinstance(value, bool | int | float) else ""
            yield _wrong("type.text", "text", value, at, hint)
        case "string" if field.enum and value not in field.enum:
            hint = did_you_mean(str(value), field.enum)
            hint = hint if hint.startswith("did") else ""
            yield _wrong("choice.unknown", f"one of {', '.join(filter(None, field.enum))}", value, at, hint)
        case "integer" if not is_number or not isinstance(value, int):
            hint = "write it without quotes" if isinstance(value, str) and value.isdecimal() else ""
            yield _wrong("type.whole-number", "a whole number", value, at, hint)
        case "boolean" if not isinstance(value, bool):
            yield _wrong("type.boolean", "true or false", value, at)
        case "int-or-string" if not isinstance(value, str) and not (is_number and isinstance(value, int)):
            yield _wrong("type.whole-number", "a whole number or a name", value, at)
        case "quantity" if read_quantity(value) is None:
            yield _wrong("quantity.form", "a quantity of Kubernetes", value, at, example="500m or 2Gi")
        case _:
            pass


def _wrong(code: str, expected: str, value: object, at: Location, hint: str = "", *, example: str = "") -> Finding:
    return Finding(code=code, at=at, wanted=expected, found=show(value), hint=hint, example=example)


def number_of(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))
