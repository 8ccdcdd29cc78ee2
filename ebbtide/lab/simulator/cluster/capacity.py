"""Spot capacity over time: hours in which a group's type has none in a zone, and interruptions at given instants.

A launch without capacity makes no machine and costs nothing. If its group may not shrink, it waits until the zone has
capacity again. Running machines of the type stay: a shortage ends none of them.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Span: TypeAlias = tuple[float, float]
"""Begin and end, in seconds from the start of the replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCapacity:
    """The capacity of groups, by group and zone. A group that is not a key always has capacity.

    Shapes: `without` has sorted, disjoint spans, and `interrupted` sorted seconds; an empty zone is a group without
    modelled zones.
    """

    without: Mapping[str, Mapping[str, tuple[Span, ...]]]
    interrupted: Mapping[str, Mapping[str, tuple[float, ...]]] = field(
        default_factory=dict[str, Mapping[str, tuple[float, ...]]]
    )

    def covers(self, group: str) -> bool:
        return group in self.without

    def back_at(self, group: str, zone: str, now: float) -> float:
        """Return `now` if the zone has capacity, or the second at which it has capacity again."""
        spans = self.without.get(group, {}).get(zone, ())
        place = bisect_right(spans, now, key=lambda span: span[0]) - 1
        return max(now, spans[place][1]) if place >= 0 else now


def joined(spans: list[Span]) -> tuple[Span, ...]:
    """Return the spans sorted, with those that touch or overlap as one."""
    merged: list[Span] = []
    for begin, until in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(until, merged[-1][1]))
        else:
            merged.append((begin, until))
    return tuple(merged)
