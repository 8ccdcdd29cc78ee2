"""Business hours and the disruption window, by example; every zone is in `tests/properties/test_business_hours.py`."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfoNotFoundError

import pytest

from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow, WeeklyInterval, tzdata_version, zone_of

NEW_YORK = "America/New_York"
SECOND = timedelta(seconds=1)


def hours(
    *intervals: tuple[int, str, str], closed: frozenset[date] = frozenset(), timezone: str = NEW_YORK
) -> BusinessHours:
    week = tuple(WeeklyInterval(day, minutes(start), minutes(end)) for day, start, end in intervals)
    return BusinessHours(timezone=timezone, week=week, closed_dates=closed)


def minutes(text: str) -> int:
    hour, minute = text.split(":")
    return 60 * int(hour) + int(minute)


def at(text: str, timezone: str = NEW_YORK) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone_of(timezone))


WORKING_WEEK = hours(*((day, "08:00", "19:00") for day in range(5)))
WINDOW = DisruptionWindow(hours=WORKING_WEEK, closing_guard=timedelta(minutes=15))


def test_hours_include_their_start_and_not_their_end() -> None:
    assert not WORKING_WEEK.is_open(at("2026-11-23T07:59:59"))
    assert WORKING_WEEK.is_open(at("2026-11-23T08:00"))
    assert WORKING_WEEK.is_open(at("2026-11-23T18:59:59"))
    assert not WORKING_WEEK.is_open(at("2026-11-23T19:00"))


def test_a_weekend_is_closed_from_friday_evening_to_monday_morning() -> None:
    assert WORKING_WEEK.next_change(at("2026-11-20T19:00")) == at("2026-11-23T08:00")


def test_an_interval_past_midnight_belongs_to_the_day_it_starts_on() -> None:
    friday_night = hours((4, "22:00", "30:00"))

    assert friday_night.is_open(at("2026-11-21T05:59"))
    assert not friday_night.is_open(at("2026-11-22T05:59"))


def test_a_closed_date_drops_the_intervals_that_start_on_it_and_keeps_the_night_before() -> None:
    every_night = hours(*((day, "22:00", "30:00") for day in range(7)), closed=frozenset({date(2026, 12, 25)}))

    assert every_night.is_open(at("2026-12-25T05:59"))
    assert not every_night.is_open(at("2026-12-25T23:00"))
    assert not every_night.is_open(at("2026-12-26T05:59"))
    assert every_night.is_open(at("2026-12-26T22:00"))


def test_touching_intervals_are_one_span() -> None:
    split = hours((0, "08:00", "12:00"), (0, "12:00", "19:00"))

    assert split.next_change(at("2026-11-23T08:00")) == at("2026-11-23T19:00")


def test_hours_that_never_close_never_change() -> None:
    always = hours(*((day, "00:00", "24:00") for day in range(7)))

    assert always.is_open(at("2026-11-23T03:00"))
    assert always.next_change(at("2026-11-23T03:00")) is None


def test_hours_that_never_open_never_change() -> None:
    never = BusinessHours(timezone=NEW_YORK, week=())

    assert not never.is_open(at("2026-11-23T12:00"))
    assert never.next_change(at("2026-11-23T12:00")) is None


def test_a_start_that_the_spring_change_skips_is_the_moment_of_the_change() -> None:
    early = hours((6, "02:30", "10:00"))

    assert early.next_change(at("2026-03-08T00:00")) == datetime(2026, 3, 8, 7, 0, tzinfo=UTC)


def test_an_end_that_happens_twice_is_the_later_one() -> None:
    late = hours((5, "20:00", "25:30"))

    assert late.is_open(datetime(2026, 11, 1, 6, 29, 59, tzinfo=UTC))  # 01:29:59 for the second time
    assert not late.is_open(datetime(2026, 11, 1, 6, 30, tzinfo=UTC))


def test_the_window_opens_at_closing_time_and_not_a_second_before() -> None:
    closing = at("2026-11-23T19:00")

    assert not WINDOW.is_open(closing - SECOND)
    assert WINDOW.is_open(closing)


def test_the_window_ends_by_the_guard_before_opening_time() -> None:
    last_call = at("2026-11-24T07:45")

    assert WINDOW.is_open(last_call - SECOND)
    assert not WINDOW.is_open(last_call)
    assert WINDOW.next_change(at("2026-11-23T19:00")) == last_call


def test_a_break_shorter_than_the_guard_opens_no_window() -> None:
    lunch = hours((0, "08:00", "12:00"), (0, "12:10", "19:00"))
    window = DisruptionWindow(hours=lunch, closing_guard=timedelta(minutes=15))

    assert not window.is_open(at("2026-11-23T12:05"))
    assert window.next_change(at("2026-11-23T09:00")) == at("2026-11-23T19:00")


def test_hours_shorter_than_the_guard_close_the_window_ahead_like_any_others() -> None:
    call = hours((0, "12:00", "12:10"))
    window = DisruptionWindow(hours=call, closing_guard=timedelta(minutes=15))

    assert window.next_change(at("2026-11-23T09:00")) == at("2026-11-23T11:45")
    assert not any(window.is_open(at("2026-11-23T11:45") + minute * 60 * SECOND) for minute in range(25))
    assert window.next_change(at("2026-11-23T11:45")) == at("2026-11-23T12:10")
    assert window.is_open(at("2026-11-23T12:10"))


def test_a_holiday_opens_the_window_for_the_whole_day() -> None:
    quiet = hours(*((day, "08:00", "19:00") for day in range(5)), closed=frozenset({date(2026, 11, 26)}))
    window = DisruptionWindow(hours=quiet, closing_guard=timedelta(minutes=15))

    assert window.is_open(at("2026-11-26T12:00"))
    assert window.next_change(at("2026-11-25T19:00")) == at("2026-11-27T07:45")


def test_the_end_of_the_holiday_list_is_told() -> None:
    business_hours = BusinessHours(timezone=NEW_YORK, week=WORKING_WEEK.week, holidays_known_until=date(2026, 12, 31))

    assert business_hours.knows_holidays_at(at("2026-12-31T23:59"))
    assert not business_hours.knows_holidays_at(at("2027-01-01T00:00"))
    assert WORKING_WEEK.knows_holidays_at(at("2099-01-01T00:00"))


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ZoneInfoNotFoundError, match="Amerika"):
        BusinessHours(timezone="Amerika/New_York", week=())


@pytest.mark.parametrize(
    ("weekday", "start", "end"), [(7, 0, 60), (0, 60, 60), (0, 120, 60), (0, 1440, 1500), (0, 0, 1441)]
)
def test_an_interval_without_sense_is_refused(weekday: int, start: int, end: int) -> None:
    with pytest.raises(ValueError, match="wanted"):
        WeeklyInterval(weekday, start, end)


def test_the_database_in_use_has_a_name() -> None:
    assert tzdata_version().startswith("20")


def test_the_next_opening_is_the_start_of_a_span_that_begins_later() -> None:
    monday = at("2026-11-23T08:00")

    assert WORKING_WEEK.next_opening(at("2026-11-22T12:00")) == monday
    assert WORKING_WEEK.next_opening(monday - SECOND) == monday
    assert WORKING_WEEK.next_opening(monday) == at("2026-11-24T08:00")
    assert WORKING_WEEK.next_opening(at("2026-11-23T12:00")) == at("2026-11-24T08:00")
    assert hours().next_opening(monday) is None


def test_what_is_more_than_400_days_away_is_not_looked_for() -> None:
    now = at("2026-11-23T12:00")
    weeks = {week: date(2026, 11, 23) + timedelta(weeks=week) for week in range(60)}
    before, after = frozenset(weeks[week] for week in range(57)), frozenset(weeks[week] for week in range(58))
    near, too_far = (hours((0, "12:00", "19:00"), closed=closed) for closed in (before, after))

    assert near.next_change(now) == near.next_opening(now) == at("2027-12-27T12:00")
    assert (too_far.next_change(now), too_far.next_opening(now)) == (None, None)
    assert DisruptionWindow(hours=too_far, closing_guard=timedelta(minutes=15)).next_change(now) is None


def test_a_change_in_exactly_400_days_is_too_far() -> None:
    closed = frozenset(date(2026, 11, 23) + timedelta(weeks=week) for week in range(57))
    opening = at("2027-12-27T12:00")
    business_hours = hours((0, "12:00", "19:00"), closed=closed)

    assert business_hours.next_change(opening - timedelta(days=400)) is None
    assert business_hours.next_change(opening - timedelta(days=400) + SECOND) == opening


def test_equal_hours_are_equal_whenever_their_zone_was_read_and_do_not_show_it() -> None:
    first = hours((0, "08:00", "19:00"))
    zone_of.cache_clear()
    second = hours((0, "08:00", "19:00"))

    assert (first, hash(first)) == (second, hash(second))
    assert "ZoneInfo" not in repr(first)
    assert zone_of(NEW_YORK).key == NEW_YORK


def test_a_span_that_goes_on_over_midnight_is_told_whole() -> None:
    late = hours((0, "08:00", "24:00"), (1, "00:00", "10:00"))

    [span] = late.open_spans(at("2026-11-23T09:00"), at("2026-11-23T12:00"))

    assert (span.start, span.end) == (at("2026-11-23T08:00"), at("2026-11-24T10:00"))


def test_a_span_that_begins_at_the_end_is_none_of_it() -> None:
    opening = at("2026-11-23T08:00")

    assert list(WORKING_WEEK.open_spans(opening - timedelta(hours=20), opening)) == []
    assert len(list(WORKING_WEEK.open_spans(opening - timedelta(hours=20), opening + SECOND))) == 1
