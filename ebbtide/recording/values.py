"""Reading resource inputs that may hold anything: a wrong shape reads as nothing, and so breaks no rule by accident.

A value that is not known before an update stands there as a text. Numbers may be floats: the engine knows no others.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_core import PydanticCustomError

from ebbtide.settings.sections.types import parse_cpu, parse_memory


def mapping(value: object) -> Mapping[str, Any]:
    """A part of some inputs as the mapping that it should be; a wrong shape reads as nothing."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def mappings(value: object) -> tuple[Mapping[str, Any], ...]:
    """The mappings of a list."""
    if not isinstance(value, list | tuple):
        return ()
    items = cast("Sequence[object]", value)
    return tuple(cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping))


def texts(value: object) -> dict[str, str]:
    """Labels, annotations, tags: what is no text is left out."""
    return {key: item for key, item in mapping(value).items() if isinstance(item, str)}


def words(value: object) -> tuple[str, ...]:
    """The texts of a list."""
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in cast("Sequence[object]", value) if isinstance(item, str))


def value_at(value: object, path: str) -> Any:
    """The value behind a dotted path; None where the way there ends."""
    for part in path.split("."):
        value = mapping(value).get(part)
    return value


def whole(value: object) -> int | None:
    """A whole number; None for everything else, truth values included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value == int(value) else None


def millicores(value: object) -> int:
    """A CPU quantity; 0 for none, and for one that cannot be read."""
    try:
        return parse_cpu(value)
    except PydanticCustomError:
        return 0


def mebibytes(value: object) -> int:
    """A memory quantity; 0 for none, and for one that cannot be read."""
    try:
        return parse_memory(value)
    except PydanticCustomError:
        return 0


def selects(selector: object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of Kubernetes takes these labels; an empty one takes all."""
    wanted = texts(value_at(selector, "matchLabels"))
    if not wanted.items() <= labels.items():
        return False
    return all(_expression_holds(expression, labels) for expression in mappings(value_at(selector, "matchExpressions")))


def _expression_holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(expression.get("key", "")), words(expression.get("values"))
    operators = {
        "In": key in labels and labels[key] in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }
    return operators.get(str(expression.get("operator", "")), False)
