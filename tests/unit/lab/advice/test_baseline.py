"""How many workers a slot of the week needed, counted by hand here."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.advice.floors import Calendar, DemandHour, PoolDemand, by_weekday, daily_slots, middle, morning_slots
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.vocabulary.windows import zone_of
from tests.builders.simulator import HOUR, a_stack

DAY = 24 * HOUR
NEW_YORK = zone_of("America/New_York")
HOURS = a_stack().business_hours.hours([2026])  # mon-fri 08:00-19:00
FROM_MONDAY = Calendar(hours=HOURS, start=datetime(2026, 6, 1, tzinfo=NEW_YORK))


def a_pooled(at: float, lasts: float = HOUR, members: int = 1) -> PooledJob:
    return PooledJob(at, lasts, "train", members)


def test_a_slot_holds_what_was_running_when_it_began() -> None:
    demand = PoolDemand([a_pooled(0, 3 * HOUR), a_pooled(HOUR, HOUR, members=4)])

    assert [demand.peak(hour * HOUR, (hour + 1) * HOUR) for hour in range(4)] == [1, 5, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=12), st.integers(0, 50), st.integers(1, 10))
def test_the_peak_is_that_of_the_busiest_moment(spans: list[tuple[int, int]], start: int, length: int) -> None:
    demand = PoolDemand([a_pooled(float(at), float(lasts)) for at, lasts in spans])

    busiest = max(sum(at <= moment < at + lasts for at, lasts in spans) for moment in range(start, start + length))
    assert demand.peak(start, start + length) == busiest


def test_mornings_are_the_openings_of_working_days() -> None:
    assert morning_slots(FROM_MONDAY, [0], 0) == [DemandHour(day, day * DAY + 8 * HOUR) for day in range(5)]
    assert morning_slots(FROM_MONDAY, [1], 1)[0] == DemandHour(0, 7 * DAY + 9 * HOUR)


def test_hours_of_the_clock_come_every_day() -> None:
    assert daily_slots(FROM_MONDAY, [0], 2) == [DemandHour(day, day * DAY + 2 * HOUR) for day in range(7)]


def test_an_hour_of_the_clock_stays_so_when_the_clocks_change() -> None:
    calendar = Calendar(hours=HOURS, start=datetime(2026, 3, 7, tzinfo=NEW_YORK))  # the next day has 23 hours

    assert [slot.begins / HOUR for slot in daily_slots(calendar, [0], 12)][:2] == [12, 35]


def test_a_trace_that_begins_at_noon_has_its_first_morning_on_the_next_day() -> None:
    calendar = Calendar(hours=HOURS, start=datetime(2026, 6, 1, 12, tzinfo=NEW_YORK))

    assert morning_slots(calendar, [0], 0)[0] == DemandHour(1, 20 * HOUR)
    assert len(morning_slots(calendar, [0], 0)) == 5


@pytest.mark.parametrize(("quantile", "count"), [(0.25, 1), (0.5, 2), (0.9, 4)])
def test_a_quantile_is_taken_over_the_same_weekday_of_all_weeks(quantile: float, count: int) -> None:
    """Mondays wanted 4, 1, 3 and 2 at opening; Tuesdays always 7."""
    mondays = [a_pooled(week * 7 * DAY + 8 * HOUR, members=n) for week, n in enumerate((4, 1, 3, 2))]
    tuesdays = [a_pooled(week * 7 * DAY + 32 * HOUR, members=7) for week in range(4)]

    quantiles = by_weekday(PoolDemand([*mondays, *tuesdays]), morning_slots(FROM_MONDAY, range(4), 0), quantile)

    assert quantiles == {0: count, 1: 7, 2: 0, 3: 0, 4: 0}


def test_of_two_in_the_middle_the_lower_counts() -> None:
    assert (middle([5, 1, 9, 2]), middle([3]), middle([])) == (2, 3, 0)
