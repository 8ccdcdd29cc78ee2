"""Change values in the text of a stack file and keep every other character, including comments.

Base files are never changed: the new value is written in the stack file and overrides the base's.
A change carries the value that it replaces. If the file has another value, that is a conflict and nothing changes.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import yaml

from ebbtide.settings.file.bases import Merged, merged, override
from ebbtide.settings.file.contents import FileReader, no_files
from ebbtide.settings.file.document import read_document
from ebbtide.settings.file.problems import Location, path_text, shortened, value_at
from ebbtide.settings.file.scalars import differs

_CONFIG = "config"
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]*(?<!:)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value of a stack with its bases, as parsed YAML. None means that the key is missing."""

    at: Location
    before: object
    after: object
    reason: str

    @property
    def path(self) -> str:
        return path_text(self.at)


class PatchInvalid(ValueError):
    """The changes do not fit the file; `lines` names every conflict."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def patched(text: str, file: str, changes: Sequence[Change], reader: FileReader = no_files) -> str:
    """Return the text of a valid stack file with the changes applied; messages call the file `file`. Raises
    `PatchInvalid`.

    Changes that are already applied are skipped, so a second run changes nothing.
    """
    values = merged(read_document(text, file), file, reader)
    pending = [change for change in changes if value_at(values.config, change.at) != change.after]
    _require_fit(values, pending)
    changed_text, changed_config, own = text, values.config, values.stack.config
    for change in pending:
        changed_config = exchanged(changed_config, change.at, change.after)
        at = _place(values, own, change.at)
        below = value_at(values.below, at)
        value = override(below, value_at(changed_config, at))
        gone = value is None and below is None
        changed_text = _without(changed_text, at) if gone else _with(changed_text, at, value)
        own = exchanged(own, at, value)
    if merged(read_document(changed_text, file), file, reader).config != changed_config:
        paths = ", ".join(change.path for change in pending)
        raise PatchInvalid([f"{file}: {paths}: wanted values that can be exchanged in the text; change them by hand"])
    return changed_text


def difference(before: str, after: str, file: str) -> str:
    """Return a unified diff for `git apply` and `patch -p1`, or "" without changes."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{file}", f"b/{file}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def changes_json(changes: Sequence[Change]) -> list[dict[str, Any]]:
    return [
        {"at": list(change.at), "before": change.before, "after": change.after, "reason": change.reason}
        for change in changes
    ]


def changes_of(document: object, file: str) -> list[Change]:
    """Return the `changes` of an advice's JSON. Raises `PatchInvalid` for any other document."""
    listed = value_at(document, ("changes",))
    if not isinstance(listed, list):
        raise PatchInvalid([f"{file}: wanted changes, as `ebbtide advise … --json FILE` writes them, found none"])
    return [_change(entry, f"{file}: changes[{place}]") for place, entry in enumerate(cast("list[object]", listed))]


def _change(entry: object, where: str) -> Change:
    fields: Mapping[str, object] = cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else {}
    at = fields.get("at")
    if not isinstance(at, list) or not at or not {"before", "after"} <= set(fields):
        raise PatchInvalid([f"{where}: wanted the keys at, before and after"])
    location = tuple(part if isinstance(part, int) else str(part) for part in cast("list[object]", at))
    return Change(at=location, before=fields["before"], after=fields["after"], reason=str(fields.get("reason", "")))


def _place(values: Merged, own: Mapping[str, object], at: Location) -> Location:
    """Return the location to write in the stack file. A project's key and a base's list are written as a whole, since
    the stack file's values replace them.
    """
    if at[0] in values.project and at[0] not in own:
        return at[:1]
    lists = (at[:end] for end in range(1, len(at)) if isinstance(at[end], int) and value_at(own, at[:end]) is None)
    return next(lists, at)


def _require_fit(values: Merged, changes: Sequence[Change]) -> None:
    if values.problems:
        raise PatchInvalid([str(problem) for problem in values.problems])
    lines: list[str] = []
    for change in changes:
        here = value_at(values.config, change.at)
        ends = (end for end, part in enumerate(change.at, start=1) if isinstance(part, int))
        listed = all(value_at(values.config, change.at[:end]) is not None for end in ends)
        if here == change.before and listed:
            continue
        lines.append(
            f"{values.source(change.at)}: {change.path}: wanted {_value_text(change.before)}, "
            f"which the advice was made for, found {_value_text(here)}; ask for the advice again"
        )
    if lines:
        raise PatchInvalid(lines)


def _value_text(value: object) -> str:
    return "no such key" if value is None else shortened(on_one_line(value))


