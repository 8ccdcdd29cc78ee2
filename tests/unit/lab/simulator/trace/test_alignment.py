"""Where a trace begins in the customer's week."""

from datetime import date, datetime, timedelta

import pytest

from ebbtide.lab.simulator.billing import day_ends, open_spans
from ebbtide.lab.simulator.trace.alignment import aligned_start, busiest_half_day, shifted_starts
from ebbtide.lab.simulator.trace.traces import find_trace
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval, zone_of
from tests.builders.simulator import HOUR, OFFICE_WEEK, a_job

ZONE = "America/New_York"
OFFICE = BusinessHours(timezone=ZONE, week=OFFICE_WEEK)
NEW_YORK = zone_of(ZONE)


def test_the_busiest_half_day_may_cross_midnight_of_the_trace() -> None:
    assert busiest_half_day(find_trace("openb2023-a").jobs) == 17
    assert busiest_half_day([a_job(hour * HOUR) for hour in (20, 26)]) == 15


def test_the_middle_of_the_busy_half_day_falls_on_the_middle_of_a_monday() -> None:
    start = aligned_start(find_trace("openb2023-a").jobs, OFFICE)

    busy = start + timedelta(hours=23)  # 17:00 and half of twelve hours
    assert (busy.weekday(), busy.strftime("%H:%M")) == (0, "13:30")
    assert str(start.tzinfo) == ZONE  # another test may have had so many zones read that this one was read anew


def test_a_monday_without_business_hours_is_passed_over() -> None:
    closed = BusinessHours(timezone=ZONE, week=OFFICE_WEEK, closed_dates=frozenset({date(2026, 6, 1)}))

    assert aligned_start([a_job(0)], closed) - aligned_start([a_job(0)], OFFICE) == timedelta(weeks=1)


def test_a_customer_without_mondays_gets_midday() -> None:
    sundays = BusinessHours(timezone=ZONE, week=(WeeklyInterval(6, 600, 700),))

    start = aligned_start([a_job(11 * HOUR)], sundays)

    assert (start + timedelta(hours=busiest_half_day([a_job(11 * HOUR)]) + 6)).strftime("%a %H:%M") == "Mon 12:00"


def test_a_start_is_shifted_by_six_hours_either_way() -> None:
    start = datetime(2026, 6, 1, 3, tzinfo=NEW_YORK)

    assert [f"{moved:%a %H:%M}" for moved in shifted_starts(start)] == ["Sun 21:00", "Mon 03:00", "Mon 09:00"]


def test_a_shift_is_elapsed_time_in_the_night_that_the_clocks_change() -> None:
    start = datetime(2026, 11, 1, 0, tzinfo=NEW_YORK)  # clocks go back two hours later

    (moved,) = shifted_starts(start, [timedelta(hours=6)])

    assert (moved.strftime("%H:%M"), moved.tzinfo) == ("05:00", NEW_YORK)
    with pytest.raises(ValueError, match="wanted an instant with its zone"):
        shifted_starts(start.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("start", "days", "ends"),
    [
        (datetime(2026, 6, 1, 12, tzinfo=NEW_YORK), 1, (12, 24)),
        (datetime(2026, 6, 1, 0, tzinfo=NEW_YORK), 2, (24, 48)),
        (datetime(2026, 10, 31, 0, tzinfo=NEW_YORK), 3, (24, 49, 72)),  # clocks go back in the night to 1 November
    ],
)
def test_a_bill_ends_at_every_local_midnight(start: datetime, days: int, ends: tuple[int, ...]) -> None:
    assert day_ends(start, ZONE, days * 24 * HOUR) == tuple(hours * HOUR for hours in ends)


def test_open_spans_are_clipped_to_the_replay() -> None:
    start = datetime(2026, 6, 1, 12, tzinfo=NEW_YORK)

    assert open_spans(OFFICE, start, 24 * HOUR) == ((0.0, 7 * HOUR), (20 * HOUR, 24 * HOUR))
