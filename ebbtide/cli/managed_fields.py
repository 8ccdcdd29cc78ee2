"""Who owns a field of a Kubernetes object, and taking one owner off the list. Pure: objects in, lists out.

The trap: an apply *without* the field is the usual way to give one up, and it resets the value (replicas to 1, or to 0
on the scale subresource) or removes it (maxUnavailable). Editing the list itself leaves the value alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

Entry = Mapping[str, Any]

REPLICAS = ("spec", "replicas")
MAX_UNAVAILABLE = ("spec", "maxUnavailable")


def owners_of(entries: Sequence[Entry], field: Sequence[str]) -> list[str]:
    """The managers of a field, each once."""
    names = [str(entry.get("manager", "")) for entry in entries if _owns(entry.get("fieldsV1"), field)]
    return list(dict.fromkeys(names))


def without_owner(entries: Sequence[Entry], field: Sequence[str], manager: str) -> list[Entry]:
    """The same list, with `manager` no longer an owner of `field`; an entry that owns nothing else goes.

    A list that would be empty becomes one empty entry, which is how the API server is told to clear it: an empty list
    it takes for "leave the list alone".
    """
    left: list[Entry] = []
    for entry in entries:
        fields = entry.get("fieldsV1")
        if entry.get("manager") != manager or not _owns(fields, field):
            left.append(entry)
        elif rest := _without(cast("Mapping[str, Any]", fields), field):
            left.append({**entry, "fieldsV1": rest})
    return left or [{}]


def _owns(fields: object, path: Sequence[str]) -> bool:
    for name in path:
        if not isinstance(fields, Mapping) or f"f:{name}" not in fields:
            return False
        fields = cast("Mapping[str, Any]", fields)[f"f:{name}"]
    return True


def _without(fields: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The field and every parent that was there for it alone are gone; `.` marks a parent as owned itself."""
    key, rest = f"f:{path[0]}", path[1:]
    inner = _without(cast("Mapping[str, Any]", fields[key]), rest) if rest else {}
    return {name: inner if name == key else value for name, value in fields.items() if name != key or inner}
