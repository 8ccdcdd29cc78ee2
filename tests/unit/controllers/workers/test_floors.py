"""Planned work raises a floor ahead of its time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from controllers.scaler.workers.floors import LOOK_AHEAD, FloorNow, floor_at
from ebbtide.vocabulary.controller_config import Floor, Morning
from tests.builders.controllers import OFFICE, config, pool_policy

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


def test_work_of_several_days_ends_on_the_clock_of_the_day_it_began() -> None:
    long = Floor(at=23 * 60, lasting=timedelta(days=2, hours=12), workers=2)

    assert floors(at(10, day=8), long) == FloorNow(2, at(11, day=8))  # the one of the fifth


def test_a_time_that_happens_twice_is_its_first_occurrence() -> None:
    work = Floor(at=60 + 30, lasting=timedelta(minutes=30), workers=2)
    first = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)

    assert floors(first, work, zone=NEW_YORK).workers == 2
    assert floors(first + timedelta(hours=1), work, zone=NEW_YORK).workers == 0


def mornings(now: datetime) -> FloorNow:
    """The office opens at 08:00 UTC from Monday to Friday."""
    pool = pool_policy(morning=Morning(lasting=timedelta(hours=1), workers=3))
    return floor_at(now, pool, config(hours=OFFICE, node_startup=AHEAD))


def test_a_morning_that_begins_within_a_day_is_known() -> None:
    assert mornings(at(7, 56, day=6)) == FloorNow(3, at(9, day=6))
    assert mornings(at(9, day=6)) == FloorNow(0, at(7, 55, day=7))
    assert mornings(at(7, 56, day=4)) == FloorNow(0, at(7, 55, day=5))  # Sunday


def test_what_is_more_than_a_day_ahead_is_not_looked_for() -> None:
    assert mornings(at(7, 54, day=4)) == FloorNow(0, None)
    assert timedelta(days=1) == LOOK_AHEAD
