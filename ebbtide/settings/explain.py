"""The values of a stack with its bases as YAML, each with the file and line that it comes from."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings.defaults import defaults_at, has_effect_unset, is_key, keys_at, meaning_of_absence
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
from ebbtide.settings.load import StackFile
from ebbtide.settings.patch import exchanged, key_text, on_one_line
from ebbtide.settings.reading import Sections
from ebbtide.settings.sections.node_groups import filled_group
from ebbtide.settings.sections.workers import CELERY_KEYS, SourceKind

SECRET = "[secret]"

_WIDEST = 72  # columns of values; the comments of wider lines are not aligned


def explained(stack: StackFile, path: str = "") -> Iterator[str]:
    """Yield all values, or those at a path such as `workers.train.max`, as commented lines of YAML.

    After a single value come the values that it replaces, after the values at a path the defaults of its other keys. A
    key that the stack leaves out has its default, or the defaults of its keys. Raises `StackInvalid` for a path that
    does not exist.
    """
    values = stack.merged
    if path and (absent := _absent(values, path)):
        yield from _in_place_of(stack, absent)
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
    if at and is_mapping(value_at(values.config, at)) and _is_shown(at) and at[0] not in ENCRYPTED:
        yield from _default_lines(stack, at)


def _default_lines(stack: StackFile, at: Location) -> Iterator[str]:
    for key, default in _defaults(stack, at).items():
        yield f"# default: {key}: {on_one_line(default)}"


def _defaults(stack: StackFile, at: Location) -> Mapping[str, object]:
    """Return the defaults of the keys that the stack leaves out at a location, without those that it could not write:
    they belong to another kind, or follow from other keys.
    """
    present = value_at(stack.merged.config, at)
    keys: Mapping[str, object] = present if is_mapping(present) else {}
    defaults = {key: default for key, default in _unchecked_defaults(stack, at).items() if key not in keys}
    before = _faults(stack, stack.merged.config)

    def is_valid(added: Mapping[str, object]) -> bool:
        return _faults(stack, exchanged(stack.merged.config, at, {**keys, **added})) <= before

    if is_valid(defaults):
        return defaults
    return {key: default for key, default in defaults.items() if is_valid({key: default})}


def _unchecked_defaults(stack: StackFile, at: Location) -> Mapping[str, object]:
    """Return the defaults of all keys at a location; of node groups those of their kinds."""
    if VARIANTS in at:  # keys that a variant leaves out are those of its service
        return {}
    config, defaults, name = stack.merged.config, defaults_at(at), at[-1]
    if name == "source" and (value_at(config, (*at, "kind")) != SourceKind.CELERY or value_at(config, (*at, "broker"))):
        return {key: default for key, default in defaults.items() if key not in CELERY_KEYS}
    if at[0] != GROUPS or len(at) > 2:
        return defaults
    by_cluster = value_at(config, (CLUSTER, "provisioner")) == Provisioner.KARPENTER
    provisioner = Provisioner.KARPENTER if by_cluster else Provisioner.CLUSTER_AUTOSCALER
    if len(at) == 1:
        settings = Sections(config, stack.reader).settings(stack.stack)
        groups = {} if settings is None else settings.node_groups
        return {group: filled_group(group, {}, provisioner) for group in groups}
    filled = filled_group(str(name), value_at(config, at) or {}, provisioner)
    return {**defaults, **filled} if is_mapping(filled) else defaults


def _faults(stack: StackFile, config: Mapping[str, object]) -> set[tuple[str, Location]]:
    sections = Sections(config, stack.reader)
    sections.settings(stack.stack)
    return {(finding.code, finding.at) for finding in sections.findings}


def _absent(values: Merged, path: str) -> Location:
    """Return the location of a key that the stack leaves out; () for a key that it has, or that does not exist."""
    at, rest = _nearest(values, path)
    absent, unknown = _possible(values, at, rest)
    return absent if rest and not unknown else ()


def _possible(values: Merged, at: Location, rest: str) -> tuple[Location, str]:
    """Follow a path from an existing value through keys that the stack could have. Return the location and the rest."""
    while rest and (not at or is_mapping(value_at(values.config, at) or {})):
        word, _, further = rest.partition(".")
        below = (*at, word) if at else (OURS + word.removeprefix(OURS),)
        if at[:1] in {(key,) for key in ENCRYPTED} or not (
            is_key(below) or (at == (GROUPS,) and word in set(NodeKind))
        ):
            break
        at, rest = below, further
    return at, rest


def _in_place_of(stack: StackFile, absent: Location) -> Iterator[str]:
    """Yield the default of a key that the stack leaves out, or the defaults of its keys."""
    key = absent[-1]
    default = _defaults(stack, absent[:-1]).get(str(key)) if len(absent) > 1 else None
    if default is not None:
        yield f"# default: {key}: {on_one_line(default)}"
        return
    below = [*_default_lines(stack, absent)]
    meaning = f" (default: {text})" if (text := meaning_of_absence(absent)) else ""
    in_effect = ", so these defaults apply:" if has_effect_unset(absent) else "; with it, these defaults apply:"
    yield f"# {key}: not set{meaning}{in_effect if below else ''}"
    yield from below


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
    at, rest = _possible(values, at, rest)
    last = value_at(values.config, at)
    possible = [*keys_at(at)]
    keys = list(last) if is_mapping(last) else possible
    word = re.split(r"[.\[]", rest)[0] or rest
    file, line = values.source(at) if at else (values.stack.file, None)
    expected, actual = f"a key of {path_text(at) or 'the stack'}", repr(word.removeprefix(OURS))
    near = did_you_mean(word, [*keys, *possible])
    hint = near if near.startswith("did") else did_you_mean(word, keys)
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
