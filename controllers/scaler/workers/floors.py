"""Planned work and mornings as a minimum of a pool's workers. Pure.

A floor begins `node_startup` before its time, so that nodes are ready when the work starts, and ends as scheduled. A
morning starts at each opening, so a closed day has none.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controllers.doubt import Doubt
from ebbtide.vocabulary.controller_config import ControllerConfig, Floor, Morning, PoolPolicy
from ebbtide.vocabulary.windows import wall_to_instant

LOOK_AHEAD = timedelta(days=1)
"""Mornings that begin within this time are considered. A floor without a known end is valid for this time."""


@dataclass(frozen=True, slots=True)
class FloorNow:
    """The present floor and its end; `until` is None if no change is known."""

    workers: int
    until: datetime | None
    why: str = ""  # the doubt that raises the floor


def floor_at(now: datetime, pool: PoolPolicy, config: ControllerConfig) -> FloorNow:
    """Return the highest floor that covers `now` (aware)."""
    hours, lead = config.hours, config.node_startup
    today = hours.local(now).date()
    starts: list[tuple[datetime, Floor | Morning]] = [
        (wall_to_instant(hours.timezone, today + timedelta(days=offset), floor.at, last=False), floor)
        for floor in pool.floors
        for offset in range(-floor.lasting.days - 2, lead.days + 3)
    ]
    if pool.morning is not None:
        openings = hours.open_spans(now - pool.morning.lasting, now + lead + LOOK_AHEAD)
        starts += [(opening.start, pool.morning) for opening in openings]
    workers, edges = 0, list[datetime]()
    for start, floor in starts:
        begin, end = start - lead, start + floor.lasting
        if begin <= now < end:
            workers = max(workers, floor.workers)
        edges += [edge for edge in (begin, end) if edge > now]
    return FloorNow(workers, min(edges, default=None))


def raised_by_any(ours: FloorNow, now: datetime, pool: PoolPolicy, config: ControllerConfig, doubt: Doubt) -> FloorNow:
    """Return the highest floor by any clock; `ours` is the floor by this process's clock."""
    workers = max((floor_at(instant, pool, config).workers for instant in doubt.others(now)), default=0)
    return replace(ours, workers=workers, why=doubt.why) if workers > ours.workers else ours
