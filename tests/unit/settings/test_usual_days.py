"""Days that people usually take although they are working days by law."""

from datetime import date

import pytest

from ebbtide.settings.sections.calendars import country_of_zone, holiday_list, usual_days_left_out


@pytest.mark.parametrize(
    ("zone", "country"),
    [("Europe/Stockholm", "SE"), ("Europe/Berlin", "DE"), ("America/New_York", "US"), ("UTC", ""), ("nowhere", "")],
)
def test_the_country_of_a_zone_comes_from_tzdata(zone: str, country: str) -> None:
    assert country_of_zone(zone) == country


@pytest.mark.parametrize(
    ("country", "names"),
    [
        ("SE", ["Midsummer Eve", "Christmas Eve", "New Year's Eve"]),
        ("DK", ["Christmas Eve", "New Year's Eve"]),
        ("AT", ["Christmas Eve", "New Year's Eve"]),
        ("US", []),
        ("IN", []),
        ("DE", []),
        ("NO", []),
    ],
)
def test_usual_days_are_those_that_no_list_of_public_holidays_has(country: str, names: list[str]) -> None:
    days = usual_days_left_out(country, 2026)

    assert [*days.values()] == names
    assert not holiday_list(country, None, (2026,)).dates & days.keys()
    assert all(day.year == 2026 for day in days)


def test_the_eve_of_midsummer_moves_with_its_year() -> None:
    assert [min(usual_days_left_out("SE", year)) for year in (2026, 2027)] == [date(2026, 6, 19), date(2027, 6, 25)]
