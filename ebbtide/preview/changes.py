"""Differences between two recordings, resource by resource.

Resources are matched by URN without the stack's name, so that a renamed stack is compared with itself. Fields of
`ignore_changes` never differ, since others write them.

A recording invents ids from names, so the followers of a replaced resource show no difference: a subnet of a new
network has the old network's invented id. So replacements are followed: a resource that names a replaced one in an
input that forces replacement is replaced too, and so is one with `deleted_with` (pulumi/pulumi,
pkg/resource/deploy/step_generator.go).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ebbtide.preview.document import ChangeKind, ResourceChange
from ebbtide.preview.fields import changed_fields
from ebbtide.preview.replacing import forcing_paths, goes_first, mutable_kinds, replacing_paths
from ebbtide.recording.answers import identifier
from ebbtide.recording.resources import Resource, is_part, short_type
from ebbtide.recording.values import value_at

FOLLOWS = " follows "
"""In a reason, between a path and the replaced resource that it names."""
GOES_WITH = "deletedWith"
"""The engine's reason if a replacement of one resource also deletes another: a tag goes with its Auto Scaling group."""


def changes_between(before: Sequence[Resource], after: Sequence[Resource]) -> tuple[ResourceChange, ...]:
    """Sorted by component, name, type and URN. Components, providers and resources that are only read are left out."""
    old, new = _under_new_urns(_by_identity(before), after), _by_identity(after)
    pairs = {key: (old[key], new[key]) for key in old.keys() & new.keys()}
    forced = _forced(pairs, mutable_kinds(after))
    outermost = {**_outermost(before), **_outermost(after)}
    changes = [
        *(_create(new[key]) for key in new.keys() - old.keys()),
        *(_delete(old[key]) for key in old.keys() - new.keys()),
        *(change for key, pair in pairs.items() if (change := _change(*pair, forced.get(key, ())))),
    ]
    placed = [replace(change, component=outermost[change.urn]) for change in changes]
    return tuple(sorted(placed, key=lambda change: (change.component, change.name, change.type, change.urn)))


def identity(urn: str) -> str:
    """A URN without its stack."""
    return urn.split("::", 1)[-1]


def _by_identity(resources: Sequence[Resource]) -> dict[str, Resource]:
    return {identity(r.urn): r for r in resources if r.custom and is_part(r)}


def _under_new_urns(old: Mapping[str, Resource], after: Sequence[Resource]) -> dict[str, Resource]:
    """Map former names to current ones: the engine finds a resource by its own and its parents' aliases."""
    by_urn = {resource.urn: resource for resource in after}
    renamed = dict(old)
    for resource in after:
        if identity(resource.urn) not in old:
            former = next((key for urn in _former_urns(resource, by_urn) if (key := identity(urn)) in renamed), None)
            if former is not None and former not in map(identity, by_urn):
                renamed[identity(resource.urn)] = renamed.pop(former)
    return renamed


def _former_urns(resource: Resource, by_urn: Mapping[str, Resource]) -> Iterator[str]:
    """An alias of a component changes the types in the URNs of all its descendants.

    A damaged plan may have parents in a circle.
    """
    yield from resource.aliases
    parent, below = by_urn.get(resource.parent), {resource.urn}
    while parent is not None and parent.urn not in below:
        for former in parent.aliases:
            yield resource.urn.replace(f"::{_types_of(parent.urn)}$", f"::{_types_of(former)}$")
        below.add(parent.urn)
        parent = by_urn.get(parent.parent)


def _types_of(urn: str) -> str:
    return urn.split("::")[2]


def _create(resource: Resource) -> ResourceChange:
    return _plain(ChangeKind.CREATE, resource)


def _delete(resource: Resource) -> ResourceChange:
    return _plain(ChangeKind.DELETE, resource)


def _plain(kind: ChangeKind, resource: Resource) -> ResourceChange:
    return ResourceChange(
        kind=kind,
        type=short_type(resource.type),
        name=resource.name,
        component="",
        urn=resource.urn,
        protected=resource.protect,
    )


def _change(before: Resource, after: Resource, reasons: tuple[str, ...]) -> ResourceChange | None:
    fields = changed_fields(before, after)
    if not fields and not reasons:
        return None
    return replace(
        _plain(ChangeKind.REPLACE if reasons else ChangeKind.UPDATE, after),
        fields=fields,
        reasons=reasons,
        lowers=bool(reasons) and goes_first(before, after),
        protected=before.protect,  # of the old resource, which would be deleted
    )


def _forced(pairs: Mapping[str, tuple[Resource, Resource]], mutable: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The reasons of each replacement: changed inputs, or the replaced resource that it follows."""
    forced = {key: paths for key, (old, new) in pairs.items() if (paths := replacing_paths(old, new, mutable))}
    waiting = [pairs[key][1] for key in forced]
    while waiting:
        replaced = waiting.pop()
        id_ = identifier(replaced.type, replaced.name)
        for key, (_, follower) in pairs.items():
            if key in forced or replaced.urn not in (follower.deleted_with, *follower.depends_on):
                continue
            paths = [path for path in forcing_paths(follower.type, mutable) if path not in follower.ignore_changes]
            paths_to_it = [path for path in paths if id_ in str(value_at(follower.inputs, path))]
            if follower.deleted_with == replaced.urn:
                paths_to_it = [GOES_WITH]
            if paths_to_it:
                forced[key] = tuple(f"{path}{FOLLOWS}{replaced.name}" for path in paths_to_it)
                waiting.append(follower)
    return forced


def _outermost(resources: Sequence[Resource]) -> dict[str, str]:
    """The name of each resource's outermost component, by URN; "" for a resource outside components.

    If a damaged plan has parents in a circle, the outermost component is the last one before the circle closes.
    """
    by_urn = {resource.urn: resource for resource in resources}
    outermost: dict[str, str] = {}
    for resource in resources:
        top, below = resource, {resource.urn}
        while top.parent in by_urn and top.parent not in below:
            top = by_urn[top.parent]
            below.add(top.urn)
        outermost[resource.urn] = "" if top is resource else top.name
    return outermost
