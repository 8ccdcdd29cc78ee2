"""Changed inputs of a resource, each with its path and the displayed value before and after.

Entries of a list are compared by name if each has a unique one under the same key, such as `name` of a container or
`mountPath` of a volume mount. Other lists are aligned by their equal entries, or compared by position where one path
would have two differences. An entry that is removed from the middle of a list is one difference, and the entries after
it are equal. Another order is one difference.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, TypeAlias, cast

from ebbtide.preview.document import FieldChange
from ebbtide.recording.resources import MASK, Resource, masked_inputs
from ebbtide.settings.file.problems import show

_NAME_KEYS = (
    "name",
    "mountPath",  # one volume may be mounted twice
    "groupName",
    "containerName",
    "job_name",
    "alert",
    "instanceType",
    "resourceType",
    "topologyKey",
    "Sid",
)
"""Keys whose value names an entry of a list in Kubernetes, AWS, Prometheus and our documents; the first that fits."""
_NAME = re.compile(r"(?!\d+$)[\w./:-]{1,100}", re.ASCII)
"""What a path shows in brackets: no number, which would read as an index, and nothing that may be a login."""

_SHOWN = 60  # characters of a value
_LEAD = 12  # characters before the first that differs
_LONGEST_JSON = 100_000  # characters; longer texts are not parsed as JSON


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A scalar or an empty container. Its display is not compared: a changed secret is a change, but shows no value."""

    value: object
    shown: object = field(compare=False)


_Tree: TypeAlias = "_Leaf | Mapping[str, _Tree] | list[_Tree] | None"
"""Inputs with their display; None is a missing value, as null counts as absent."""


def changed_fields(before: Resource, after: Resource) -> tuple[FieldChange, ...]:
    """Sorted by path; without the fields of `ignore_changes` of the later side."""
    if before.inputs == after.inputs:  # true for most resources
        return ()
    changes = (
        FieldChange(path=path, before=shown_before, after=shown_after)
        for path, old, new in _differences("", _tree_of(before), _tree_of(after))
        if not _ignored(path, after.ignore_changes)
        for shown_before, shown_after in (_shown_pair(old and old.shown, new and new.shown),)
    )
    return tuple(sorted(changes, key=lambda change: change.path))


