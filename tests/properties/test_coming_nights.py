"""The coming nights are what the controller will do, and a change of them never goes untold."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.scaler.budgets import OPEN, window_at
from controllers.scaler.workers.floors import floor_at
from ebbtide.preview.document import ComingNights
from ebbtide.preview.nights.coming import coming_nights
from ebbtide.preview.nights.windows import held_during, nights_between, window_of
from ebbtide.settings import controller_config
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import Overnight
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.windows import DisruptionWindow, WeeklyInterval
from tests.builders.nights import at, stack_with, with_morning
from tests.counts import examples
from tests.wall_clock import distinct_zones

MINUTE = timedelta(minutes=1)
ZONES = distinct_zones()
REDIS = RedisEndpoint(host="redis")

instants = st.integers(0, 3 * 365 * 24 * 60).map(lambda minute: datetime(2026, 1, 1, tzinfo=UTC) + minute * MINUTE)


def interval(day: int, start: int, length: int) -> WeeklyInterval:
    return WeeklyInterval(day, start, start + length)


intervals = st.builds(interval, st.integers(0, 6), st.integers(0, 1439), st.integers(1, 1440))
weeks = st.lists(intervals, max_size=6).map(tuple)
own_hours = st.dictionaries(
    st.dates(date(2026, 1, 1), date(2028, 12, 31)).map(lambda day: f"{day:%Y-%m-%d}"),
    st.sampled_from(["09:00-14:00", "00:00-24:00", "22:00-06:00+1", "06:00-07:00, 20:00-21:00"]),
    max_size=6,
)
closed = st.lists(st.dates(date(2026, 1, 1), date(2028, 12, 31)), max_size=6)


@st.composite
def stacks(draw: st.DrawFn, zones: list[str] = ZONES) -> StackSettings:
    days = {f"{day:%Y-%m-%d}" for day in draw(closed)}
    opened = {f"{day:%Y-%m-%d}": None for day in draw(closed)} | draw(own_hours)
    holidays = {
        "country": draw(st.sampled_from([None, "US", "HU", "CN", "JP"])),
        "closed": sorted(days - set(opened)),
        "open": [day if own is None else {"date": day, "hours": own} for day, own in sorted(opened.items())],
    }
    return stack_with(
        week=draw(weeks),
        timezone=draw(st.sampled_from(zones)),
        guard=timedelta(minutes=draw(st.integers(1, 180))),
        holidays=holidays,
    )


def shown_open(shown: ComingNights, instant: datetime) -> bool:
    return any(row.opens <= instant < row.closes for row in shown.rows)


def controller_window(stack: StackSettings) -> DisruptionWindow:
    """From the document that the controller reads, written out and read back."""
    return load(ControllerConfig, dump(controller_config(stack, REDIS, range(2025, 2032)))).window


def opens(window: DisruptionWindow, instant: datetime) -> bool:
    return window_at(instant, window).decision.max_unavailable == OPEN


@settings(max_examples=examples(40))
@given(stack=stacks(), now=instants, minutes=st.lists(st.integers(0, 14 * 24 * 60 - 1), max_size=30))
def test_the_rows_are_when_the_controller_opens(stack: StackSettings, now: datetime, minutes: list[int]) -> None:
    shown, window = coming_nights(None, stack, now), controller_window(stack)
    edges = [edge for row in shown.rows for edge in (row.opens, row.closes)]
    near = [edge + step * MINUTE for edge in edges for step in (-1, 0, 1)]
    looked_at = [instant for instant in near if now <= instant < now + timedelta(days=14)]

    for instant in [*looked_at, *(now + minute * MINUTE for minute in minutes)]:
        assert shown_open(shown, instant) == opens(window, instant), instant
    if stack.business_hours.week:  # then there was a day before every night
        assert not [row.local for row in shown.rows if opens(window, row.opens - MINUTE)]
    assert all(first.closes < second.opens for first, second in zip(shown.rows, shown.rows[1:], strict=False))


@pytest.mark.parametrize(
    ("zone", "saturday"),
    [("America/New_York", "2026-10-31"), ("Europe/Berlin", "2027-03-27"), ("Australia/Lord_Howe", "2026-10-03")],
)
def test_every_minute_of_a_weekend_on_which_the_clocks_change(zone: str, saturday: str) -> None:
    week = {"fri": "22:00-03:00+1", "sat": "03:10-03:40, 20:00-02:15+1", "sun": "02:20-02:40"}
    stack, now = stack_with(timezone=zone, week=week), at(f"{saturday}T00:00", zone)
    shown, window = coming_nights(None, stack, now, days=2), controller_window(stack)
    minutes = [now + minute * MINUTE for minute in range(2 * 24 * 60)]

    assert [m for m in minutes if shown_open(shown, m) != opens(window, m)] == []
    assert 0 < sum(shown_open(shown, m) for m in minutes) < len(minutes)


@settings(max_examples=examples(40))
@given(
    before=stacks(), other=stacks(), now=instants, part=st.sampled_from(["timezone", "week", "holidays", "guard", ""])
)
def test_what_changes_a_night_is_told(before: StackSettings, other: StackSettings, now: datetime, part: str) -> None:
    after = with_part_of(before, other, part)

    was, will_be = coming_nights(None, before, now), coming_nights(before, after, now)

    if [(row.opens, row.closes) for row in was.rows] != [(row.opens, row.closes) for row in will_be.rows]:
        assert will_be.changes
    assert coming_nights(after, after, now).changes == ()


def with_part_of(stack: StackSettings, other: StackSettings, part: str) -> StackSettings:
    """The other's zone, week, holidays or guard alone; without a part, the other."""
    if part == "guard":
        return stack.model_copy(update={"controller": other.controller})
    if not part:
        return other
    hours = stack.business_hours.model_copy(update={part: getattr(other.business_hours, part)})
    return stack.model_copy(update={"business_hours": hours})


@settings(max_examples=examples(40))
@given(
    now=instants,
    zone=st.sampled_from(ZONES),
    starts=st.integers(0, 1439),
    lasting=st.integers(1, 24 * 60),
    minutes=st.lists(st.integers(0, 7 * 24 * 60 - 1), min_size=20, max_size=20),
)
def test_the_workers_that_a_night_shows_are_the_floor_that_the_controller_holds(
    now: datetime, zone: str, starts: int, lasting: int, minutes: list[int]
) -> None:
    plan = Overnight.model_validate(
        {"pool": "train", "at": f"{starts // 60:02}:{starts % 60:02}", "for": lasting * MINUTE, "workers": 3}
    )
    stack = with_morning(stack_with(timezone=zone, overnight=[plan]), workers=2)
    config = controller_config(stack, REDIS, (2025, 2026, 2027, 2028, 2029))
    window = window_of(stack, now)

    for night in nights_between(window, now, now + timedelta(days=7)):
        held = [*held_during(stack, window.hours, night)]
        for instant in (now + minute * MINUTE for minute in minutes):
            if night.opens <= instant < night.closes:
                shown = max((h.workers for h in held if h.span.start <= instant < h.span.end), default=0)
                assert shown == floor_at(instant, config.pools[0], config).workers
