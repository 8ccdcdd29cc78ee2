"""Holidays become dates, exceptions override them, and the list's end is known."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import holidays
import pytest

from ebbtide.settings import warnings_of
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.vocabulary.windows import BusinessHours, zone_of
from tests.builders.settings import loaded, problem_of, shortest

pytestmark = pytest.mark.whole

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


SATURDAY = date(2026, 12, 12)  # on which Hungary works, for 24 December


def budapest(week: dict[str, str] | None = None, **calendar: object) -> BusinessHours:
    section = {"timezone": "Europe/Budapest", "week": week or {"mon-fri": "08:00-18:00"}, "holidays": calendar}
    return BusinessHoursSettings.model_validate(section).hours(YEARS)


def opened(hours: BusinessHours, day: date = SATURDAY) -> list[str]:
    """Return the spans that touch a day, in local time."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone_of(hours.timezone))
    spans = hours.open_spans(midnight, midnight + timedelta(days=1))
    return [f"{hours.local(span.start):%a %H:%M}-{hours.local(span.end):%a %H:%M}" for span in spans]


def test_a_working_saturday_of_the_country_is_open() -> None:
    assert opened(budapest(country="HU")) == ["Sat 08:00-Sat 18:00"]
    assert opened(budapest(country="HU"), SATURDAY - timedelta(days=7)) == []
    assert opened(budapest(country="HU", closed=["2026-12-12"])) == []
    assert opened(budapest()) == []


@pytest.mark.parametrize(
    ("week", "entry", "spans"),
    [
        ({"mon-fri": "08:00-18:00"}, "2026-12-12", ["Sat 08:00-Sat 18:00"]),
        ({"mon-thu": "09:00-17:00", "fri": "07:30-12:00, 13:00-19:00"}, "2026-12-12", ["Sat 07:30-Sat 19:00"]),
        ({"mon-fri": "06:00-14:00, 22:00-06:00+1"}, "2026-12-12", ["Fri 22:00-Sun 06:00"]),  # Friday's night meets it
        ({"mon": "06:00-14:00", "tue": "22:00-08:00+1"}, "2026-12-12", ["Sat 06:00-Sun 08:00"]),  # 26 hours
        ({"mon-fri": "08:00-18:00", "sat": "10:00-12:00"}, "2026-12-12", ["Sat 10:00-Sat 12:00"]),
        ({"mon-fri": "08:00-18:00"}, {"date": "2026-12-12", "hours": "09:00-14:00"}, ["Sat 09:00-Sat 14:00"]),
        (
            {"mon-sat": "08:00-18:00"},
            {"date": "2026-12-12", "hours": ["12:00-13:00", "09:00-11:00"]},
            ["Sat 09:00-Sat 11:00", "Sat 12:00-Sat 13:00"],
        ),
    ],
)
def test_an_open_date_may_be_a_closed_weekday_with_hours_of_its_own(
    week: dict[str, str], entry: object, spans: list[str]
) -> None:
    assert opened(budapest(week, open=[entry])) == spans


def test_the_files_hours_of_a_working_saturday_come_before_the_usual_ones() -> None:
    hours = budapest(country="HU", open=[{"date": "2026-12-12", "hours": "10:00-11:00"}])

    assert opened(hours) == ["Sat 10:00-Sat 11:00"]


# One of each country, as its government named it; some name none any more.
WORKING_WEEKENDS = {
    "AM": "2021-09-25",
    "AZ": "2025-06-21",
    "BG": "2016-09-17",
    "BY": "2026-04-25",
    "CN": "2026-01-04",
    "HU": "2026-12-12",
    "KG": "2025-01-11",
    "KZ": "2025-01-05",
    "LV": "2026-06-27",
    "MM": "2026-01-03",
    "RU": "2025-11-01",
    "TW": "2025-02-08",
    "UA": "2021-08-28",
    "UZ": "2026-12-12",
    "VN": "2026-08-22",
}
SEEN = tuple(range(2010, 2030))


