"""Readers of resource inputs of any shape: a wrong shape reads as empty, so it breaks no rule by accident.

A value that is unknown before an update is a string. Numbers may be floats, the engine's only number type.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_core import PydanticCustomError

from ebbtide.kube.selectors import may_hold
from ebbtide.settings.sections.types import parse_cpu, parse_memory


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping; otherwise an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def mappings(value: object) -> tuple[Mapping[str, Any], ...]:
    """The mappings of a list."""
    if not isinstance(value, list | tuple):
        return ()
    items = cast("Sequence[object]", value)
    return tuple(cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping))


def texts(value: object) -> dict[str, str]:
    """The texts of a mapping such as labels, annotations or tags; other values are left out."""
    return {key: item for key, item in mapping(value).items() if isinstance(item, str)}


def words(value: object) -> tuple[str, ...]:
    """The texts of a list."""
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in cast("Sequence[object]", value) if isinstance(item, str))


def value_at(value: object, path: str) -> Any:
    """The value at a dotted path; None if it does not exist."""
    for part in path.split("."):
        value = mapping(value).get(part)
    return value


def whole_number(value: object) -> int | None:
    """A whole number; None for other values, including booleans."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value == int(value) else None


def millicores(value: object) -> int:
    """A CPU quantity; 0 if it is missing or invalid."""
    try:
        return parse_cpu(value)
    except PydanticCustomError:
        return 0


def mebibytes(value: object) -> int:
    """A memory quantity; 0 if it is missing or invalid."""
    try:
        return parse_memory(value)
    except PydanticCustomError:
        return 0


def selects(selector: object, labels: Mapping[str, str]) -> bool:
    """True if a Kubernetes label selector matches the labels; an empty one matches all."""
    match_labels = texts(value_at(selector, "matchLabels"))
    if not match_labels.items() <= labels.items():
        return False
    return all(_expression_holds(expression, labels) for expression in mappings(value_at(selector, "matchExpressions")))


def _expression_holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(expression.get("key", "")), words(expression.get("values"))
    own = {key: frozenset((labels[key],))} if key in labels else {}
    return may_hold(own, key, expression.get("operator"), values)
