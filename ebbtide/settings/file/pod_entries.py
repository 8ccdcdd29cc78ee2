"""Where the pods of a stack file stand, however little of them can be read.

Most sections hold pods by name. That of Ray clusters holds clusters, whose head and groups are pods each, and
that of services holds services, whose variants are.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from ebbtide.settings.file.problems import Location, value_at
from ebbtide.settings.file.service_entries import SERVICES, VARIANTS

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
    """The entries of a section; none where it is no mapping."""
    if isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in cast("Mapping[object, object]", value).items())
