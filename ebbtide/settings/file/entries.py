"""Find the pods of a stack file before it is validated.

Most sections hold pods by name. `ray` holds clusters, whose head and groups are pods; `services` holds services, whose
variants are pods. The pod keys of a service apply to each of its variants and are copied there before validation, so a
variant is a complete pod. Findings are reported where the file has the key.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from ebbtide.settings.file.problems import Finding, Location, value_at

SERVICES = "ebbtide:services"
VARIANTS = "variants"


def with_variants(config: Mapping[str, Any], inherited: Collection[str], alone: str) -> dict[str, Any]:
    """Return the config with every service as variants; a service without variants gets one named `alone`."""
    services = config.get(SERVICES)
    if not isinstance(services, Mapping):
        return dict(config)
    named_services = cast("Mapping[object, object]", services)
    spread = {str(name): _spread(raw, inherited, alone) for name, raw in named_services.items()}
    return {**config, SERVICES: spread}


def _spread(raw: object, inherited: Collection[str], alone: str) -> object:
    if not isinstance(raw, Mapping):
        return raw
    service = cast("Mapping[str, object]", raw)
    of_pod = {key: value for key, value in service.items() if key in inherited}
    service_keys = {key: value for key, value in service.items() if key not in inherited}
    variants = service.get(VARIANTS)
    if variants is None or variants == {}:
        return {**service_keys, VARIANTS: {alone: of_pod}}
    if not isinstance(variants, Mapping):
        return service_keys
    named_variants = cast("Mapping[object, object]", variants)
    complete = {
        str(name): {**of_pod, **cast("Mapping[str, object]", variant)} if isinstance(variant, Mapping) else variant
        for name, variant in named_variants.items()
    }
    return {**service_keys, VARIANTS: complete}


def as_written(findings: Sequence[Finding], config: Mapping[str, object]) -> list[Finding]:
    """Move each finding to the location in the file; a fault in a service's key is reported once, not per variant."""
    unique: dict[tuple[Location, str, str], Finding] = {}
    for finding in findings:
        written = replace(finding, at=_written(finding.at, config))
        unique.setdefault((written.at, written.code, written.found), written)
    return list(unique.values())


def _written(at: Location, config: Mapping[str, object]) -> Location:
    if at[0] != SERVICES or len(at) < 4 or at[2] != VARIANTS:
        return at
    service = _inside(config.get(SERVICES), at[1])
    variant = _inside(_inside(service, VARIANTS), at[3])
    if at[3] == "":
        return (*at[:2], *at[4:])
    if len(at) > 4 and _inside(variant, at[4]) is None and _inside(service, at[4]) is not None:
        return (*at[:2], *at[4:])
    return at


def _inside(value: object, key: object) -> object:
    return cast("Mapping[object, object]", value).get(key) if isinstance(value, Mapping) else None


RAY = "ebbtide:ray"


class RawPod(NamedTuple):
    at: Location
    name: str  # of its account and its budget
    raw: object


def raw_pods(config: Mapping[str, object], sections: Sequence[str]) -> Iterator[RawPod]:
    for section in sections:
        for name, raw in named_entries(config.get(section)):
            if section == RAY:
                yield RawPod((section, name, "head"), f"{name}-head", value_at(raw, ("head",)))
                for group, inner in named_entries(value_at(raw, ("groups",))):
                    yield RawPod((section, name, "groups", group), f"{name}-{group}", inner)
            elif section == SERVICES:
                for variant, inner in named_entries(value_at(raw, (VARIANTS,))):
                    yield RawPod((section, name, VARIANTS, variant), f"{name}-{variant}" if variant else name, inner)
            else:
                yield RawPod((section, name), name, raw)


def named_entries(value: object) -> Iterator[tuple[str, object]]:
    """Yield the entries of a section, none if it is not a mapping."""
    if isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in cast("Mapping[object, object]", value).items())
