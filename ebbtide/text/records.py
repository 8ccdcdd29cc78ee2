"""Records as JSON values: how every command writes its dataclasses."""

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import date
from typing import Any, TypeAlias, cast

Names: TypeAlias = Mapping[type, Mapping[str, str]]
"""By dataclass, each name in the document with the attribute that it shows, in the document's order."""

_FIELDS: Names = {}


def attributes_of(model: type, names: Names = _FIELDS) -> Mapping[str, str]:
    """Return the attributes of a dataclass by their names in a document: those in `names`, or the fields' own."""
    if model in names:
        return names[model]
    return {field.name: field.name for field in cast("tuple[Field[object], ...]", fields(model))}


def plain_values(value: object, names: Names = _FIELDS) -> Any:
    """Return dataclasses and named tuples as mappings, other tuples as lists, and dates as ISO text."""
    if is_dataclass(value) and not isinstance(value, type):
        attributes = attributes_of(type(value), names).items()
        return {name: plain_values(getattr(value, attribute), names) for name, attribute in attributes}
    if as_mapping := getattr(value, "_asdict", None):
        return plain_values(as_mapping(), names)
    if isinstance(value, Mapping):
        return {str(key): plain_values(item, names) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, tuple | list):
        return [plain_values(item, names) for item in cast("tuple[object, ...]", value)]
    return value.isoformat() if isinstance(value, date) else value
