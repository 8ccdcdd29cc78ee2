"""Time zones, and public holidays resolved to dates when the stack is read, so that the controller needs no calendar.

The list ends with the last requested year, or earlier with a country's calendar. After its end a day counts as a
working day, which protects more than necessary and never less.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import cast

import holidays
from holidays.registry import COUNTRIES

from ebbtide.settings.file.problems import wanted
from ebbtide.vocabulary.windows import zone_names


def parse_timezone(value: object) -> str:
    """Accept a zone name of the IANA database."""
    if not isinstance(value, str) or value not in zone_names():
        near = _meant(str(value))
        raise wanted(
            "timezone.unknown",
            "an IANA time zone",
            example="Europe/Berlin",
            hint=f"did you mean {' or '.join(near)}?" if near else "",
        )
    return value


def _meant(text: str) -> list[str]:
    """Suggest zones. Cities come first: people forget the continent more often than the city. Only the city is compared
    for typos, since a shared continent is no evidence: `Asia/Bangalore` is not `Asia/Singapore`.
    """
    name = text.replace(" ", "_").casefold()
    continent, _, city = name.rpartition("/")
    folded = {zone.casefold(): zone for zone in sorted(zone_names())}
    if meant := _ELSEWHERE.get(city) or folded.get(name):
        return [meant]
    by_city = [zone for key, zone in folded.items() if "/" in key and key.rpartition("/")[2] == city]
    if by_city:
        return by_city[:2]
    same_continent = {key.rpartition("/")[2]: zone for key, zone in folded.items() if key.startswith(f"{continent}/")}
    anywhere = {key.rpartition("/")[2]: zone for key, zone in folded.items()}
    return [
        (same_continent or anywhere)[near]
        for near in get_close_matches(city, same_continent or anywhere, n=1, cutoff=0.8)
    ]


_ELSEWHERE = {
    "abu_dhabi": "Asia/Dubai",
    "bangalore": "Asia/Kolkata",
    "barcelona": "Europe/Madrid",
    "beijing": "Asia/Shanghai",
    "bengaluru": "Asia/Kolkata",
    "boston": "America/New_York",
    "cest": "Europe/Berlin",
    "chennai": "Asia/Kolkata",
    "cologne": "Europe/Berlin",
    "dallas": "America/Chicago",
    "delhi": "Asia/Kolkata",
    "edt": "America/New_York",
    "frankfurt": "Europe/Berlin",
    "geneva": "Europe/Zurich",
    "hamburg": "Europe/Berlin",
    "hyderabad": "Asia/Kolkata",
    "milan": "Europe/Rome",
    "mumbai": "Asia/Kolkata",
    "munich": "Europe/Berlin",
    "new_delhi": "Asia/Kolkata",
    "osaka": "Asia/Tokyo",
    "pdt": "America/Los_Angeles",
    "pst": "America/Los_Angeles",
    "pune": "Asia/Kolkata",
    "rio_de_janeiro": "America/Sao_Paulo",
    "san_francisco": "America/Los_Angeles",
    "seattle": "America/Los_Angeles",
    "shenzhen": "Asia/Shanghai",
    "washington": "America/New_York",
}
"""Zones of cities and abbreviations that the IANA database does not name."""


_EVES = ((12, 24), (12, 31))
_USUAL = ("de_facto", "bank", "optional")  # categories of days that are not public holidays
YEARS_AHEAD = 2  # stacks are updated more often than this


@dataclass(frozen=True, slots=True)
class HolidayList:
    dates: frozenset[date]
    known_until: date | None
    working_weekends: frozenset[date] = frozenset()


NO_CALENDAR = HolidayList(frozenset(), None)


def coming_years() -> tuple[int, ...]:
    """Return the default years of a list: this year and the next two."""
    this_year = datetime.now(UTC).year
    return tuple(range(this_year, this_year + YEARS_AHEAD + 1))


@cache
def holiday_list(country: str, subdivision: str | None, years: Sequence[int]) -> HolidayList:
    """Return all public holidays of the years, including substitute days, and the weekend days that are worked in
    exchange.
    """
    calendar = holidays.country_holidays(country, subdiv=subdivision, years=years)
    last_year = min(max(years), calendar.end_year)
    working = frozenset(day for day in calendar.weekend_workdays if day.year in years)
    return HolidayList(frozenset(calendar) - working, date(last_year, 12, 31), working)


def working_weekends_until(
    country: str, subdivision: str | None, day: date, *, works: Collection[int] = ()
) -> date | None:
    """Return the end of the last year with listed working weekends, or None if the country has none around `day`, or
    only on weekdays of `works`, which are open anyway.

    Governments announce them a year ahead or less, so this list ends before that of the holidays.
    """
    listed = holiday_list(country, subdivision, tuple(range(day.year - 1, day.year + YEARS_AHEAD + 1)))
    if {day.weekday() for day in listed.working_weekends} <= {*works}:
        return None
    return max(date(day.year, 12, 31) for day in listed.working_weekends)


def country_of_zone(timezone: str) -> str:
    """Return the code of the country that a time zone is named for, by tzdata's table; "" if it has no calendar."""
    table = files("tzdata").joinpath("zoneinfo/zone.tab").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines() if not line.startswith("#"))
    country = next((row[0] for row in rows if row[2] == timezone), "")
    return country if country in _countries() else ""


