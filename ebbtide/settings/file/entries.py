"""Find the pods of a stack file before it is validated.

Most sections hold pods by name. `ray` holds clusters, whose head and groups are pods; `services` holds services, whose
variants are pods. The pod keys of a service apply to each of its variants and are copied there before validation, so a
variant is a complete pod. Findings are reported where the file has the key.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from ebbtide.settings.file.keys import EACH, PODS, PODS_IN, SERVICES, VARIANTS
from ebbtide.settings.file.problems import Finding, Location


class Spread(NamedTuple):
    """A config with every service as variants."""

    config: dict[str, Any]
    origins: Mapping[Location, Location]  # from a key in `config` to the key in the file, where the two differ


def with_variants(config: Mapping[str, Any], inherited: Collection[str], alone: str) -> Spread:
    """Spread the services into variants; a service without variants gets one named `alone`."""
    if not isinstance(config.get(SERVICES), Mapping):
        return Spread(dict(config), {})
    services: dict[str, object] = {}
    origins: dict[Location, Location] = {}
    for name, raw in named_entries(config[SERVICES]):
        services[name] = raw
        if isinstance(raw, Mapping):
            services[name], of_variants = _spread(cast("Mapping[str, object]", raw), inherited, alone)
            service = (SERVICES, name)
            origins |= {(*service, VARIANTS, *at): (*service, *key) for at, key in of_variants.items()}
    return Spread({**config, SERVICES: services}, origins)


def _spread(
    service: Mapping[str, object], inherited: Collection[str], alone: str
) -> tuple[dict[str, object], dict[Location, Location]]:
    """Return the service as variants, and the origins of their keys, from a location in them to one in the service."""
    of_pod = {key: value for key, value in service.items() if key in inherited}
    service_keys = {key: value for key, value in service.items() if key not in inherited}
    variants = service.get(VARIANTS)
    origins: dict[Location, Location] = {(alone,): ()}
    if variants is None or variants == {}:
        return {**service_keys, VARIANTS: {alone: of_pod}}, origins
    if not isinstance(variants, Mapping):
        return service_keys, origins
    complete: dict[str, object] = {}
    for name, raw in named_entries(cast("object", variants)):
        complete[name] = raw
        if isinstance(raw, Mapping):
            variant = cast("Mapping[str, object]", raw)
            complete[name] = {**of_pod, **variant}
            origins |= {
                (name, key): (key,) for key, value in service.items() if value is not None and variant.get(key) is None
            }
    return {**service_keys, VARIANTS: complete}, origins


def as_written(findings: Sequence[Finding], origins: Mapping[Location, Location]) -> list[Finding]:
    """Move each finding to the location in the file; a fault in a service's key is reported once, not per variant."""
    unique: dict[tuple[Location, str, str], Finding] = {}
    for finding in findings:
        written = replace(finding, at=_written(finding.at, origins))
        unique.setdefault((written.at, written.code, written.found), written)
    return list(unique.values())


def _written(at: Location, origins: Mapping[Location, Location]) -> Location:
    ends = (end for end in range(len(at), 0, -1) if at[:end] in origins)
    end = next(ends, 0)
    return (*origins[at[:end]], *at[end:]) if end else at


class PodEntry(NamedTuple):
    at: Location
    name: str  # of its account and its budget
    value: object


def pod_entries(sections: Mapping[str, object], keys: Iterable[str] = PODS) -> Iterator[PodEntry]:
    """Yield the pods of sections by their keys. Values are those of the file, or models."""
    for key in keys:
        for name, entry in named_entries(sections.get(key)):
            for location in PODS_IN[key]:
                for at, value in _values_at(entry, location):
                    yield PodEntry((key, name, *at), f"{name}-{at[-1]}" if at and at[-1] else name, value)


def _values_at(entry: object, location: Sequence[str]) -> Iterator[tuple[tuple[str, ...], object]]:
    if not location:
        yield (), entry
        return
    key, *rest = location
    parts = named_entries(entry) if key == EACH else [(key, _part(entry, key))]
    for name, part in parts:
        yield from (((name, *at), value) for at, value in _values_at(part, rest))


def _part(entry: object, key: str) -> object:
    """Return a part of a value of the file, or of a model."""
    return cast("Mapping[str, object]", entry).get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)


def named_entries(value: object) -> Iterator[tuple[str, object]]:
    """Yield the entries of a section, none if it is not a mapping."""
    if isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in cast("Mapping[object, object]", value).items())
