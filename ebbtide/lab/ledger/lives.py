"""The lives of nodes from their samples, and the gaps between the exporter's samples. Pure.

A node's object has a creation time, so its start is exact even if no sample was recorded then. It ended between its
last sample and the exporter's next reading without it: the ledger takes the midpoint, or the last sample before a gap.
A node that was seen before and after a gap with the same name and creation time ran during the gap. A node's first
samples may lack its labels: without an instance type they have the labels of its next sample that has one.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import NamedTuple

from ebbtide.vocabulary.clocks import MAX_CLOCK_SKEW

SILENCE_S = 300.0
"""Prometheus' own limit: after five minutes without a sample a series has ended."""
Span = tuple[float, float]


class NodeType(NamedTuple):
    instance_type: str  # "" for a node without one, whose group states a price
    capacity_type: str


@dataclass(frozen=True, slots=True)
class NodeKey:
    node: str
    group: str
    category: str
    instance_type: str
    capacity_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Seconds since 1970. `created` is None if the node's creation time was not recorded."""

    key: NodeKey
    created: float | None
    begin: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """Sample times of the exporter (while it saw nodes) and of each node, and creation times by node name."""

    looks: Sequence[float]  # increasing
    seen: Mapping[NodeKey, Iterable[float]]
    created: Mapping[str, Iterable[float]]


def gaps_between(looks: Sequence[float], begin: float, end: float) -> tuple[Span, ...]:
    """Return the spans of the month in which no sample was recorded for longer than `SILENCE_S`."""
    edges = [begin, *(at for at in looks if begin < at < end), end]
    return tuple((before, after) for before, after in pairwise(edges) if after - before > SILENCE_S)


def lives_of(sightings: Sightings) -> tuple[Life, ...]:
    """Return all lives. A node starts a new life with another creation time or label, or after an absence."""
    by_node = groupby(sorted(sightings.seen, key=_NODE), key=_NODE)
    return tuple(life for node, keys in by_node for life in _lives(node, keys, sightings))


def _lives(node: str, keys: Iterable[NodeKey], sightings: Sightings) -> Iterator[Life]:
    births, looks = sorted(set(sightings.created.get(node, ()))), sightings.looks
    samples = sorted(((at, key) for key in keys for at in set(sightings.seen[key])), key=itemgetter(0))
    born = [bisect_right(births, at + _CLOCK_S) for at, _ in samples]  # number of births until each sample
    stays = [
        born[place] == born[place - 1] and not _absent(before, at, looks)
        for place, ((before, _), (at, _)) in enumerate(pairwise(samples), start=1)
    ]
    labels = _with_types([key for _, key in samples], stays)
    cuts = [place for place, stayed in enumerate(stays, start=1) if not stayed or labels[place - 1] != labels[place]]
    for first, last in pairwise((0, *cuts, len(samples))) if samples else ():
        at, key = samples[first][0], labels[first]
        is_new = born[first] > (born[first - 1] if first else 0)
        created = births[born[first] - 1] if is_new else None
        begin = at if created is None else min(created, at)
        yield Life(key=key, created=created, begin=begin, end=_end(samples[last - 1][0], looks))


def _with_types(labels: Sequence[NodeKey], stays: Sequence[bool]) -> list[NodeKey]:
    """Replace labels without an instance type by the next ones of the same life that have one, or by the last ones.

    `stays` states for each sample but the first whether the node is the one of the sample before.
    """
    typed = list(labels)
    links = [(place, place + 1) for place, stayed in enumerate(stays) if stayed]
    for into, source in (*reversed(links), *((after, before) for before, after in links)):
        if not typed[into].instance_type and typed[source].instance_type:
            typed[into] = typed[source]
    return typed


def _absent(before: float, after: float, looks: Sequence[float]) -> bool:
    """True if more than three exporter samples in between lack the node: it was away, not merely unrecorded."""
    return bisect_left(looks, after) - bisect_right(looks, before) > _MISSED


_NODE = attrgetter("node")
_MISSED = 3
_CLOCK_S = MAX_CLOCK_SKEW.total_seconds()  # by which the API server's clock may be ahead of Prometheus'


def _end(last: float, looks: Sequence[float]) -> float:
    place = bisect_right(looks, last)
    if place == len(looks) or looks[place] - last > SILENCE_S:
        return last
    return (last + looks[place]) / 2


def overlap(span: Span, other: Span) -> float:
    return max(0.0, min(span[1], other[1]) - max(span[0], other[0]))


def clipped(lives: Iterable[Life], month: Span) -> tuple[Life, ...]:
    """Return the parts of the lives within the month."""
    inside = (replace(life, begin=max(life.begin, month[0]), end=min(life.end, month[1])) for life in lives)
    return tuple(life for life in inside if life.begin < life.end)


def most_at_once(lives: Iterable[Life]) -> Mapping[str, tuple[Mapping[NodeType, int], ...]]:
    """Return the nodes of each instant with the highest number, by group; instants with the same types once.

    An end comes before a begin of the same instant.
    """
    changes: dict[str, list[tuple[float, int, NodeType]]] = {}
    for life in lives:
        kind = NodeType(life.key.instance_type, life.key.capacity_type)
        changes.setdefault(life.key.group, []).extend([(life.begin, 1, kind), (life.end, -1, kind)])
    return {group: _most(sorted(steps)) for group, steps in changes.items()}


def _most(steps: Iterable[tuple[float, int, NodeType]]) -> tuple[Mapping[NodeType, int], ...]:
    there: Counter[NodeType] = Counter()
    found: list[Mapping[NodeType, int]] = []
    number = most = 0
    for _, step, kind in steps:
        there[kind] += step
        number += step
        if number >= most and step > 0:
            found = found if number == most else []
            most = number
            if (nodes := dict(+there)) not in found:
                found.append(nodes)
    return tuple(found)