def exchanged(values: Mapping[str, object], at: Location, after: object) -> dict[str, object]:
    """Return a copy with one value replaced, or removed if it is None. A mapping that becomes empty stays."""

    def inner(value: object, path: Location) -> object:
        if not path:
            return after
        part, inner_path = path[0], path[1:]
        if isinstance(part, int):
            items = list(cast("list[object]", value))
            items[part] = inner(items[part], inner_path)
            return items
        mapping = dict(cast("dict[str, object]", value) if isinstance(value, dict) else {})
        mapping[part] = inner(mapping.get(part), inner_path)
        return {key: item for key, item in mapping.items() if not (key == part and not inner_path and after is None)}

    return cast("dict[str, object]", inner(values, at))


def _with(text: str, at: Location, after: object) -> str:
    """Return the text with one value replaced, or added to the nearest existing mapping."""
    node, depth = _nearest(text, (_CONFIG, *at))
    missing = (_CONFIG, *at)[depth:]
    for part in reversed(missing[1:]):
        after = {str(part): after}
    if not missing:
        return _spliced(text, node, on_one_line(after))
    key = str(missing[0])
    if not isinstance(node, yaml.MappingNode):
        return _spliced(
            text, node, f"{'' if text[node.start_mark.index - 1] == ' ' else ' '}{on_one_line({key: after})}"
        )
    entries = _entries(node)
    if not entries:
        return _spliced(text, node, on_one_line({key: after}))
    end = _end(entries[-1][1])
    if node.flow_style:
        return f"{text[:end]}, {on_one_line(key)}: {on_one_line(after)}{text[end:]}"
    entry = f"{key_text(key)}: {on_one_line(after)}"
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    return f"{text[:line_end]}\n{' ' * entries[0][0].start_mark.column}{entry}{text[line_end:]}"


def _without(text: str, at: Location) -> str:
    """Return the text without one key. A mapping that becomes empty is written as `{}`."""
    parent, depth = _nearest(text, (_CONFIG, *at[:-1]))
    if depth != len(at) or not isinstance(parent, yaml.MappingNode):
        return text
    entries = _entries(parent)
    place = next((i for i, (key, _) in enumerate(entries) if key.value == at[-1]), None)
    if place is None:
        return text
    if len(entries) == 1:
        return f"{text[: parent.start_mark.index]}{{}}{text[_end(parent) :]}"
    key, value = entries[place]
    begin, end = key.start_mark.index, _end(value)
    if parent.flow_style:
        return text[: _end(entries[place - 1][1])] + text[end:] if place else text[:begin] + text[_begin(entries[1]) :]
    line_begin = text.rfind("\n", 0, begin) + 1
    if text[line_begin:begin].strip():  # an item of a list begins with this key
        return text[:begin] + text[_begin(entries[1]) :]
    line_end = text.find("\n", end)
    return text[:line_begin] + ("" if line_end < 0 else text[line_end + 1 :])


def _begin(entry: tuple[yaml.Node, yaml.Node]) -> int:
    return entry[0].start_mark.index


def _nearest(text: str, at: Location) -> tuple[yaml.Node, int]:
    """Return the deepest existing node on the way to a location, and its depth."""
    node = cast("yaml.Node", yaml.compose(text, Loader=yaml.SafeLoader))
    for depth, part in enumerate(at):
        inner: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            inner = next((value for key, value in _entries(node) if key.value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            items = cast("list[yaml.Node]", node.value)
            inner = items[part] if part < len(items) else None
        if inner is None:
            return node, depth
        node = inner
    return node, len(at)


def _entries(node: yaml.MappingNode) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    return cast("list[tuple[yaml.ScalarNode, yaml.Node]]", node.value)


def _end(node: yaml.Node) -> int:
    """Return the index of the end of a node's text: PyYAML ends a block after the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = cast("list[Any]", node.value)[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    return node.end_mark.index


def _spliced(text: str, node: yaml.Node, new: str) -> str:
    return text[: node.start_mark.index] + new + text[_end(node) :]


def key_text(key: str) -> str:
    """Return a key of a block mapping, quoted if need be."""
    return key if _PLAIN_KEY.fullmatch(key) and not differs(key) else on_one_line(key)


def on_one_line(value: object) -> str:
    """Return a value as YAML that is valid anywhere in a line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_pairs(cast("Mapping[str, object]", value))) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(on_one_line, cast("Sequence[object]", value))) + "]"
    plain = yaml.safe_dump([value], default_flow_style=True, width=10**9, allow_unicode=True).strip()[1:-1]
    if isinstance(value, str) and (plain[0] in "'\"" or differs(value)):
        return yaml.safe_dump([value], default_flow_style=True, default_style='"', width=10**9).strip()[1:-1]
    return plain


def _pairs(values: Mapping[str, object]) -> Iterator[str]:
    for key, value in values.items():
        yield f"{on_one_line(key)}: {on_one_line(value)}"