def usual_days_left_out(country: str, year: int) -> dict[date, str]:
    """Return the days that people of a country usually take, although its list of public holidays leaves them out.

    These are its de facto holidays, and the eves of Christmas and of New Year where banks close or many people are free
    on both. One alone is no habit: India lets employees choose Christmas Eve among many days.
    """
    public = holidays.country_holidays(country, years=year)
    days: dict[date, str] = {}
    for category in (name for name in _USUAL if name in public.supported_categories):
        language = "en_US" if "en_US" in public.supported_languages else None
        others = holidays.country_holidays(country, years=year, categories=(category,), language=language)
        eves = [date(year, month, day) for month, day in _EVES]
        usual = [*others] if category == "de_facto" else eves if set(eves) <= others.keys() else []
        days.update({day: others[day] for day in usual if day not in public})
    return dict(sorted(days.items()))


@cache
def _countries() -> dict[str, list[str]]:
    return holidays.list_supported_countries(include_aliases=True)


def _codes_by_name() -> dict[str, str]:
    """Return the codes of countries with a calendar by country name. Codes are no basis for suggestions: they differ
    by one letter.
    """
    return {name.casefold(): codes[0] for name, *codes in COUNTRIES.values()}


def _subdivisions_by_name(country: str) -> dict[str, str]:
    calendar = type(holidays.country_holidays(country))
    aliases = cast("dict[str, list[str]]", calendar.get_subdivision_aliases())
    return {name.casefold(): code for code, names in aliases.items() for name in names}


def check_country(country: str) -> str:
    """Return the country. Raises a validator's error if it has no calendar."""
    if country not in _countries():
        code = country.upper() if country.upper() in _countries() else _codes_by_name().get(country.casefold())
        hint = f"did you mean {code}?" if code else ""
        raise wanted("holiday.country", "a country code of two letters", example="DE", hint=hint)
    return country


def check_subdivision(country: str | None, subdivision: str | None) -> None:
    """Raises a validator's error if the country, which is valid, has no such subdivision."""
    if subdivision is None:
        return
    if country is None:
        raise wanted(
            "holiday.subdivision-without-country", "a country with its subdivision", example="country: US", at="country"
        )
    subdivisions = _countries()[country]
    if subdivision not in subdivisions:
        names = {code.casefold(): code for code in subdivisions} | _subdivisions_by_name(country)
        near = names.get(subdivision.casefold())
        expected = (
            f"a subdivision of {country}: {', '.join(subdivisions)}"
            if subdivisions
            else f"no subdivision: {country} has none"
        )
        hint = f"did you mean {near}?" if near else ""
        raise wanted(
            "holiday.subdivision",
            expected,
            example=subdivisions[0] if subdivisions else "",
            hint=hint,
            at="subdivision",
        )
