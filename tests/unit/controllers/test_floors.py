"""Planned work raises a floor ahead of its time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from controllers.workers.floors import FloorNow, floor_at
from ebbtide.vocabulary.controller_config import Floor
from tests.builders_controllers import OFFICE, config, pool_policy

AHEAD = timedelta(minutes=5)
TRAIN = Floor(at=2 * 60, lasting=timedelta(hours=2), workers=6)  # 02:00 to 04:00
NEW_YORK = "America/New_York"


def floors(now: datetime, *planned: Floor, zone: str = "UTC") -> FloorNow:
    hours = replace(OFFICE, timezone=zone)
    return floor_at(now, pool_policy(floors=planned), config(hours=hours, node_startup=AHEAD))


def at(hour: int, minute: int = 0, *, day: int = 5) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def test_the_floor_rises_the_node_start_up_ahead_of_the_work() -> None:
    before = floors(at(1, 54), TRAIN)
    after = floors(at(1, 55), TRAIN)

    assert before == FloorNow(0, at(1, 55))
    assert after == FloorNow(6, at(4))


def test_the_floor_ends_on_the_clock() -> None:
    assert floors(at(4), TRAIN) == FloorNow(0, at(1, 55, day=6))


def test_the_time_is_local() -> None:
    assert floors(at(7), TRAIN, zone=NEW_YORK).workers == 6  # 02:00 in New York
    assert floors(at(3), TRAIN, zone=NEW_YORK).workers == 0


def test_work_over_midnight_still_holds_on_the_next_day() -> None:
    late = Floor(at=23 * 60, lasting=timedelta(hours=30), workers=2)

    assert floors(at(4), late).workers == 2


def test_the_highest_of_overlapping_floors_counts() -> None:
    small = Floor(at=60, lasting=timedelta(hours=8), workers=2)

    assert floors(at(3), small, TRAIN) == FloorNow(6, at(4))


def test_no_floors_never_change() -> None:
    assert floors(at(3)) == FloorNow(0, None)