@pytest.mark.parametrize("country", WORKING_WEEKENDS)
def test_each_working_weekend_of_a_country_is_open_and_no_other_weekend_is(country: str) -> None:
    section = {"timezone": "UTC", "week": {"mon-fri": "09:00-17:00"}, "holidays": {"country": country}}
    hours = BusinessHoursSettings.model_validate(section).hours(SEEN)
    spans = hours.open_spans(datetime(SEEN[0], 1, 1, tzinfo=UTC), datetime(SEEN[-1] + 1, 1, 1, tzinfo=UTC))
    weekends = {span.start.date() for span in spans if span.start.weekday() >= 5}

    listed = holidays.country_holidays(country, years=SEEN).weekend_workdays
    assert weekends == {day for day in listed if day.year in SEEN}
    assert date.fromisoformat(WORKING_WEEKENDS[country]) in weekends


def test_no_other_country_has_working_weekends() -> None:
    every = holidays.list_supported_countries(include_aliases=False)

    assert {country for country in every if holidays.country_holidays(country, years=SEEN).weekend_workdays} == set(
        WORKING_WEEKENDS
    )


def test_the_end_of_the_list_of_working_weekends_is_told_until_a_later_one_is_named(tmp_path: Path) -> None:
    def warnings_about(calendar: str, day: date) -> list[str]:
        settings = loaded(shortest(hours=f"holidays: {{ {calendar} }}"), tmp_path)
        return [
            str(caution) for caution in warnings_of(settings, day) if caution.code == "holidays.working-weekends-end"
        ]

    assert "2026-12-31" in warnings_about("country: HU", date(2026, 12, 1))[0]
    assert warnings_about("country: HU", date(2027, 1, 10))
    assert warnings_about('country: HU, open: ["2027-03-13"]', date(2027, 1, 10)) == []
    assert warnings_about('country: HU, closed: ["2027-03-13"]', date(2027, 1, 10)) == []
    assert warnings_about('country: HU, closed: ["2026-12-24"]', date(2027, 1, 10))
    assert warnings_about("country: HU", date(2026, 8, 1)) + warnings_about("country: DE", date(2026, 12, 1)) == []


@pytest.mark.parametrize(("week", "warned"), [("mon-fri", True), ("mon-sat", False), ("mon-sun", False)])
def test_a_week_that_has_the_working_weekends_anyway_is_not_asked_for_later_ones(
    week: str, warned: bool, tmp_path: Path
) -> None:
    """Hungary's working days are Saturdays, and an open date without effect would have its own warning."""
    text = shortest(hours="holidays: { country: HU }").replace("mon-fri", week)
    codes = {caution.code for caution in warnings_of(loaded(text, tmp_path), date(2026, 12, 1))}

    assert ("holidays.working-weekends-end" in codes) is warned


def test_by_default_the_list_reaches_to_the_end_of_the_year_after_next() -> None:
    this_year = datetime.now(UTC).year

    assert berlin(country="DE").hours().holidays_known_until in (
        date(this_year + 2, 12, 31),
        date(this_year + 3, 12, 31),
    )


