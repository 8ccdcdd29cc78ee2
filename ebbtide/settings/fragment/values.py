"""Looking into a fragment that may have any shape: what is not there, or of another kind, counts as empty."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias, TypeGuard

from ebbtide.settings.file.problems import Location, value_at

Entry: TypeAlias = tuple[Location, Mapping[str, object]]
"""A mapping, and where in the fragment it stands."""


def mapping(value: object) -> Mapping[str, object]:
    return value if is_mapping(value) else {}


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list | tuple)


def items(value: object) -> tuple[object, ...]:
    return tuple(value) if is_list(value) else ()


def entries_of(root: object, *at: str | int) -> Iterator[Entry]:
    """The mappings in the list at that place."""
    for index, entry in enumerate(items(value_at(root, at))):
        if is_mapping(entry):
            yield (*at, index), entry


def containers(fragment: object) -> Iterator[Entry]:
    """Those that run beside each other, and those that run before them."""
    yield from entries_of(fragment, "containers")
    yield from entries_of(fragment, "initContainers")


def inside(root: object, at: Location = ()) -> Iterator[tuple[Location, str, object]]:
    """Every key at every depth: where its mapping stands, its name and its value."""
    if is_mapping(root):
        for key, value in root.items():
            yield at, key, value
            yield from inside(value, (*at, key))
    else:
        for index, value in enumerate(items(root)):
            yield from inside(value, (*at, index))
