"""The lives of nodes from their samples, and the gaps between the exporter's samples. Pure.

A node's object has a creation time, so its start is exact even if no sample was recorded then. It ended between its
last sample and the exporter's next reading without it: the ledger takes the middle, or, before a gap, the last sample.
A node that was there before a gap and is there after it under the same name and creation time ran in between.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

SILENCE_S = 300.0
"""Prometheus' own limit: after five minutes without a sample a series has ended."""
Span = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """Times of samples: of the exporter while it saw nodes, and of each node; creation times by node name."""

    looks: Sequence[float]
    seen: Mapping[NodeKey, Sequence[float]]
    created: Mapping[str, Sequence[float]]


def gaps_between(looks: Sequence[float], begin: float, end: float) -> tuple[Span, ...]:
    """Return the stretches of the month without a sample for longer than `SILENCE_S`."""
    edges = [begin, *(at for at in looks if begin < at < end), end]
    return tuple((before, after) for before, after in pairwise(edges) if after - before > SILENCE_S)


def lives_of(sightings: Sightings) -> tuple[Life, ...]:
    """Return all lives; two nodes of one name at different times are two lives, as is a node before and after a label
    changed.
    """
    first_seen: dict[tuple[str, float], float] = {}
    for key, seen in sightings.seen.items():
        for birth in sightings.created.get(key.node, ()):
            after = [at for at in seen if at >= birth - _CLOCK_S]
            if after:
                first_seen[key.node, birth] = min(*after, first_seen.get((key.node, birth), after[0]))
    return tuple(
        life for key, seen in sightings.seen.items() for life in _lives(key, sorted(set(seen)), sightings, first_seen)
    )


def _lives(
    key: NodeKey, seen: Sequence[float], sightings: Sightings, first_seen: Mapping[tuple[str, float], float]
) -> Iterator[Life]:
    births = sorted(set(sightings.created.get(key.node, ())))
    edges = [0, *(bisect_left(seen, birth - _CLOCK_S) for birth in births), len(seen)]
    for birth, (first, last) in zip((None, *births), pairwise(edges), strict=True):
        cuts = [place for place in range(first + 1, last) if _absent(seen[place - 1], seen[place], sightings.looks)]
        for begin, end in pairwise((first, *cuts, last)) if first < last else ():
            created = birth if birth is not None and seen[begin] == first_seen.get((key.node, birth)) else None
            start = seen[begin] if created is None else min(created, seen[begin])
            yield Life(key=key, created=created, begin=start, end=_end(seen[end - 1], sightings.looks))


def _absent(before: float, after: float, looks: Sequence[float]) -> bool:
    """True if the exporter looked more than three times in between without the node: it was away, not unrecorded."""
    return bisect_left(looks, after) - bisect_right(looks, before) > _MISSED


_MISSED = 3
_CLOCK_S = 60.0  # by which the API server's clock may be ahead of Prometheus'


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


def most_at_once(lives: Iterable[Life]) -> Mapping[str, int]:
    """Return the highest number of nodes at one time, by group. An end comes before a begin of the same instant."""
    changes: dict[str, list[tuple[float, int]]] = {}
    for life in lives:
        changes.setdefault(life.key.group, []).extend([(life.begin, 1), (life.end, -1)])
    return {group: max(accumulate(step for _, step in sorted(steps))) for group, steps in changes.items()}
