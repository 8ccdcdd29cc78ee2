"""Planned work as a floor under a pool. Pure.

A floor begins `node_startup` before its time, so that the nodes are there when the work is; it ends on the clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ebbtide.vocabulary.controller_config import Floor
from ebbtide.vocabulary.windows import Span, wall_to_instant, zone_of


@dataclass(frozen=True, slots=True)
class FloorNow:
    """The floor that holds now, and until when; `until` is None if there are no floors at all."""

    workers: int
    until: datetime | None


def floor_at(now: datetime, floors: Sequence[Floor], timezone: str, node_startup: timedelta) -> FloorNow:
    """The highest floor that covers `now` (aware)."""
    workers = 0
    edges: list[datetime] = []
    for floor in floors:
        for span in _spans_near(now, floor, timezone, node_startup):
            if span.start <= now < span.end:
                workers = max(workers, floor.workers)
            edges += [edge for edge in (span.start, span.end) if edge > now]
    return FloorNow(workers, min(edges, default=None))


def _spans_near(now: datetime, floor: Floor, timezone: str, lead: timedelta) -> Iterator[Span]:
    today = now.astimezone(zone_of(timezone)).date()
    back = floor.lasting.days + 2
    ahead = lead.days + 2
    for offset in range(-back, ahead + 1):
        start = wall_to_instant(timezone, today + timedelta(days=offset), floor.at, last=False)
        yield Span(start - lead, start + floor.lasting)