def inputs_differ_at(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """True if the inputs differ at a path as the engine writes it, with the indices of lists."""
    return _value_at(before, path) != _value_at(after, path)


def _value_at(value: Any, path: str) -> Any:
    """The value at the path, or at the longest part of it that the inputs have."""
    for quoted, index, key in re.findall(r'\["([^"]*)"\]|\[(\d+)\]|([^.\[\]]+)', path):
        if isinstance(value, list):
            entries = cast("list[Any]", value)
            value = entries[int(index)] if index and int(index) < len(entries) else None
        elif isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(quoted or key)
        else:
            return value
    return value


def _ignored(path: str, ignored: Sequence[str]) -> bool:
    return any(path == prefix or path.startswith((f"{prefix}.", f"{prefix}[")) for prefix in ignored)


def _tree_of(resource: Resource) -> _Tree:
    is_secret = resource.inputs.get("kind") == "Secret"
    parsed = resource if is_secret else replace(resource, inputs=_with_json_read(resource.inputs))
    return _tree(parsed.inputs, masked_inputs(parsed))


def _with_json_read(value: Any) -> Any:
    """Parse JSON documents in texts, such as the controller's config, so that one changed word is one changed field."""
    if isinstance(value, Mapping):
        return {key: _with_json_read(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_with_json_read(item) for item in cast("list[Any]", value)]
    if isinstance(value, str) and value.startswith("{") and len(value) <= _LONGEST_JSON:
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _tree(value: Any, shown: Any) -> _Tree:
    """A masked container masks everything in it."""
    if isinstance(value, Mapping) and value:
        masks: Mapping[str, Any] = cast("Mapping[str, Any]", shown) if isinstance(shown, Mapping) else {}
        return {key: _tree(item, masks.get(key, MASK)) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list) and value:
        items = cast("list[Any]", value)
        masked_items: list[Any] = cast("list[Any]", shown) if isinstance(shown, list) else [MASK] * len(items)
        return [_tree(item, mask) for item, mask in zip(items, masked_items, strict=True)]
    if value is None:
        return None
    empty = "{}" if isinstance(value, Mapping) else "[]" if isinstance(value, list) else None
    return _Leaf(cast("object", empty or value), empty or shown)


def _differences(path: str, old: _Tree, new: _Tree) -> Iterator[tuple[str, _Leaf | None, _Leaf | None]]:
    """Yield every leaf that differs or is missing on a side. A container that became a leaf, or a list, is two."""
    if old == new:
        return
    if isinstance(old, _Leaf) or isinstance(new, _Leaf):
        leaves = old if isinstance(old, _Leaf) else None, new if isinstance(new, _Leaf) else None
        yield path, *leaves
        yield from _differences(path, None if leaves[0] else old, None if leaves[1] else new)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _entries(path, old, new)
    elif isinstance(old, list) or isinstance(new, list):
        lists = old if isinstance(old, list) else [], new if isinstance(new, list) else []
        yield from _entries(path, *lists)
        yield from _differences(path, None if lists[0] else old, None if lists[1] else new)
    else:
        old, new = old or {}, new or {}
        for key in {**old, **new}:
            yield from _differences(_joined(path, key), old.get(key), new.get(key))


def _entries(path: str, old: list[_Tree], new: list[_Tree]) -> Iterator[tuple[str, _Leaf | None, _Leaf | None]]:
    if named := _by_name(old, new):
        old_names, new_names = named
        for name in {**old_names, **new_names}:
            yield from _differences(f"{path}[{name}]", old_names.get(name), new_names.get(name))
        orders = [[name for name in one if name in other] for one, other in (named, named[::-1])]
        if orders[0] != orders[1]:
            yield path, _order(orders[0]), _order(orders[1])
        return
    if _reordered(old, new):
        yield path, _order(_scalars(old)), _order(_scalars(new))
        return
    aligned = [*_aligned(old, new)]
    if len({index for index, _, _ in aligned}) < len(aligned):  # one path would have two differences
        aligned = [(index, *pair) for index, pair in enumerate(zip_longest(old, new))]
    for index, one, other in aligned:
        yield from _differences(f"{path}[{index}]", one, other)


def _order(names: Sequence[str]) -> _Leaf:
    text = ", ".join(names)
    return _Leaf(text, text)


def _scalars(entries: list[_Tree]) -> list[str]:
    return [str(entry.shown) for entry in entries if isinstance(entry, _Leaf)]


def _reordered(old: list[_Tree], new: list[_Tree]) -> bool:
    """True for the same scalars in another order."""
    scalars = all(isinstance(entry, _Leaf) for entry in (*old, *new))
    return scalars and sorted(map(repr, old)) == sorted(map(repr, new))


def _by_name(old: list[_Tree], new: list[_Tree]) -> tuple[dict[str, _Tree], dict[str, _Tree]] | None:
    """The entries of both lists under the first key that names all of them; None if no key does."""
    for key in _NAME_KEYS:
        names = [_names(entries, key) for entries in (old, new)]
        if all(len(set(side)) == len(entries) for side, entries in zip(names, (old, new), strict=True)):
            return dict(zip(names[0], old, strict=True)), dict(zip(names[1], new, strict=True))
    return None


def _names(entries: list[_Tree], key: str) -> list[str]:
    """The displayed names of the entries that have one, so that a masked name is not shown."""
    leaves = [entry.get(key) for entry in entries if isinstance(entry, Mapping)]
    shown = [leaf.shown for leaf in leaves if isinstance(leaf, _Leaf)]
    return [name for name in shown if isinstance(name, str) and _NAME.fullmatch(name)]


def _aligned(old: list[_Tree], new: list[_Tree]) -> Iterator[tuple[int, _Tree, _Tree]]:
    """The entries that differ, with their index: a removed entry has its former one, all others the later one."""
    matcher = SequenceMatcher(None, [repr(entry) for entry in old], [repr(entry) for entry in new], autojunk=False)
    for _, old_start, old_end, new_start, new_end in (code for code in matcher.get_opcodes() if code[0] != "equal"):
        pairs = zip_longest(range(old_start, old_end), range(new_start, new_end))
        for old_index, new_index in pairs:
            one = None if old_index is None else old[old_index]
            other = None if new_index is None else new[new_index]
            yield cast("int", old_index if new_index is None else new_index), one, other


def _joined(path: str, key: str) -> str:
    if not key.replace("-", "").replace("_", "").isalnum():
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _shown_pair(before: object, after: object) -> tuple[str, str]:
    old, new = _text(before), _text(after)
    if old != new or not (isinstance(before, str) and isinstance(after, str)) or before == after:
        return old, new
    if "@" in before or "@" in after:  # may be a login: an excerpt could show its secret part
        return f"({len(before)} characters)", f"({len(after)} characters)"
    start = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    begin = max(0, (start or min(len(before), len(after))) - _LEAD)
    return _text("…" + before[begin : begin + _SHOWN - 1]), _text("…" + after[begin : begin + _SHOWN - 1])


def _text(value: object) -> str:
    """The value without the quotes of messages; unprintable characters are escaped."""
    if value is None:
        return ""
    text = show(value)
    return text[1:-1] if isinstance(value, str) and text[:1] in "'\"" else text
