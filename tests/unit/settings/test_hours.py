"""Holidays become dates, exceptions apply on top, and the end of the list is known."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from tests.builders.settings import loaded, problem_of, shortest

YEARS = (2026, 2027)


def berlin(**holidays: object) -> BusinessHoursSettings:
    return BusinessHoursSettings.model_validate(
        {"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}, "holidays": holidays}
    )


def test_public_holidays_of_the_subdivision_are_closed() -> None:
    hours = berlin(country="DE", subdivision="BE").hours(YEARS)

    assert not hours.is_open(datetime(2027, 3, 8, 10, tzinfo=UTC))  # Women's Day, Berlin's own
    assert berlin(country="DE").hours(YEARS).is_open(datetime(2027, 3, 8, 10, tzinfo=UTC))


def test_exceptions_come_after_the_calendar() -> None:
    hours = berlin(country="DE", closed=["2026-12-24"], open=["2026-12-25"]).hours(YEARS)

    assert date(2026, 12, 24) in hours.closed_dates
    assert date(2026, 12, 25) not in hours.closed_dates
    assert date(2026, 12, 26) in hours.closed_dates


def test_past_the_end_of_the_list_a_holiday_counts_as_a_working_day() -> None:
    hours = berlin(country="DE").hours((2025,))

    assert hours.holidays_known_until == date(2025, 12, 31)
    assert hours.is_open(datetime(2026, 1, 1, 10, tzinfo=UTC))
    assert not hours.knows_holidays_at(datetime(2026, 1, 1, 10, tzinfo=UTC))


def test_without_a_calendar_there_is_no_list_to_end() -> None:
    hours = berlin(closed=["2026-12-24"]).hours(YEARS)

    assert hours.closed_dates == {date(2026, 12, 24)}
    assert hours.holidays_known_until is None


def test_by_default_the_list_reaches_to_the_end_of_the_year_after_next() -> None:
    this_year = datetime.now(UTC).year

    assert berlin(country="DE").hours().holidays_known_until in (
        date(this_year + 2, 12, 31),
        date(this_year + 3, 12, 31),
    )


@pytest.mark.parametrize(
    ("holidays", "said"),
    [
        ("country: GER", ("holiday.country", "ebbtide:businessHours.holidays.country:", "found 'GER'")),
        ("country: us", ("holiday.country", "did you mean US?")),
        ("country: DE, subdivision: BX", ("holiday.subdivision",)),
        ("subdivision: BE", ("holiday.subdivision-without-country", "holidays.country:", "found nothing")),
        ('closed: ["2026-02-30"]', ("date.form", "found '2026-02-30'")),
        ("closed: [20261224]", ("date.form",)),
        (
            'closed: ["2026-12-24"], open: ["2026-12-24"]',
            ("holiday.open-and-closed", "found 2026-12-24 in both"),
        ),
    ],
)
def test_a_calendar_that_does_not_exist_is_refused(holidays: str, said: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest(hours=f"holidays: {{ {holidays} }}"), tmp_path).tells(*said)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            'pool: trian, at: "02:00", for: 2h, workers: 2',
            ("name.unknown", "found 'trian'", "did you mean train?"),
        ),
        ('pool: train, at: "02:00", for: 2h, workers: 5', ("overnight.above-max", "found 5", "4")),
        ('pool: train, at: "25:00", for: 2h, workers: 2', ("clock.form", "00:00", "23:59")),
        ('pool: train, at: "02:00", for: 25h, workers: 2', ("duration.more-than-a-day", "overnight[0].for:", "24h")),
        ('pool: train, at: "02:00", for: 0h, workers: 2', ("duration.zero", "found '0h'")),
    ],
)
def test_planned_work_must_be_possible(plan: str, said: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest(hours=f"overnight: [{{ {plan} }}]"), tmp_path).tells(*said)


def test_an_open_date_that_is_no_holiday_is_worth_a_word(tmp_path: Path) -> None:
    settings = loaded(shortest(hours='holidays: { country: DE, open: ["2026-12-25", "2026-12-23"] }'), tmp_path)

    warnings = warnings_of(settings, date(2026, 8, 1))

    assert [str(it).partition(" is")[0] for it in warnings if it.code == "holidays.open-without-effect"] == [
        "businessHours.holidays.open: 2026-12-23"
    ]


def test_hours_that_never_close_are_worth_a_word(tmp_path: Path) -> None:
    text = shortest().replace('mon-fri: "08:00-18:00"', 'mon-sun: "00:00-24:00"')

    assert "hours.never-closed" in {it.code for it in warnings_of(loaded(text, tmp_path), date(2026, 8, 1))}
    assert "hours.never-closed" not in {it.code for it in warnings_of(loaded(shortest(), tmp_path))}
