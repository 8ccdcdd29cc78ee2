from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.report.charts.scales import (
    DAY,
    labelled,
    local_days,
    local_hours,
    local_label,
    nice_ticks,
    ranged_ticks,
)
from ebbtide.vocabulary.windows import zone_of

NEW_YORK = zone_of("America/New_York")


def test_days_are_named_and_cut_at_local_midnight() -> None:
    days = local_days(datetime(2026, 3, 3, 18, tzinfo=NEW_YORK), 2 * DAY)

    assert [(day.begin / 3600, day.end / 3600, day.weekday, day.date) for day in days] == [
        (0, 6, "Tue", "3 Mar"),
        (6, 30, "Wed", "4 Mar"),
        (30, 48, "Thu", "5 Mar"),
    ]


@pytest.mark.parametrize(("month", "date", "hours"), [(3, 8, 23), (11, 1, 25), (11, 2, 24)])
def test_a_day_of_a_clock_change_is_as_long_as_it_was(month: int, date: int, hours: int) -> None:
    first = local_days(datetime(2026, month, date, tzinfo=NEW_YORK), 3 * DAY)[0]

    assert (first.end - first.begin) / 3600 == hours


def test_labels_follow_the_customers_clock_over_a_change() -> None:
    start = datetime(2026, 3, 8, tzinfo=NEW_YORK)

    assert local_label(start, 3 * 3600) == "Sun 8 Mar 04:00"


@given(
    hour=st.integers(0, 23),
    month=st.integers(1, 12),
    horizon=st.floats(1, 40 * DAY),
    zone=st.sampled_from(["Europe/London", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_days_leave_no_gap(hour: int, month: int, horizon: float, zone: str) -> None:
    days = local_days(datetime(2026, month, 20, hour, 30, tzinfo=zone_of(zone)), horizon)

    assert days[0].begin == 0
    assert days[-1].end == horizon
    assert all(left.end == right.begin and left.begin < left.end for left, right in pairwise(days))


def test_all_days_are_labelled_where_there_is_room() -> None:
    days = local_days(datetime(2026, 3, 9, tzinfo=NEW_YORK), 16 * DAY)

    assert labelled(days, 1000) == days


def test_of_too_many_days_only_mondays_are_labelled() -> None:
    """Not the 30th: a clock change makes the replay end one hour into it."""
    days = local_days(datetime(2026, 3, 2, tzinfo=NEW_YORK), 28 * DAY)

    assert [day.date for day in labelled(days, 1000)] == ["2 Mar", "9 Mar", "16 Mar", "23 Mar"]


@pytest.mark.parametrize(
    ("days", "said"), [(6, ["3 Mar", "5 Mar", "7 Mar"]), (10, ["3 Mar", "6 Mar", "9 Mar", "12 Mar"])]
)
def test_a_telephone_labels_every_so_many_days_of_a_short_replay(days: int, said: list[str]) -> None:
    shown = labelled(local_days(datetime(2026, 3, 3, tzinfo=NEW_YORK), days * DAY), 220)

    assert [day.date for day in shown] == said


@given(length=st.integers(1, 400), width=st.floats(60, 2000))
def test_labels_never_need_more_room_than_there_is(length: int, width: float) -> None:
    days = local_days(datetime(2026, 1, 7, tzinfo=NEW_YORK), length * DAY)

    assert 1 <= len(labelled(days, width)) <= max(1, width / 50)


def test_the_hours_of_a_day_follow_the_clock_over_a_change() -> None:
    hours = local_hours(datetime(2026, 3, 8, tzinfo=NEW_YORK), 23 * 3600.0, 500)

    assert [(hour.text, hour.at / 3600) for hour in hours][:3] == [("00:00", 0.0), ("03:00", 2.0), ("06:00", 5.0)]
    assert (hours[-1].text, hours[-1].at / 3600) == ("00:00", 23.0)


def test_a_day_that_begins_between_hours_is_labelled_at_full_ones() -> None:
    hours = local_hours(datetime(2026, 3, 2, 14, 30, tzinfo=zone_of("Asia/Kathmandu")), 5 * 3600.0, 1000)

    assert [(hour.text, hour.at / 3600) for hour in hours] == [
        (f"{hour}:00", hour - 14.5) for hour in (15, 16, 17, 18, 19)
    ]


@given(top=st.just(0.0) | st.floats(1e-3, 1e6), whole=st.booleans())
def test_ticks_start_at_zero_are_even_and_reach_the_top(top: float, whole: bool) -> None:
    ticks = nice_ticks(top, integers=whole)

    gaps = {round(right - left, 9 if right < 1 else 3) for left, right in pairwise(ticks)}
    assert ticks[0] == 0
    assert ticks[-1] >= top * (1 - 1e-6)
    assert ticks[-2] <= top or top == 0
    assert len(ticks) <= 9
    assert all(tick == int(tick) for tick in ticks) or not whole
    assert max(gaps) - min(gaps) <= 1e-3 * max(gaps)


def test_a_value_on_a_tick_needs_no_further_tick() -> None:
    assert ranged_ticks([0.03, 0.07], count=5) == pytest.approx([0.03, 0.04, 0.05, 0.06, 0.07])
