"""Laws of the morning floor, across clock changes, against minutes asked one by one."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.scaler.workers.floors import floor_at
from ebbtide.vocabulary.controller_config import ControllerConfig, Morning, PoolPolicy
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.builders.controllers import config, pool_policy
from tests.counts import examples

MINUTE = timedelta(minutes=1)
CHANGES = [  # of clocks: the zone, and noon (UTC) of the day
    ("Europe/Berlin", datetime(2026, 3, 29, 12, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 25, 12, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, 12, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 12, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 5, 12, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 2, 15, 12, tzinfo=UTC)),
]


@st.composite
def mornings(draw: st.DrawFn) -> tuple[datetime, PoolPolicy, ControllerConfig]:
    zone, noon = draw(st.sampled_from(CHANGES))
    start = draw(st.integers(0, 1439))
    length = draw(st.integers(30, 1440))
    days = draw(st.sets(st.integers(0, 6), min_size=1))
    closed = frozenset(draw(st.lists(st.integers(-2, 2), max_size=2).map(lambda off: [_day(noon, n) for n in off])))
    hours = BusinessHours(
        timezone=zone, week=tuple(WeeklyInterval(day, start, start + length) for day in days), closed_dates=closed
    )
    lead = timedelta(minutes=draw(st.sampled_from([0, 5, 30])))
    pool = pool_policy(morning=Morning(lasting=timedelta(minutes=draw(st.sampled_from([10, 60, 180]))), workers=3))
    opening = hours.next_opening(noon + timedelta(days=draw(st.integers(-2, 1)))) or noon
    now = opening + timedelta(minutes=draw(st.integers(-200, 200)))  # most of them near a morning's edges
    return now, pool, config(hours=hours, node_startup=lead)


def _day(noon: datetime, offset: int) -> date:
    return noon.date() + timedelta(days=offset)


@given(mornings())
@settings(max_examples=examples(150), deadline=None)
def test_a_morning_covers_exactly_the_minutes_around_an_opening(
    case: tuple[datetime, PoolPolicy, ControllerConfig],
) -> None:
    now, pool, settled = case
    assert pool.morning is not None
    hours, lead, lasting = settled.hours, settled.node_startup, pool.morning.lasting

    minute = now - lasting + MINUTE
    near = False
    while minute <= now + lead:
        near = near or (hours.is_open(minute) and not hours.is_open(minute - MINUTE))
        minute += MINUTE

    assert floor_at(now, pool, settled).workers == (3 if near else 0)


@given(mornings(), st.integers(0, 999))
@settings(max_examples=examples(150), deadline=None)
def test_a_floor_holds_until_it_says(case: tuple[datetime, PoolPolicy, ControllerConfig], part: int) -> None:
    now, pool, settled = case
    said = floor_at(now, pool, settled)
    until = said.until or now + timedelta(days=1)

    assert floor_at(now + (until - now) * part // 1000, pool, settled).workers == said.workers


@given(mornings())
@settings(max_examples=examples(50), deadline=None)
def test_days_that_stay_closed_have_no_morning(case: tuple[datetime, PoolPolicy, ControllerConfig]) -> None:
    now, pool, settled = case
    days = frozenset(now.date() + timedelta(days=offset) for offset in range(-5, 6))
    holidays = replace(settled, hours=replace(settled.hours, closed_dates=days))

    assert floor_at(now, pool, holidays).workers == 0
