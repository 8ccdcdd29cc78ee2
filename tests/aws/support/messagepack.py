"""MessagePack as Terraform writes values with it: no packages, and one extension for what is not known yet."""

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
