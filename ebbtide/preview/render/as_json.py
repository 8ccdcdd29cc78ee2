"""A page as one JSON document, and its schema, both derived from the dataclasses of `document`."""

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, cast

from ebbtide.preview.document import PreviewDocument

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


def as_json(document: PreviewDocument) -> str:
    return (
        json.dumps({"schema": SCHEMA, **plain_values(document)}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
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


def schema_text() -> str:
    """The text of docs/preview.schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def plain_values(value: object) -> Any:
    """Dataclasses as mappings, tuples as lists, and dates as ISO text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_values(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, tuple):
        return [plain_values(item) for item in cast("tuple[object, ...]", value)]
    return value.isoformat() if isinstance(value, date) else value


def _define(model: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Add the definition of a dataclass, and return a reference to it."""
    if model.__name__ not in definitions:
        definitions[model.__name__] = {}  # ends the recursion of a type that contains itself
        hints = typing.get_type_hints(model)
        model_fields = cast("tuple[Field[object], ...]", fields(model))
        definitions[model.__name__] = {
            "type": "object",
            "additionalProperties": False,
            "required": [field.name for field in model_fields],
            "properties": {field.name: _schema(hints[field.name], definitions) for field in model_fields},
        }
    return {"$ref": f"#/$defs/{model.__name__}"}


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
