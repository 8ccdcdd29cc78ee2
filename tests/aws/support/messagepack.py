"""MessagePack as Terraform writes and reads values with it: no packages, and an extension for what is not known yet."""

import struct
from collections.abc import Mapping
from typing import Any, cast

UNKNOWN = object()
"""A value that only AWS can say."""


def packed(value: Any) -> bytes:
    """None, truth, whole and broken numbers, text, lists and mappings. Raises TypeError for anything else."""
    if value is UNKNOWN:
        return b"\xd4\x00\x00"
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return struct.pack(">Bq", 0xD3, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, str):
        text = value.encode()
        return struct.pack(">BI", 0xDB, len(text)) + text
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return struct.pack(">BI", 0xDD, len(items)) + b"".join(map(packed, items))
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return struct.pack(">BI", 0xDF, len(pairs)) + b"".join(packed(key) + packed(each) for key, each in pairs)
    raise TypeError(f"no value of Terraform: {value!r}")


def unpacked(data: bytes) -> Any:
    """Of what the provider writes: it takes the shortest form of each value."""
    value, rest = _first(memoryview(data))
    if rest:
        raise ValueError(f"{len(rest)} bytes are left over")
    return value


_FIXED: Mapping[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: "f",
    0xCB: "d",
    0xCC: "B",
    0xCD: "H",
    0xCE: "I",
    0xCF: "Q",
    0xD0: "b",
    0xD1: "h",
    0xD2: "i",
    0xD3: "q",
}
_TEXTS = {0xD9: "B", 0xDA: "H", 0xDB: "I"}
_LISTS = {0xDC: "H", 0xDD: "I"}
_MAPPINGS = {0xDE: "H", 0xDF: "I"}
_EXTENSIONS = {0xC7: "B", 0xC8: "H", 0xC9: "I"}


def _first(data: memoryview) -> tuple[Any, memoryview]:
    """The first value, and what comes after it."""
    kind, rest = data[0], data[1:]
    if kind in _FIXED:
        return _FIXED[kind], rest
    if kind <= 0x7F or kind >= 0xE0:
        return kind - 256 if kind >= 0xE0 else kind, rest
    if kind in _NUMBERS:
        return _number(_NUMBERS[kind], rest)
    if kind & 0xF0 == 0x80 or kind in _MAPPINGS:
        size, rest = (kind & 0x0F, rest) if kind & 0xF0 == 0x80 else _number(_MAPPINGS[kind], rest)
        return _mapping(size, rest)
    if kind & 0xF0 == 0x90 or kind in _LISTS:
        size, rest = (kind & 0x0F, rest) if kind & 0xF0 == 0x90 else _number(_LISTS[kind], rest)
        return _items(size, rest)
    if kind & 0xE0 == 0xA0 or kind in _TEXTS:
        size, rest = (kind & 0x1F, rest) if kind & 0xE0 == 0xA0 else _number(_TEXTS[kind], rest)
        return str(rest[:size], "utf-8"), rest[size:]
    if 0xD4 <= kind <= 0xD8:
        return UNKNOWN, rest[1 + 2 ** (kind - 0xD4) :]
    size, rest = _number(_EXTENSIONS[kind], rest)
    return UNKNOWN, rest[1 + size :]


def _number(form: str, data: memoryview) -> tuple[Any, memoryview]:
    size = struct.calcsize(f">{form}")
    return struct.unpack(f">{form}", data[:size])[0], data[size:]


def _items(size: int, data: memoryview) -> tuple[list[Any], memoryview]:
    items: list[Any] = []
    for _ in range(size):
        item, data = _first(data)
        items.append(item)
    return items, data


def _mapping(size: int, data: memoryview) -> tuple[dict[str, Any], memoryview]:
    pairs, data = _items(2 * size, data)
    return dict(zip(pairs[::2], pairs[1::2], strict=True)), data
