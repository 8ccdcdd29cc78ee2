"""Planned work raises a floor ahead of its time."""

from datetime import UTC, datetime, timedelta

from controllers.workers.floors import FloorNow, floor_at
from ebbtide.vocabulary.controller_config import Floor

AHEAD = timedelta(minutes=5)
TRAIN = Floor(at=2 * 60, lasting=timedelta(hours=2), workers=6)  # 02:00 to 04:00
NEW_YORK = "America/New_York"


def at(hour: int, minute: int = 0, *, day: int = 5) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def test_the_floor_rises_the_node_start_up_ahead_of_the_work() -> None:
    before = floor_at(at(1, 54), [TRAIN], "UTC", AHEAD)
    after = floor_at(at(1, 55), [TRAIN], "UTC", AHEAD)

    assert before == FloorNow(0, at(1, 55))
    assert after == FloorNow(6, at(4))


def test_the_floor_ends_on_the_clock() -> None:
    assert floor_at(at(4), [TRAIN], "UTC", AHEAD) == FloorNow(0, at(1, 55, day=6))


def test_the_time_is_local() -> None:
    assert floor_at(at(7), [TRAIN], NEW_YORK, AHEAD).workers == 6  # 02:00 in New York
    assert floor_at(at(3), [TRAIN], NEW_YORK, AHEAD).workers == 0


def test_work_over_midnight_still_holds_on_the_next_day() -> None:
    late = Floor(at=23 * 60, lasting=timedelta(hours=30), workers=2)

    assert floor_at(at(4), [late], "UTC", AHEAD).workers == 2


def test_the_highest_of_overlapping_floors_counts() -> None:
    small = Floor(at=60, lasting=timedelta(hours=8), workers=2)

    assert floor_at(at(3), [small, TRAIN], "UTC", AHEAD) == FloorNow(6, at(4))


def test_no_floors_never_change() -> None:
    assert floor_at(at(3), [], "UTC", AHEAD) == FloorNow(0, None)
