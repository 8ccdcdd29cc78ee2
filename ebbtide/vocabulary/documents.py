"""Config documents: provisioning fills dataclasses with `from_settings()` and writes them as JSON text with `dump()`; a
process reads them with `load()`.

A document is one JSON object whose keys are the fields in camelCase. Durations are in seconds, times of day in minutes
from local midnight, dates in ISO 8601. A field with a default may be missing, and unknown keys are ignored, so that a
process may be newer or older than its document. A field has the value of the setting with its name, unless its metadata
names another setting or provisioning calculates it.
"""

import json
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, timedelta
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

KEY = "key"
"""In a field's metadata: the JSON key, if it is not the field's name in camelCase."""
FORMER_KEY = "former"
"""In a field's metadata: the key that the previous release wrote, which is also read."""
SETTING = "setting"
"""In a field's metadata: the setting that the field copies, such as `source.queues`, if it has not the field's name."""
OMIT_DEFAULT = {"omit": "default"}
"""Metadata of a field that is written only if it differs from its default: a new key changes no existing document."""


class UnreadableConfig(ValueError):
    """This version cannot read the document; the message has the reason."""


class Document:
    """Base of a process's config."""

    __slots__ = ()

    SCHEMA: ClassVar[int] = 0  # written into the document; this number and the previous one are read. 0: none
    EXTENDED: ClassVar[int] = 0  # written into, and read from, documents that the previous release must refuse. 0: none

    @property
    def extended(self) -> bool:
        """True if the previous release would misunderstand the document."""
        return False

    def check(self) -> None:
        """Raise `UnreadableConfig` for values that have the right type but that the process cannot use."""


_MALFORMED = (LookupError, TypeError, ValueError, OverflowError, RecursionError)
_T = TypeVar("_T")
_DocumentT = TypeVar("_DocumentT", bound=Document)


def from_settings(kind: type[_T], settings: object, /, **calculated: object) -> _T:
    """Return the dataclass `kind` with the `calculated` fields, and every other field copied from `settings`.

    Where a field holds dataclasses, the settings there are copied in the same way. No field is left to its default, so
    that none is forgotten. Raises AttributeError for a field without a setting, and TypeError for a value of another
    type or a calculated value without a field.
    """
    values = dict(calculated)
    for field in _fields(kind):
        value = values[field.name] if field.name in values else attrgetter(field.setting)(settings)
        values[field.name] = _field_value(field.hint, value, _copied)
    return kind(**values)


def _copied(hint: Any, value: Any) -> Any:
    if is_dataclass(hint) and not isinstance(value, cast("type[Any]", hint)):
        return from_settings(cast("type[Any]", hint), value)
    return _checked(hint, value)


def dump(config: Document) -> str:
    """Return JSON text with sorted keys: equal configs give equal text."""
    number = config.EXTENDED if config.extended else config.SCHEMA
    schema = {"schema": number} if number else {}
    return json.dumps({**schema, **encoded(config)}, indent=2, sort_keys=True) + "\n"


def load(kind: type[_DocumentT], text: str) -> _DocumentT:
    """Parse a document. Raises `UnreadableConfig`."""
    content, title = _parsed(text, kind)
    try:
        config = decoded(kind, content)
        config.check()
    except UnreadableConfig:
        raise
    except _MALFORMED as error:
        raise UnreadableConfig(f"{title} is incomplete or malformed: {error!r}") from error
    return config


def _parsed(text: str, kind: type[Document]) -> tuple[dict[str, Any], str]:
    """Return the JSON object, and its name for messages."""
    schema = kind.SCHEMA
    try:
        content = cast("dict[str, Any]", json.loads(text))
        if not schema:
            return content, "the document"
        number = content["schema"]
    except _MALFORMED as error:
        if not schema:
            raise UnreadableConfig(f"the document is incomplete or malformed: {error!r}") from error
        raise UnreadableConfig(f"wanted a JSON object with a schema number: {error}") from error
    *others, last = readable = (schema - 1, schema, *([kind.EXTENDED] if kind.EXTENDED else []))
    if number not in readable:
        known = ", ".join(map(str, others))
        raise UnreadableConfig(f"schema {number!r}: this controller reads {known} and {last}")
    return content, f"schema {number} document"


def encoded(value: Any) -> Any:
    """Convert a dataclass to JSON types, with keys in camelCase. `/status` uses this form, too."""
    if is_dataclass(value):
        items = ((field, getattr(value, field.name)) for field in _fields(type(value)))
        return {field.keys[0]: encoded(item) for field, item in items if item != field.omitted}
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (tuple, frozenset)):
        entries = cast("Iterable[Any]", value)
        return [encoded(entry) for entry in (sorted(entries) if isinstance(value, frozenset) else entries)]
    return value


def decoded(kind: type[_T], content: Mapping[str, Any]) -> _T:
    """Return the dataclass `kind` from a JSON object in the form of `encoded`."""
    values: dict[str, Any] = {}
    for field in _fields(kind):
        key = next((key for key in field.keys if key in content), field.keys[0])
        if field.required or key in content:
            values[field.name] = _field_value(field.hint, content[key], _read)
    return kind(**values)


def _read(hint: Any, value: Any) -> Any:
    if is_dataclass(hint):
        return decoded(cast("type[Any]", hint), value)
    if hint is timedelta:
        return timedelta(seconds=value)
    if hint is date:
        return date.fromisoformat(value)
    return _checked(hint, value)


def _field_value(hint: Any, value: Any, convert: Callable[[Any, Any], Any]) -> Any:
    """Return the value with `convert` applied to it, or to each entry of a tuple or set."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return None if value is None else _field_value(arguments[0], value, convert)
    if get_origin(hint) in (tuple, frozenset):
        if isinstance(value, str):  # its letters would pass for entries
            raise TypeError(f"wanted a list, found {value!r}")
        return get_origin(hint)(_field_value(arguments[0], entry, convert) for entry in value)
    return convert(hint, value)


def _checked(hint: Any, value: Any) -> Any:
    if not isinstance(value, hint):
        raise TypeError(f"wanted {hint.__name__}, found {value!r}")
    return value


class _Field(NamedTuple):
    name: str
    keys: tuple[str, ...]  # the first key is written, all keys are read
    hint: Any
    setting: str
    required: bool
    omitted: object  # the value that is not written


@cache
def _fields(kind: type[Any]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    return tuple(
        _Field(
            entry.name,
            _keys(entry.name, entry.metadata),
            hints[entry.name],
            setting=entry.metadata.get(SETTING, entry.name),
            required=entry.default is MISSING,
            omitted=entry.default if OMIT_DEFAULT.items() <= entry.metadata.items() else MISSING,
        )
        for entry in fields(kind)
        if entry.init
    )


def _keys(name: str, metadata: Mapping[str, str]) -> tuple[str, ...]:
    former = (metadata[FORMER_KEY],) if FORMER_KEY in metadata else ()
    return (metadata.get(KEY) or _camel_case(name), *former)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
