"""A page as one JSON document, and its schema, both derived from the dataclasses of `document`."""

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, cast

from ebbtide.policies.rule import PolicyResult
from ebbtide.preview.dangers import KINDS
from ebbtide.preview.document import Danger, PreviewDocument
from ebbtide.text.records import Names, attributes_of, plain_values

SCHEMA = 1
_PLAIN: Mapping[object, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
}
_NAMES: Names = {
    Danger: {
        "code": "code",
        "severity": "severity",
        "subjects": "subjects",
        "what": "text",
        "impact": "impact",
        "fix": "remedy",
    },
    PolicyResult: {
        "id": "code",
        "severity": "severity",
        "resource": "resource",
        "reason": "text",
        "fix": "remedy",
        "source": "source",
        "excepted": "excepted",
    },
}
"""The document's names of the attributes of findings. All other types have the names of their fields."""


def as_json(document: PreviewDocument) -> str:
    return (
        json.dumps({"schema": SCHEMA, **plain_values(document, _NAMES)}, indent=2, ensure_ascii=False, allow_nan=False)
        + "\n"
    )


def json_schema() -> dict[str, Any]:
    """The schema of the output of `as_json`. Later versions with the same number only add fields."""
    definitions: dict[str, Any] = {}
    _define(PreviewDocument, definitions)
    document = definitions.pop(PreviewDocument.__name__)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Ebbtide preview",
        **document,
        "required": ["schema", *document["required"]],
        "properties": {"schema": {"const": SCHEMA}, **document["properties"]},
        "$defs": definitions,
    }


def schema_text(published: str) -> str:
    """The text of docs/preview.schema.json. A code of a danger keeps its place in the published text."""
    schema = json_schema()
    known: list[str] = json.loads(published)["$defs"]["Danger"]["properties"]["code"]["enum"]
    codes: list[str] = schema["$defs"]["Danger"]["properties"]["code"]["enum"]
    codes.sort(key=lambda code: known.index(code) if code in known else len(known))
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _define(model: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Add the definition of a dataclass, and return a reference to it."""
    if model.__name__ not in definitions:
        definitions[model.__name__] = {}  # ends the recursion of a type that contains itself
        attributes = attributes_of(model, _NAMES)
        definitions[model.__name__] = {
            "type": "object",
            "additionalProperties": False,
            "required": [*attributes],
            "properties": {name: _property(model, attribute, definitions) for name, attribute in attributes.items()},
        }
    return {"$ref": f"#/$defs/{model.__name__}"}


def _property(model: type, attribute: str, definitions: dict[str, Any]) -> dict[str, Any]:
    if model is Danger and attribute == "code":
        return {"enum": [*KINDS]}
    hints = typing.get_type_hints(model)
    computed = getattr(model, attribute, None)
    hint = typing.get_type_hints(computed.fget)["return"] if isinstance(computed, property) else hints[attribute]
    return _schema(hint, definitions)


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return {"anyOf": [_schema(member, definitions) for member in inner]}
    if origin is tuple and inner[-1] is Ellipsis:
        return {"type": "array", "items": _schema(inner[0], definitions)}
    if origin is tuple:
        places = [_schema(member, definitions) for member in inner]
        return {"type": "array", "prefixItems": places, "minItems": len(inner), "maxItems": len(inner)}
    if origin is Mapping:
        names = [member.value for member in inner[0]]
        values = _schema(inner[1], definitions)
        return {
            "type": "object",
            "additionalProperties": False,
            "required": names,
            "properties": dict.fromkeys(names, values),
        }
    if is_dataclass(hint):
        return _define(cast("type", hint), definitions)
    return {"enum": [member.value for member in hint]} if issubclass(hint, StrEnum) else dict(_PLAIN[hint])
