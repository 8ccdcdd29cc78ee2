"""The values of a stack with its bases as YAML, each with the file and line that it comes from."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from ebbtide.provisioning_labels import Provisioner
from ebbtide.settings.defaults import defaults_at, is_key
from ebbtide.settings.file.bases import Merged, is_mapping
from ebbtide.settings.file.document import OURS
from ebbtide.settings.file.keys import CLUSTER, ENCRYPTED, GROUPS, KEYS, VARIANTS
from ebbtide.settings.file.problems import (
    Location,
    Problem,
    Secret,
    StackInvalid,
    did_you_mean,
    path_text,
    value_at,
    without_login,
)
from ebbtide.settings.patch import key_text, on_one_line
from ebbtide.settings.sections.node_groups import filled_group

SECRET = "[secret]"

_WIDEST = 72  # columns of values; the comments of wider lines are not aligned


def explained(values: Merged, path: str = "") -> Iterator[str]:
    """Yield all values, or those at a path such as `workers.train.max`, as commented lines of YAML.

    After a single value come the values that it replaces, after the values at a path the defaults of its other keys.
    Raises `StackInvalid` for a path that does not exist.
    """
    if path and (default := _default_of(values, path)):
        yield default
        return
    at = _location(values, path) if path else ()
    lines = list(_lines(values, at[:-1], [(at[-1], value_at(values.config, at))] if at else values.config.items(), ""))
    width = min(max((len(text) for text, source in lines if source), default=0), _WIDEST)
    for text, source in lines:
        yield f"{text:<{width}}  # {source}" if source else text
    if at and not is_mapping(value_at(values.config, at)):
        for layer in reversed(values.layers):
            replaced = value_at(layer.config, at)
            if replaced is not None and layer is not values.owner(at):
                yield f"# replaces {_shown(at, replaced)} of {layer.source(at)}"
    present = value_at(values.config, at)
    if at and is_mapping(present) and _is_shown(at) and at[0] not in ENCRYPTED:
        for key, default in _defaults(values, at).items():
            if key not in present:
                yield f"# default: {key}: {on_one_line(default)}"


def _defaults(values: Merged, at: Location) -> Mapping[str, object]:
    """The defaults of the keys at a location; of a node group also those of its kind."""
    if VARIANTS in at:  # keys that a variant leaves out are those of its service
        return {}
    defaults = defaults_at(at)
    if at[0] != GROUPS or len(at) != 2:
        return defaults
    by_cluster = value_at(values.config, (CLUSTER, "provisioner")) == Provisioner.KARPENTER
    provisioner = Provisioner.KARPENTER if by_cluster else Provisioner.CLUSTER_AUTOSCALER
    filled = filled_group(str(at[1]), value_at(values.config, at), provisioner)
    return {**defaults, **filled} if is_mapping(filled) else defaults


def _default_of(values: Merged, path: str) -> str:
    """The line of a key that the stack leaves out; empty for a key that it has, or that does not exist."""
    at, rest = _nearest(values, path)
    whole = (*at, rest)
    if not at or not rest.isidentifier() or at[0] in ENCRYPTED or not is_key(whole):
        return ""
    default = _defaults(values, at).get(rest)
    return f"# {rest}: not set" if default is None else f"# default: {rest}: {on_one_line(default)}"


def _lines(
    values: Merged, at: Location, entries: Iterable[tuple[str | int, object]], indent: str
) -> Iterator[tuple[str, str]]:
    """Yield each line and the place of its value, empty for a mapping's key."""
    for key, value in entries:
        here = (*at, key)
        name = f"{indent}-" if isinstance(key, int) else f"{indent}{key_text(key)}:"
        if is_mapping(value) and value and _is_shown(here):
            yield name, ""
            yield from _lines(values, here, value.items(), f"{indent}  ")
        else:
            yield f"{name} {_shown(here, value)}", str(values.source(here))


def _is_shown(at: Location) -> bool:
    """False for other namespaces and for unknown keys: their values may be secrets."""
    return at[0] in KEYS


def _shown(at: Location, value: object) -> str:
    if not _is_shown(at) or isinstance(value, Secret) or (at[0] in ENCRYPTED and value != {}):
        return SECRET
    return on_one_line(_plain(value))


def _plain(value: object) -> object:
    if is_mapping(value):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in cast("Sequence[object]", value)]
    if isinstance(value, Secret):
        return SECRET
    return without_login(value) if isinstance(value, str) else value


def _location(values: Merged, path: str) -> Location:
    """Return the location that a path names. Keys may have dots, so every key that begins the path is tried."""
    at, rest = _nearest(values, path)
    if not rest:
        return at
    last = value_at(values.config, at)
    keys = list(last) if is_mapping(last) else []
    word = re.split(r"[.\[]", rest)[0] or rest
    file, line = values.source(at) if at else (values.stack.file, None)
    expected, actual = f"a key of {path_text(at) or 'the stack'}", repr(word.removeprefix(OURS))
    hint = did_you_mean(word, keys)
    problem = Problem(code="path.unknown", file=file, line=line, path=path, found=actual, wanted=expected, hint=hint)
    raise StackInvalid([problem])


def _nearest(values: Merged, path: str) -> tuple[Location, str]:
    return min((_followed(values.config, text, ()) for text in (path, OURS + path)), key=lambda way: len(way[1]))


def _followed(value: object, rest: str, at: Location) -> tuple[Location, str]:
    """Follow a path as far as it exists. Return the location and the rest."""
    ways = [(at, rest)]
    if is_mapping(value) and rest:
        for key, inner in value.items():
            after = rest.removeprefix(key)
            if rest.startswith(key) and (not after or after[0] in ".["):
                ways.append(_followed(inner, after.removeprefix("."), (*at, key)))
    elif isinstance(value, list) and (item := re.match(r"\[(\d{1,6})\]\.?", rest)):
        items = cast("list[object]", value)
        if int(item[1]) < len(items):
            ways.append(_followed(items[int(item[1])], rest[item.end() :], (*at, int(item[1]))))
    return min(ways, key=lambda way: len(way[1]))
