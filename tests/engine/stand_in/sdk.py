"""What the SDK's own annotations say of a resource: which inputs it takes, of which kinds, and what it answers.

Nobody has to keep a list: a misspelt property, or text where a number belongs, is found for any resource of the SDK.
"""

import importlib
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeAlias, get_args, get_origin

import pulumi
from pulumi import _types
from pulumi.runtime.rpc import UNKNOWN, get_resource_module
from pulumi_kubernetes.apiextensions import CustomResource

Json: TypeAlias = dict[str, Any]
_LATER, _LISTS, _OBJECTS = (Awaitable, pulumi.Output), (list, Sequence), (dict, Mapping)


@cache
def classes(token: str) -> tuple[type, type]:
    """The resource's class and that of its arguments. Raises LookupError for a type that the SDK does not have.

    A group of Kubernetes that the SDK does not know is that of somebody's definition: any object is one of it.
    """
    package, module, _ = token.split(":")
    importlib.import_module(f"pulumi_{package}")
    found: Any = get_resource_module(package, module, "")
    if found is None and package == "kubernetes":
        return CustomResource, dict
    if found is None or token not in found.mod_info["classes"]:
        raise LookupError(f"{token}: no such resource")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a module of pulumi_aws.ec2 that nobody uses
        resource = getattr(importlib.import_module(found.mod_info["fqn"]), found.mod_info["classes"][token])
    home, name = sys.modules[resource.__module__], resource.__name__
    return resource, getattr(home, f"{name}InitArgs", None) or getattr(home, f"{name}Args")


def problems(hint: Any, value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each place where `value` is not what the annotation wants, and why. What is not known yet is let through."""
    hint = _types.unwrap_type(hint)
    origin = get_origin(hint) or hint
    kind: type[object] = value.__class__
    members = [each for each in get_args(hint) if get_origin(each) not in _LATER and each is not type(None)]
    if value == UNKNOWN or hint is Any:
        return
    if _types.is_input_type(hint) and kind is dict:
        yield from _of_object(hint, value, path)
    elif origin in _LISTS and kind is list:
        for number, each in enumerate(value):
            yield from problems(members[0], each, f"{path}[{number}]")
    elif origin in _OBJECTS and kind is dict:
        for key, each in value.items():
            yield from problems(members[1] if members else Any, each, f"{path}.{key}")
    elif _types._is_union_type(hint):
        found = [list(problems(member, value, path)) for member in members]
        if all(found):
            yield min(found, key=len)[0]
    elif not (value in members if origin is Literal else _is_scalar(hint, value)):
        yield path, f"wanted {getattr(hint, '__name__', hint)}, found {value!r}"


def _of_object(cls: type, value: Json, path: str) -> Iterator[tuple[str, str]]:
    kinds = _types.input_type_types(cls)
    for key in sorted(_types._required_property_names(cls) - value.keys()):
        yield f"{path}.{key}".lstrip("."), "is missing"
    for key, each in value.items():
        spelt = key.replace("-", "_")  # as the SDK spells `x-kubernetes-list-type`, which the provider takes either way
        if spelt in kinds:
            yield from problems(kinds[spelt], each, f"{path}.{key}".lstrip("."))
        elif not key.startswith("__"):  # what the engine adds
            yield f"{path}.{key}".lstrip("."), f"no such property in {cls.__name__}"


def believable(resource: type, arguments: type | None, given: Json, tell: Callable[[str, type], Any]) -> Json:
    """`given`, and beside it what AWS would add: all that only it can say, and what the SDK says is always there."""
    inputs = _types.input_type_types(arguments) if arguments else {}
    answer = dict(given)
    for name, hint in _types._raw_return_hints(resource).items():
        kind = _types.unwrap_type(hint)
        if name not in given:
            if name not in inputs or not _types._is_optional_type(get_args(hint)[0]):
                answer[name] = _invented(kind, name, tell)
        elif _types.is_output_type(kind) and isinstance(given[name], dict):
            answer[name] = believable(kind, inputs.get(name), given[name], tell)
    return answer


def _invented(kind: Any, name: str, tell: Callable[[str, type], Any]) -> Any:
    if _types.is_output_type(kind):
        parts = _types.output_type_types(kind)
        return {part: _invented(hint, part, tell) for part, hint in parts.items() if hint is not kind}
    if get_origin(kind) in _LISTS:
        return [_invented(_types.unwrap_type(get_args(kind)[0]), name, tell)]
    return {} if get_origin(kind) in _OBJECTS else tell(name, kind)


def _is_scalar(hint: Any, value: Any) -> bool:
    if hint is int:
        return isinstance(value, float) and value.is_integer()  # the wire has one kind of number
    return isinstance(value, {str: str, bool: bool, float: float}.get(hint, ()))
