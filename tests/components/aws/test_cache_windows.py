"""The maintenance hour of a cache: closed on every local clock of the year, and never the snapshot's hour."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from components.aws.elasticache import cache_windows
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from tests.counts import examples

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SUNDAY = datetime(2026, 1, 4, tzinfo=UTC)
ZONES = ["America/New_York", "Europe/Berlin", "Europe/Dublin", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]


def hours(week: dict[str, str], timezone: str = "Europe/Berlin") -> BusinessHoursSettings:
    return BusinessHoursSettings.model_validate({"timezone": timezone, "week": week})


def starts(window: str) -> list[datetime]:
    """Instants at which a weekly window begins, on both sides of each clock change of a year."""
    day, clock = window[:3], window[4:9]
    first = SUNDAY + timedelta(
        days=(DAYS.index(day) - SUNDAY.weekday()) % 7, hours=int(clock[:2]), minutes=int(clock[3:])
    )
    return [first + timedelta(weeks=week) for week in (0, 10, 13, 15, 26, 39, 41, 45)]


def test_whoever_works_by_day_gets_the_night_to_sunday() -> None:
    windows = cache_windows(hours({"mon-fri": "08:00-18:00"}))

    assert windows is not None
    assert (windows.maintenance, windows.snapshot) == ("sun:01:00-sun:02:00", "02:00-03:00")


def test_whoever_works_on_the_weekend_gets_a_night_of_the_week() -> None:
    windows = cache_windows(hours({"fri-sun": "00:00-24:00"}))

    assert windows is not None
    assert windows.maintenance == "mon:01:00-mon:02:00"


def test_whoever_never_closes_leaves_it_to_aws() -> None:
    assert cache_windows(hours({"mon-sun": "00:00-24:00"})) is None


shift = st.tuples(st.integers(0, 23), st.integers(1, 20)).map(
    lambda it: f"{it[0]:02}:00-{(it[0] + it[1]) % 24:02}:00{'+1' if it[0] + it[1] >= 24 else ''}"
)


@settings(max_examples=examples(60))
@given(timezone=st.sampled_from(ZONES), week=st.dictionaries(st.sampled_from(["wed", "fri", "sun"]), shift, min_size=1))
def test_no_week_of_the_year_is_anybody_at_work(timezone: str, week: dict[str, str]) -> None:
    customer = hours(week, timezone)
    windows = cache_windows(customer)
    opening = customer.hours([2026])

    assert windows is not None
    for start in starts(windows.maintenance):
        assert not opening.is_open(start)
        assert not opening.is_open(start + timedelta(minutes=59))
