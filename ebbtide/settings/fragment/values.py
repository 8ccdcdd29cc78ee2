"""Access to a fragment of any form: missing values and values of another type count as empty."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias, TypeGuard

from ebbtide.settings.file.problems import Location, value_at

Entry: TypeAlias = tuple[Location, Mapping[str, object]]
"""A mapping and its location in the fragment."""


def mapping(value: object) -> Mapping[str, object]:
    return value if is_mapping(value) else {}


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list | tuple)


def items(value: object) -> tuple[object, ...]:
    return tuple(value) if is_list(value) else ()


def entries_of(root: object, *at: str | int) -> Iterator[Entry]:
    """Return the mappings in the list at that location."""
    for index, entry in enumerate(items(value_at(root, at))):
        if is_mapping(entry):
            yield (*at, index), entry


def containers(fragment: object) -> Iterator[Entry]:
    """Return the containers and the init containers."""
    yield from entries_of(fragment, "containers")
    yield from entries_of(fragment, "initContainers")


def name_of(entry: Mapping[str, object]) -> str | None:
    """Return the entry's name; None if it has none, or one that is no text."""
    name = entry.get("name")
    return name if isinstance(name, str) else None


def inside(root: object, at: Location = ()) -> Iterator[tuple[Location, str, object]]:
    """Yield every key at every depth: location of its mapping, name and value."""
    if is_mapping(root):
        for key, value in root.items():
            yield at, key, value
            yield from inside(value, (*at, key))
    else:
        for index, value in enumerate(items(root)):
            yield from inside(value, (*at, index))
