"""Which evening is shown, and what is said of an hour."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from control_plane.playground.evening import BEFORE_CLOSING, is_evening, start_of_show, title_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.builders.controllers import NOON, OFFICE
from tests.unit.playground.moments import CONFIG

NIGHT_LONG = timedelta(hours=16)
FRIDAY = datetime(2026, 3, 6, 12, tzinfo=UTC)


def test_it_starts_an_hour_before_closing() -> None:
    assert start_of_show(OFFICE, NOON, NIGHT_LONG, None) == NOON.replace(hour=18)


def test_a_start_is_taken_on_that_same_evening() -> None:
    assert start_of_show(OFFICE, NOON, NIGHT_LONG, 16 * 60 + 30) == NOON.replace(hour=16, minute=30)


def test_an_evening_before_a_weekend_waits_for_monday() -> None:
    assert start_of_show(OFFICE, FRIDAY, NIGHT_LONG, None) == datetime(2026, 3, 9, 18, tzinfo=UTC)


def test_a_show_that_lasts_a_weekend_may_start_on_friday() -> None:
    assert start_of_show(OFFICE, FRIDAY, timedelta(days=4), None) == FRIDAY.replace(hour=18)


@pytest.mark.parametrize("week", [(), tuple(WeeklyInterval(day, 0, 1440) for day in range(7))])
def test_where_nothing_ever_closes_it_starts_at_six(week: tuple[WeeklyInterval, ...]) -> None:
    hours = BusinessHours(timezone="UTC", week=week)

    assert start_of_show(hours, NOON, NIGHT_LONG, None) == NOON.replace(hour=18)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 365 * 24 * 60))
def test_every_show_sees_a_closing_and_the_next_opening(minutes: int) -> None:
    now = NOON + timedelta(minutes=minutes)
    start = start_of_show(OFFICE, now, NIGHT_LONG, None)
    opening = OFFICE.next_opening(start)

    assert start >= now
    assert OFFICE.is_open(start)
    assert not OFFICE.is_open(start + BEFORE_CLOSING)
    assert opening is not None
    assert opening < start + NIGHT_LONG


def test_each_hour_says_what_holds_and_until_when() -> None:
    titles = [title_of(CONFIG, NOON.replace(hour=hour, minute=minute)) for hour, minute in ((12, 0), (20, 0), (7, 50))]

    assert titles == [
        "business hours until 19:00: flexible budgets are closed",
        "night: flexible budgets are open until 07:45",
        "closing guard: budgets are closed, opening 08:00",
    ]


def test_a_night_without_an_end_says_so() -> None:
    never = replace(CONFIG, hours=BusinessHours(timezone="UTC", week=()))

    assert title_of(never, NOON) == "night: flexible budgets are open until never"


def test_the_evening_is_the_first_hours_of_the_night() -> None:
    assert [is_evening(OFFICE, NOON.replace(hour=hour)) for hour in (18, 19, 20, 22)] == [False, True, True, False]
