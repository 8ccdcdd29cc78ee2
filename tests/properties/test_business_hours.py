"""Business hours in every zone, at every clock change, against the C library's clock."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.vocabulary.windows import BusinessHours, DatedInterval, DisruptionWindow, WeeklyInterval
from tests.wall_clock import DAY, distinct_zones, in_zone

ZONES = distinct_zones()
EVERY_DAY = range(7)
WEEKS = {
    "edges inside the usual change": [WeeklyInterval(day, 90, 150) for day in EVERY_DAY],
    "past midnight into the change": [WeeklyInterval(day, 22 * 60, 26 * 60) for day in EVERY_DAY],
    "a working day that starts at the change": [WeeklyInterval(day, 120, 19 * 60) for day in EVERY_DAY],
    "late shift with both edges near midnight": [WeeklyInterval(day, 23 * 60 + 30, 24 * 60 + 30) for day in EVERY_DAY],
}
SHORT = [0, 1, 60, 3600]
HOURS = range(-36, 48)
NEW_YEAR_2026 = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
LONG = range(0, 3 * 3600 + 1, 60)


def mismatches(zone: str, offsets: Iterable[int]) -> tuple[int, list[str]]:
    """How many instants were compared, and those on which the two disagree."""
    wrong: list[str] = []
    compared = 0
    signed = sorted({sign * offset for offset in offsets for sign in (-1, 1)})
    with in_zone(zone, 2020, 2040) as clock:
        hours = {name: BusinessHours(timezone=zone, week=tuple(week)) for name, week in WEEKS.items()}
        for instant in (change + offset for change in clock.changes for offset in signed):
            shown, at = clock.at(instant), datetime.fromtimestamp(instant, UTC)
            for name, week in WEEKS.items():
                compared += 1
                if hours[name].is_open(at) != shown.is_open(week):
                    wrong.append(f"{zone} {name} {shown.now} ({instant})")
    return compared, wrong


@pytest.mark.parametrize("part", range(4))
def test_every_zone_agrees_with_the_c_library_around_every_change(part: int) -> None:
    checked = [mismatches(zone, SHORT) for zone in ZONES[part::4]]

    assert [line for _, wrong in checked for line in wrong] == []
    assert sum(count for count, _ in checked) > 10_000


OWN_HOURS = [[(90, 150)], [(22 * 60, 26 * 60)], [], [(0, 30), (23 * 60, 30 * 60)], [(120, 45 * 60)]]


@pytest.mark.parametrize("zone", ZONES[::9])
def test_dates_that_differ_from_their_weekday_agree_around_every_change(zone: str) -> None:
    week = [WeeklyInterval(day, 8 * 60, 18 * 60) for day in range(5)]
    with in_zone(zone, 2020, 2040) as clock:
        near = [clock.shows(change).date() + timedelta(days=day) for change in clock.changes for day in (-1, 0, 1)]
        dates = {day: OWN_HOURS[index % len(OWN_HOURS)] for index, day in enumerate(near)}
        hours = BusinessHours(
            timezone=zone,
            week=tuple(week),
            closed_dates=frozenset(day for day, own in dates.items() if not own),
            open_dates=frozenset(DatedInterval(day, *each) for day, own in dates.items() for each in own),
        )
        instants = [change + hour * 3600 + second for change in clock.changes for hour in HOURS for second in (-1, 0)]
        wrong = [
            f"{zone} {clock.shows(instant)} ({instant})"
            for instant in [*instants, *(NEW_YEAR_2026 + step * 3 * DAY for step in range(100))]
            if hours.is_open(datetime.fromtimestamp(instant, UTC)) != clock.is_open(week, instant, dates)
        ]

    assert wrong == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("zone", ZONES)
def test_every_minute_within_three_hours_of_every_change(zone: str) -> None:
    assert mismatches(zone, LONG)[1] == []


instants = st.integers(0, 20 * 365 * DAY).map(lambda s: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=s))


def interval(day: int, start: int, length: int) -> WeeklyInterval:
    return WeeklyInterval(day, start, start + length)


intervals = st.builds(interval, st.integers(0, 6), st.integers(0, 1439), st.integers(1, 1440))
weeks = st.lists(intervals, min_size=1, max_size=6).map(tuple)


@given(zone=st.sampled_from(ZONES), week=weeks, instant=instants)
def test_nothing_changes_before_the_next_change_and_something_does_at_it(
    zone: str, week: tuple[WeeklyInterval, ...], instant: datetime
) -> None:
    hours = BusinessHours(timezone=zone, week=week)
    change = hours.next_change(instant)

    if change is None:
        assert hours.is_open(instant)  # a week with an interval opens sooner or later
        return
    assert change > instant
    assert hours.is_open(change) != hours.is_open(instant)
    assert hours.is_open(change - timedelta(seconds=1)) == hours.is_open(instant)
    assert hours.is_open(instant + (change - instant) / 2) == hours.is_open(instant)


def dated(day: date, start: int, length: int) -> DatedInterval:
    return DatedInterval(day, start, start + length)


days = st.dates(date(2020, 1, 1), date(2039, 12, 31))
dates = st.frozensets(st.builds(dated, days, st.integers(0, 1439), st.integers(1, 1440)), max_size=40)


@given(zone=st.sampled_from(ZONES), week=weeks, opened=dates, instant=instants, guard=st.integers(0, 7200))
def test_the_disruption_window_is_never_open_in_business_hours_nor_in_the_guard_before_them(
    zone: str, week: tuple[WeeklyInterval, ...], opened: frozenset[DatedInterval], instant: datetime, guard: int
) -> None:
    hours = BusinessHours(timezone=zone, week=week, open_dates=opened)
    window = DisruptionWindow(hours=hours, closing_guard=timedelta(seconds=guard))

    if window.is_open(instant):
        opening = hours.next_opening(instant)
        assert not hours.is_open(instant)
        assert opening is None or opening - instant > timedelta(seconds=guard)
    change = window.next_change(instant)
    if change is not None:
        assert window.is_open(change) != window.is_open(instant)
        assert window.is_open(instant + (change - instant) / 2) == window.is_open(instant)
