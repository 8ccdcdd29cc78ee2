"""Laws of the budget decision."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from controllers.scaler.budgets import window_at
from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow, WeeklyInterval

INSTANTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001
ZONES = st.sampled_from(["America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "Asia/Kolkata"])


@st.composite
def windows(draw: st.DrawFn) -> DisruptionWindow:
    start = draw(st.integers(0, 1439))
    week = tuple(
        WeeklyInterval(weekday, start, start + draw(st.integers(30, 1440)))
        for weekday in draw(st.sets(st.integers(0, 6)))
    )
    guard = timedelta(minutes=draw(st.sampled_from([0, 15, 240])))
    return DisruptionWindow(hours=BusinessHours(timezone=draw(ZONES), week=week), closing_guard=guard)


@given(windows(), INSTANTS)
def test_never_open_in_business_hours_nor_in_the_guard_before_them(window: DisruptionWindow, now: datetime) -> None:
    if window_at(now, window).decision.max_unavailable == 1:
        assert not window.hours.is_open(now)
        assert not window.hours.is_open(now + window.closing_guard)


@given(windows(), INSTANTS, st.integers(0, 999))
def test_what_the_window_says_holds_until_it_says(window: DisruptionWindow, now: datetime, part: int) -> None:
    said = window_at(now, window)
    if said.until is not None:
        between = now + (said.until - now) * part // 1000
        value = said.decision.max_unavailable
        assert window_at(between, window).decision.max_unavailable == value
        assert window_at(said.until, window).decision.max_unavailable != value
