"""The closer's schedule, command and rights."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.controller.closer import Closer, CloserArgs, ClosingTime, closing_times
from ebbtide.recording.resources import Resource
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.windows import BusinessHours, DatedInterval, WeeklyInterval
from tests.builders.components import STACK, WORKING_DAYS, controller_config, of_kind, recorded, the
from tests.counts import examples

QUARTER = timedelta(minutes=15)
MONDAY, THURSDAY, SUNDAY = 0, 3, 6
SATURDAY = date(2026, 12, 12)


def closer(config: ControllerConfig | None = None) -> tuple[Resource, ...]:
    args = CloserArgs(stack=STACK, config=config or controller_config())
    return recorded(lambda: Closer("closer", args))


def crons(zone: str, week: Sequence[WeeklyInterval], guard: timedelta = QUARTER) -> list[str]:
    hours = BusinessHours(timezone=zone, week=tuple(week))
    return [closing.cron for closing in closing_times(hours, guard)]


def on_sundays(hour: int, minute: int = 0) -> list[WeeklyInterval]:
    return [WeeklyInterval(SUNDAY, hour * 60 + minute, 12 * 60)]


def test_it_may_touch_the_budgets_of_the_document_and_nothing_else() -> None:
    fixed = BudgetPolicy(name="ray-head", namespace="ebbtide")
    config = replace(controller_config(budgets=("web", "api")), never_opened=(fixed,))

    assert the(closer(config), "Role").inputs["rules"] == [
        {
            "apiGroups": ["policy"],
            "resources": ["poddisruptionbudgets"],
            "verbs": ["get", "patch"],
            "resourceNames": ["api", "ray-head", "web"],
        }
    ]


def test_without_budgets_there_is_nothing_to_close() -> None:
    resources = closer(controller_config(budgets=()))

    assert not of_kind(resources, "CronJob") + of_kind(resources, "ServiceAccount")


@pytest.mark.parametrize(
    ("start", "guard", "cron"),
    [
        (8 * 60, QUARTER, "45 7 * * 1"),
        (10, QUARTER, "55 23 * * 0"),  # Monday 00:10 closes on Sunday night
        (8 * 60, timedelta(seconds=61), "58 7 * * 1"),  # never later than the guard
        (8 * 60, timedelta(0), "0 8 * * 1"),
    ],
)
def test_closing_comes_before_opening(start: int, guard: timedelta, cron: str) -> None:
    assert crons("UTC", [WeeklyInterval(MONDAY, start, start + 60)], guard) == [cron]


def test_each_time_of_day_has_one_job() -> None:
    week = (*WORKING_DAYS, WeeklyInterval(5, 10 * 60, 14 * 60), WeeklyInterval(0, 20 * 60, 22 * 60))
    hours = BusinessHours(timezone="America/New_York", week=week)

    assert closing_times(hours, timedelta(0)) == (
        ClosingTime(8 * 60, (0, 1, 2, 3, 4)),
        ClosingTime(10 * 60, (5,)),
        ClosingTime(20 * 60, (0,)),
    )


@pytest.mark.parametrize(
    ("zone", "opening", "wanted"),
    [
        # On the spring Sunday 02:45 does not exist, and the quarter before 03:00 begins at 01:45.
        ("Europe/Berlin", on_sundays(3), ["45 1 * * 0", "45 2 * * 0"]),
        # The opening itself is skipped: it stands for 03:00.
        ("Europe/Berlin", on_sundays(2, 30), ["45 1 * * 0", "15 2 * * 0"]),
        # Half an hour is skipped, from 02:00 to 02:30.
        ("Australia/Lord_Howe", on_sundays(2, 40), ["55 1 * * 0", "25 2 * * 0"]),
        # Midnight is skipped: the quarter before 01:00 begins on Saturday.
        ("Africa/Cairo", [WeeklyInterval(4, 60, 120)], ["45 0 * * 5", "45 23 * * 4"]),
        ("Asia/Kolkata", on_sundays(3), ["45 2 * * 0"]),  # no clock changes, no second entry
    ],
)
def test_a_closing_time_that_a_clock_change_moves_has_its_own_entry(
    zone: str, opening: Sequence[WeeklyInterval], wanted: Sequence[str]
) -> None:
    assert crons(zone, opening) == wanted


def test_intervals_that_touch_or_overlap_open_once() -> None:
    nights = [WeeklyInterval(day, 22 * 60, 30 * 60) for day in range(5)]  # to 06:00 on the next day
    mornings = [WeeklyInterval(day, 6 * 60, 12 * 60) for day in range(1, 6)]
    overlapping = [WeeklyInterval(day, 10 * 60, 14 * 60) for day in range(1, 6)]

    # A morning continues the night before, unless that day is a holiday.
    assert crons("Europe/Berlin", [*nights, *mornings, *overlapping]) == ["45 5 * * 2,3,4,5,6", "45 21 * * 1,2,3,4,5"]


def test_hours_that_never_open_still_have_a_daily_run_for_what_maintenance_left() -> None:
    assert crons("Europe/Berlin", []) == ["0 0 * * 1,2,3,4,5,6,0"]


@pytest.mark.parametrize("days", [range(5), range(7)])
def test_it_runs_before_the_opening_that_follows_a_holiday_in_hours_around_the_clock(days: range) -> None:
    holiday = frozenset({date(2026, 12, 24)})  # a Thursday
    week = tuple(WeeklyInterval(day, 0, 24 * 60) for day in days)
    hours = BusinessHours(timezone="Europe/Berlin", week=week, closed_dates=holiday)

    opening = hours.next_opening(datetime(2026, 12, 24, 12, tzinfo=UTC))

    assert opening == datetime(2026, 12, 24, 23, tzinfo=UTC)  # midnight in Berlin
    assert {THURSDAY} <= {day for closing in closing_times(hours, QUARTER) for day in closing.weekdays}
    assert {closing.minute for closing in closing_times(hours, QUARTER)} == {23 * 60 + 45}


def test_holidays_do_not_move_the_times() -> None:
    hours = BusinessHours(timezone="UTC", week=WORKING_DAYS)
    closed = replace(hours, closed_dates=frozenset({date(2026, 12, 25), date(2027, 1, 1)}))

    assert closing_times(closed, QUARTER) == closing_times(hours, QUARTER)


@pytest.mark.parametrize(
    ("opened", "wanted"),
    [
        (DatedInterval(SATURDAY, 8 * 60, 18 * 60), ["45 7 * * 1,2,3,4,5,6"]),
        (DatedInterval(SATURDAY, 10 * 60, 14 * 60), ["45 7 * * 1,2,3,4,5", "45 9 * * 6"]),
        (DatedInterval(SATURDAY, 0, 60), ["45 7 * * 1,2,3,4,5", "45 23 * * 5"]),  # closes on Friday night
        (DatedInterval(date(2040, 12, 29), 10 * 60, 14 * 60), ["45 7 * * 1,2,3,4,5", "45 9 * * 6"]),
    ],
)
def test_it_runs_before_a_date_opens_that_is_no_ordinary_working_day(
    opened: DatedInterval, wanted: Sequence[str]
) -> None:
    hours = BusinessHours(timezone="Europe/Budapest", week=WORKING_DAYS, open_dates=frozenset({opened}))

    assert [it.cron for it in closing_times(hours, QUARTER)] == wanted


@settings(max_examples=examples(25), deadline=None)
@given(
    zone=st.sampled_from(
        ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Africa/Cairo", "Asia/Tokyo"]
    ),
    start=st.integers(0, 5 * 60),
    guard=st.integers(0, 5 * 60),
    year=st.integers(2026, 2035),
)
def test_cron_fires_inside_every_guard(zone: str, start: int, guard: int, year: int) -> None:
    """Cron fires at each instant whose wall time matches: twice in a doubled hour, never in a skipped one."""
    hours = BusinessHours(timezone=zone, week=tuple(WeeklyInterval(day, start, start + 30) for day in (4, 5, 6)))
    due = {(t.minute, day) for t in closing_times(hours, timedelta(minutes=guard)) for day in t.weekdays}

    for opening in openings(hours, year):
        walls = [hours.local(opening - timedelta(minutes=early)) for early in (guard, guard + 1)]
        assert any((wall.hour * 60 + wall.minute, wall.weekday()) in due for wall in walls), opening


def openings(hours: BusinessHours, year: int) -> Iterator[datetime]:
    start = datetime(year, 1, 2, tzinfo=UTC)
    return (span.start for span in hours.open_spans(start, start + timedelta(days=360)) if span.start > start)


def test_a_budget_that_may_be_open_by_day_is_out_of_its_reach() -> None:
    in_window = BudgetPolicy(name="train", namespace="ebbtide-workers")
    always = BudgetPolicy(name="embed", namespace="ebbtide-workers", always=True)
    roles = of_kind(closer(replace(controller_config(budgets=("api",)), budgets=(in_window, always))), "Role")

    assert {role.inputs["metadata"]["namespace"]: role.inputs["rules"] for role in roles} == {
        "ebbtide": [],
        "ebbtide-workers": [
            {
                "apiGroups": ["policy"],
                "resources": ["poddisruptionbudgets"],
                "verbs": ["get", "patch"],
                "resourceNames": ["train"],
            }
        ],
    }
