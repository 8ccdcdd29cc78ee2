"""Times as operators enter them, in the customer's zone."""

from datetime import UTC, datetime, timedelta

import pytest

from ebbtide.operate.instants import NotUnderstood, duration_of, instant_after, spoken

NOW = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)  # 10:00 in New York
NEW_YORK = "America/New_York"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("23:00", datetime(2026, 11, 21, 4, 0, tzinfo=UTC)),  # local time
        ("9:30", datetime(2026, 11, 21, 14, 30, tzinfo=UTC)),  # passed today: tomorrow's
        ("2h", NOW + timedelta(hours=2)),
        ("1h30m", NOW + timedelta(minutes=90)),
        ("2026-11-22T08:00", datetime(2026, 11, 22, 13, 0, tzinfo=UTC)),
        ("2026-11-22T08:00Z", datetime(2026, 11, 22, 8, 0, tzinfo=UTC)),
        ("2026-11-22T08:00:00+09:00", datetime(2026, 11, 21, 23, 0, tzinfo=UTC)),
    ],
)
def test_an_end_is_a_local_time_a_duration_or_an_instant(text: str, instant: datetime) -> None:
    assert instant_after(text, NOW, NEW_YORK) == instant


def test_a_time_that_happens_twice_is_the_later_one() -> None:
    evening_before = datetime(2026, 10, 31, 23, 0, tzinfo=UTC)

    assert instant_after("01:30", evening_before, NEW_YORK) == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "tonight", "25:00", "0h", "2026-11-19T08:00Z", "-2h", "9999-12-31T23:59:59-05:00", "9999-12-31T23:59"]
)
def test_what_names_no_instant_to_come_is_refused(text: str) -> None:
    with pytest.raises(NotUnderstood, match="wanted"):
        instant_after(text, NOW, NEW_YORK)


@pytest.mark.parametrize("text", ["", "2", "two hours", "0m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(NotUnderstood, match="wanted a duration"):
        duration_of(text)


def test_local_times_come_first() -> None:
    assert (
        spoken(datetime(2026, 11, 21, 4, 0, tzinfo=UTC), NEW_YORK) == "Fri 2026-11-20 23:00 EST (2026-11-21 04:00 UTC)"
    )
