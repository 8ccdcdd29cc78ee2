"""What is wrong with a request by AWS' own model of the service: unknown and missing members, kinds, lengths, patterns.

The client of AWS that the provider is built with looks at none of these but missing members, and moto at few.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.aws.support.service_models import Json, Sent, input_shape, model, operation, values

_KINDS: Mapping[str, tuple[type, ...]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
}


def malformed(sent: Sent) -> list[str]:
    """Each fault with the operation and the way to it."""
    try:
        name = operation(sent)
    except LookupError as error:
        return [str(error)]
    shape = input_shape(sent)
    given = values(sent)
    if not shape:
        return [f"{name}: takes nothing, was given {given}"] if given else []
    return [f"{sent.service} {name}{fault}" for fault in _faults(given, shape, model(sent.service)["shapes"], "")]


def _faults(value: Any, name: str, shapes: Json, path: str) -> Iterator[str]:
    shape: Json = shapes[name]
    kinds = _KINDS.get(shape["type"])  # none for times and bytes, which are text of some form
    if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
        yield f"{path}: {value!r} is no {shape['type']}"
        return
    about = _ABOUT.get(shape["type"])
    if about:
        yield from about(value, shape, shapes, path)


def _of_structure(value: Mapping[str, Any], shape: Json, shapes: Json, path: str) -> Iterator[str]:
    members = {about.get("locationName", name): name for name, about in shape["members"].items()}
    known = {**members, **{name: name for name in shape["members"]}}
    given = {known[key]: each for key, each in value.items() if key in known}
    for key in value.keys() - known.keys():
        yield f"{path}.{key}: there is no such member"
    for key in shape.get("required", ()):
        if given.get(key) is None:
            yield f"{path}.{key}: is required"
    for key, each in given.items():
        if each is not None:
            yield from _faults(each, shape["members"][key]["shape"], shapes, f"{path}.{key}")


def _of_list(value: list[Any], shape: Json, shapes: Json, path: str) -> Iterator[str]:
    yield from _size(len(value), shape, path)
    for number, each in enumerate(value):
        yield from _faults(each, shape["member"]["shape"], shapes, f"{path}[{number}]")


def _of_map(value: Mapping[str, Any], shape: Json, shapes: Json, path: str) -> Iterator[str]:
    yield from _size(len(value), shape, path)
    for key, each in value.items():
        yield from _faults(key, shape["key"]["shape"], shapes, f"{path}.{key}")
        yield from _faults(each, shape["value"]["shape"], shapes, f"{path}.{key}")


def _of_string(value: str, shape: Json, shapes: Json, path: str) -> Iterator[str]:
    yield from _size(len(value), shape, path)
    if "enum" in shape and value not in shape["enum"]:
        yield f"{path}: {value!r} is none of {', '.join(shape['enum'])}"
    if "pattern" in shape and not re.fullmatch(_pattern(shape["pattern"]), value):
        yield f"{path}: {value!r} has not the form {shape['pattern']}"


def _of_number(value: float, shape: Json, shapes: Json, path: str) -> Iterator[str]:
    yield from _size(value, shape, path)


def _size(size: float, shape: Json, path: str) -> Iterator[str]:
    if size < shape.get("min", size) or size > shape.get("max", size):
        yield f"{path}: {size} is not in {shape.get('min', '')}..{shape.get('max', '')}"


def _pattern(text: str) -> str:
    """As Python writes it, which knows Unicode's properties by no name; what it takes instead is a little wider."""
    for theirs, ours in _WRITTEN.items():
        text = text.replace(theirs, ours)
    return text


_WRITTEN: Mapping[str, str] = {
    r"\p{all}": r"\s\S",
    r"\p{L}": r"\w",
    r"\p{Z}": r"\s",
    r"\p{N}": r"\d",
    r"\uD800\uDC00-\uDBFF\uDFFF": r"\U00010000-\U0010FFFF",
    r"\w-_": r"\w\-_",
}
_ABOUT: Mapping[str, Callable[[Any, Json, Json, str], Iterator[str]]] = {
    "structure": _of_structure,
    "list": _of_list,
    "map": _of_map,
    "string": _of_string,
    **dict.fromkeys(("integer", "long", "float", "double"), _of_number),
}
