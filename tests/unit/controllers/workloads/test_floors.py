"""The calendar's floor of a service: who asks for how many pods, from when until when."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from controllers.workloads.floors.calendar import PodFloorNow, floor_at
from ebbtide.vocabulary.windows import DatedInterval
from ebbtide.vocabulary.workloads import FloorPolicy, PlannedEvent, PlannedNight
from tests.builders.controllers import OFFICE

LEAD = timedelta(minutes=7)
SALE = PlannedEvent(day=date(2026, 1, 5), at=9 * 60, lasting=timedelta(hours=6), pods=8)  # a Monday
POLICY = FloorPolicy(name="embedder", namespace="ebbtide", keda=False, least=2, most=12, lead=LEAD, open=4)
NIGHT = PlannedNight(at=23 * 60, lasting=timedelta(hours=3), pods=6)


def at(hour: int, minute: int = 0, *, day: int = 5) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def floor(now: datetime, **changes: Any) -> PodFloorNow:
    return floor_at(now, replace(POLICY, **changes), OFFICE)


def test_the_floor_of_business_hours_stands_its_lead_before_they_begin() -> None:
    assert floor(at(7, 52)) == PodFloorNow(2, "at-min", at(7, 53))
    assert floor(at(7, 53)) == PodFloorNow(4, "before-business-hours", at(8))
    assert floor(at(8)) == PodFloorNow(4, "business-hours", at(19))


def test_it_ends_on_the_clock_and_a_weekend_has_none() -> None:
    assert floor(at(19, day=9)) == PodFloorNow(2, "at-min", at(7, 53, day=12))


def test_a_holiday_is_closed() -> None:
    hours = replace(OFFICE, closed_dates=frozenset({date(2026, 1, 6)}))

    assert floor_at(at(12, day=6), POLICY, hours) == PodFloorNow(2, "at-min", at(7, 53, day=7))


def test_a_working_saturday_is_open() -> None:
    hours = replace(OFFICE, open_dates=frozenset({DatedInterval(date(2026, 1, 10), 9 * 60, 14 * 60)}))

    assert floor_at(at(20, day=9), POLICY, hours) == PodFloorNow(2, "at-min", at(8, 53, day=10))
    assert floor_at(at(9, day=10), POLICY, hours) == PodFloorNow(4, "business-hours", at(14, day=10))


def test_an_event_stands_above_business_hours_from_its_lead_to_its_end() -> None:
    assert floor(at(8, 53), events=(SALE,)) == PodFloorNow(8, "before-event", at(9))
    assert floor(at(9), events=(SALE,)) == PodFloorNow(8, "event", at(15))
    assert floor(at(15), events=(SALE,)) == PodFloorNow(4, "business-hours", at(19))


def test_an_event_on_a_closed_day_counts_too() -> None:
    sunday = replace(SALE, day=date(2026, 1, 4))

    assert floor(at(10, day=4), events=(sunday,), open=None) == PodFloorNow(8, "event", at(15, day=4))
    assert floor(at(15, day=4), events=(sunday,), open=None) == PodFloorNow(2, "at-min", None)


def test_a_night_is_planned_for_every_day_and_reaches_over_midnight() -> None:
    assert floor(at(22, 53), overnight=(NIGHT,)) == PodFloorNow(6, "before-overnight", at(23))
    assert floor(at(23), overnight=(NIGHT,)) == PodFloorNow(6, "overnight", at(2, day=6))
    assert floor(at(1, day=6), overnight=(NIGHT,)) == PodFloorNow(6, "overnight", at(2, day=6))
    assert floor(at(23, 30, day=10), overnight=(NIGHT,)).reason == "overnight", "on a Saturday, too"


def test_a_night_counts_on_a_holiday_and_business_hours_do_not() -> None:
    hours = replace(OFFICE, closed_dates=frozenset({date(2026, 1, 6)}))
    policy = replace(POLICY, overnight=(replace(NIGHT, at=12 * 60),))

    assert floor_at(at(11, day=6), policy, hours) == PodFloorNow(2, "at-min", at(11, 53, day=6))
    assert floor_at(at(12, day=6), policy, hours).pods == 6


def test_a_night_within_business_hours_lowers_nothing() -> None:
    assert floor(at(8), overnight=(replace(NIGHT, at=12 * 60, pods=3),)).until == at(19)


def test_a_night_that_lasts_all_day_never_ends() -> None:
    always = replace(NIGHT, lasting=timedelta(hours=24), pods=9)

    assert floor(at(3), overnight=(always,)) == PodFloorNow(9, "overnight", None)


def test_the_wall_time_of_an_event_is_that_of_the_zone() -> None:
    hours = replace(OFFICE, timezone="America/New_York")

    assert floor_at(at(14), replace(POLICY, events=(SALE,)), hours).reason == "event"


def test_a_wall_time_that_comes_twice_is_its_first() -> None:
    berlin = replace(OFFICE, timezone="Europe/Berlin")
    night = PlannedEvent(day=date(2026, 10, 25), at=2 * 60 + 30, lasting=timedelta(hours=1), pods=8)
    seen = floor_at(datetime(2026, 10, 25, 0, 30, tzinfo=UTC), replace(POLICY, events=(night,)), berlin)

    assert seen == PodFloorNow(8, "event", datetime(2026, 10, 25, 1, 30, tzinfo=UTC))


@pytest.mark.parametrize(("pods", "stands"), [(1, 4), (40, 12)])
def test_it_is_never_below_what_else_stands_and_never_above_max(pods: int, stands: int) -> None:
    assert floor(at(10), events=(replace(SALE, pods=pods),)).pods == stands


def test_a_smaller_event_does_not_end_the_number_that_stands() -> None:
    assert floor(at(8), events=(replace(SALE, pods=3),)).until == at(19)


def test_without_business_hours_and_events_nothing_ever_changes() -> None:
    assert floor(at(10), open=None) == PodFloorNow(2, "at-min", None)
    assert floor(at(10), open=2) == PodFloorNow(2, "at-min", None)
