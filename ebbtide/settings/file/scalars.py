"""Unquoted scalars that YAML 1.1 and YAML 1.2 read differently.

Pulumi reads the stack file as 1.2 and most Python tools as 1.1. `22:00` is text in one and 1320 in the other, `NO` is
Norway or false, `012` is 12 or 10. Such values are refused; quotes make them unambiguous.
"""

import math
import re
from typing import Any, TypeAlias, cast

import yaml

Scalar: TypeAlias = str | int | float | bool | None

_TAG = "tag:yaml.org,2002:"
TEXT_TAG = _TAG + "str"

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")  # Python refuses to read more than some thousand digits
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NO_NUMBER = re.compile(r"\.(nan|NaN|NAN)")

_OLD: Any = yaml.SafeLoader("")
_OLD_ONLY_BOOLEANS = frozenset("yYnN")  # the 1.1 specification has them, PyYAML leaves them out


def read_1_2(text: str) -> Scalar:
    """Parse a plain scalar by the core schema of YAML 1.2."""
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return bool(_TRUE.fullmatch(text))
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _INFINITE.fullmatch(text):
        return -math.inf if text.startswith("-") else math.inf
    if _NO_NUMBER.fullmatch(text):
        return math.nan
    return float(text) if _FLOAT.fullmatch(text) else text


def old_tag(text: str) -> str:
    """Return the tag of a plain scalar in YAML 1.1."""
    return str(_OLD.resolve(yaml.ScalarNode, text, (True, False)))


def differs(text: str) -> bool:
    """True if the two versions read this plain scalar as different values."""
    if text in _OLD_ONLY_BOOLEANS:
        return True
    tag = old_tag(text)
    new = read_1_2(text)
    if tag == TEXT_TAG:
        return not isinstance(new, str)
    if tag not in (_TAG + "int", _TAG + "float", _TAG + "bool", _TAG + "null"):
        return True  # dates, the merge key and "=": nothing of the kind exists in 1.2
    try:
        old = cast("Scalar", _OLD.construct_object(yaml.ScalarNode(tag, text), deep=True))
    except ValueError:
        return True  # looks like a number but is none, such as 0b or 1:99:
    both_nan = isinstance(old, float) and isinstance(new, float) and math.isnan(old) and math.isnan(new)
    return not both_nan and (type(old) is not type(new) or old != new)