@pytest.mark.parametrize(
    ("holidays", "words"),
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
        ('open: [{ date: "2026-12-12", hours: "14:00-08:00" }]', ("interval.end", "open[0].hours:", "14:00-08:00")),
        ('open: [{ date: "2026-12-12", hours: "8-14" }]', ("interval.form", "open[0].hours:", "found '8-14'")),
        ('open: [{ date: "2026-12-12", hours: 8 }]', ("week.intervals-type", "open[0].hours:", "found 8")),
        (
            'open: [{ date: "2026-12-12", hours: "08:00-12:00, 11:00-14:00" }]',
            ("week.overlap", "found 08:00-12:00 and 11:00-14:00"),
        ),
        ('open: [{ hours: "08:00-14:00" }]', ("key.missing", "open[0].date:")),
        ('open: ["2026-02-30"]', ("date.form", "open[0]:", "found '2026-02-30'")),
        (
            'open: ["2026-12-12", { date: "2026-12-12", hours: "08:00-14:00" }]',
            ("holiday.open-twice", "found 2026-12-12 with different hours"),
        ),
    ],
)
def test_a_calendar_that_does_not_exist_is_refused(holidays: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest(hours=f"holidays: {{ {holidays} }}"), tmp_path).tells(*words)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            'pool: trian, at: "02:00", for: 2h, workers: 2',
            ("name.unknown", "found 'trian'", "did you mean train?"),
        ),
        ('pool: train, at: "02:00", for: 2h, workers: 5', ("overnight.above-max", "found 5", "4")),
        ('pool: train, at: "25:00", for: 2h, workers: 2', ("clock.form", "00:00", "23:59")),
        ("pool: train, at: 2, for: 2h, workers: 2", ("clock.form", "found 2")),
        ('pool: train, at: "02:00", for: 25h, workers: 2', ("duration.more-than-a-day", "overnight[0].for:", "24h")),
        ('pool: train, at: "02:00", for: 0h, workers: 2', ("duration.zero", "found '0h'")),
    ],
)
def test_planned_work_must_be_possible(plan: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest(hours=f"overnight: [{{ {plan} }}]"), tmp_path).tells(*words)


def test_an_open_date_that_is_open_anyway_is_worth_a_word(tmp_path: Path) -> None:
    dates = '"2026-12-25", "2026-12-23", "2026-12-12", { date: "2026-12-22", hours: "10:00-12:00" }'
    settings = loaded(shortest(hours=f"holidays: {{ country: DE, open: [{dates}] }}"), tmp_path)

    warnings = warnings_of(settings, date(2026, 8, 1))

    assert [
        str(caution).partition(" is")[0] for caution in warnings if caution.code == "holidays.open-without-effect"
    ] == ["businessHours.holidays.open: 2026-12-23"]


def test_hours_of_a_date_that_leave_a_part_of_the_working_day_unprotected_are_worth_a_word(tmp_path: Path) -> None:
    def warnings_about(entry: str) -> list[str]:
        settings = loaded(shortest(hours=f"holidays: {{ country: DE, open: [{{ {entry} }}] }}"), tmp_path)
        cautions = warnings_of(settings, date(2026, 8, 1))
        return [caution.text for caution in cautions if caution.code == "holidays.open-shorter"]

    (evening,) = warnings_about('date: "2026-11-30", hours: "18:00-22:00"')
    (split,) = warnings_about('date: "2026-11-30", hours: "09:00-12:00, 13:00-19:00"')
    assert evening.startswith("2026-11-30 is a working day, 08:00-18:00; these hours take its place")
    assert "budgets are open at 08:00-18:00" in evening
    assert "budgets are open at 08:00-09:00, 12:00-13:00" in split
    assert warnings_about('date: "2026-11-30", hours: "08:00-22:00"') == []
    assert warnings_about('date: "2026-11-30", hours: "08:00-13:00, 13:00-18:00"') == []
    assert warnings_about('date: "2026-11-28", hours: "10:00-12:00"') == []  # a Saturday
    assert warnings_about('date: "2026-12-25", hours: "10:00-12:00"') == []  # a holiday
    assert warnings_about('date: "2026-07-06", hours: "10:00-12:00"') == []  # over


def test_hours_that_never_close_are_worth_a_word(tmp_path: Path) -> None:
    text = shortest().replace('mon-fri: "08:00-18:00"', 'mon-sun: "00:00-24:00"')

    assert "hours.never-closed" in {caution.code for caution in warnings_of(loaded(text, tmp_path), date(2026, 8, 1))}
    assert "hours.never-closed" not in {caution.code for caution in warnings_of(loaded(shortest(), tmp_path))}
