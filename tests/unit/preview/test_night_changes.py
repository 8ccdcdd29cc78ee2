"""Sentences about a change of the nights, one for each difference."""

from datetime import timedelta
from typing import Any

import pytest

from ebbtide.settings.model import StackSettings
from tests.builders.nights import changes, nights, stack_with, with_morning

PLAN = {"pool": "train", "at": "02:00", "for": timedelta(hours=2), "workers": 6}


def week(**days: Any) -> StackSettings:
    return stack_with(week={key.replace("_", "-"): hours for key, hours in days.items()})


def test_the_same_hours_say_nothing() -> None:
    assert changes(stack_with(), stack_with()) == []
    assert nights(stack_with()).changes == ()  # a new customer


def test_longer_fridays() -> None:
    assert changes(stack_with(), week(mon_fri="08:00-19:00")) == [
        "Fridays: the window opens at 19:00 instead of 17:00",
        "2 h more protection a week",
    ]


def test_days_with_the_same_change_share_a_sentence() -> None:
    later = week(mon_thu="09:00-18:00", fri="08:00-17:00")

    assert changes(stack_with(), later) == [
        "Mondays to Thursdays: the window closes at 08:45 instead of 07:45 and opens at 18:00 instead of 19:00",
        "8 h less protection a week",
    ]
    assert changes(week(mon_wed="08:00-17:00", thu_fri="08:00-16:00"), week(mon_fri="08:00-17:00"))[0] == (
        "Thursdays and Fridays: the window opens at 17:00 instead of 16:00"
    )


def test_days_that_come_and_go() -> None:
    assert changes(stack_with(), week(mon_thu="08:00-19:00", sat="10:00-12:30")) == [
        "Fridays: closed all day now, protected 08:00-17:00 before",
        "Saturdays: protected 10:00-12:30 now, closed all day before",
        "6 h 30 min less protection a week",
    ]


@pytest.mark.parametrize("now", ["08:00-12:00, 13:00-17:00", "22:00-06:00+1", "08:00-24:00"])
def test_hours_in_parts_or_past_midnight_are_told_as_hours(now: str) -> None:
    """If an interval meets midnight, no window has to begin or end there."""
    assert changes(stack_with(), week(mon_thu="08:00-19:00", fri=now))[0] == (
        f"Fridays: protected {now} instead of 08:00-17:00"
    )


def test_another_zone_says_how_far_the_nights_move() -> None:
    assert changes(stack_with(), stack_with(timezone="Europe/Berlin"))[0] == (
        "time zone: Europe/Berlin instead of America/New_York, so the same wall time comes 6 h earlier"
    )
    assert changes(stack_with(), stack_with(timezone="America/Toronto")) == [
        "time zone: America/Toronto instead of America/New_York, whose clocks agree today"
    ]


def test_another_guard() -> None:
    said = changes(stack_with(), stack_with(guard=timedelta(minutes=40)))

    assert said == [
        "every window closes 40 min before opening instead of 15 min, 25 min earlier",
        "4 h 10 min more protection in the coming 14 days",
    ]


def test_dates_that_close_and_open_are_named_and_later_ones_counted() -> None:
    before = stack_with(holidays={"closed": ["2026-11-20", "2027-03-05"]})
    after = stack_with(holidays={"country": "US", "open": ["2026-11-20"], "closed": ["2026-11-27", "2026-11-28"]})

    said = changes(before, after)

    assert said[:3] == [
        "Fri 20 Nov is a working day now",
        "Thu 26 Nov is closed now (Thanksgiving Day)",
        "Fri 27 Nov is closed now",  # the 28th is a Saturday, closed anyway
    ]
    assert said[3].startswith("after the coming 14 days ")
    assert said[3].endswith(" are closed and 1 are working days, from Fri 25 Dec 2026 on")
    assert said[4:] == ["11 h 15 min less protection in the coming 14 days"]  # a guard goes with each opening


def test_a_date_with_other_hours_is_named_with_them() -> None:
    before = stack_with(holidays={"open": ["2026-11-21", "2026-11-28", "2026-12-12"]})
    own = [{"date": day, "hours": "09:00-14:00"} for day in ("2026-11-20", "2026-11-21", "2026-11-22", "2026-12-12")]
    after = stack_with(holidays={"open": own})

    later = "0 more dates are closed and 0 are working days, 1 have other hours"
    assert changes(before, after) == [
        "Fri 20 Nov is protected 09:00-14:00 instead of 08:00-17:00",
        "Sat 21 Nov is protected 09:00-14:00 instead of 08:00-19:00",
        "Sun 22 Nov is a working day now, open 09:00-14:00",
        "Sat 28 Nov is closed now",
        f"after the coming 14 days {later}, from Sat 12 Dec 2026 on",
        "16 h less protection in the coming 14 days",
    ]


def test_a_night_shift_of_yesterday_ends_today() -> None:
    shift = {"thu": "22:00-06:00+1"}
    closed = stack_with(week=shift, holidays={"closed": ["2026-11-19"]})

    assert changes(stack_with(week=shift), closed, "2026-11-20T01:00")[0] == "Thu 19 Nov is closed now"


def test_planned_work_and_mornings() -> None:
    more = {**PLAN, "workers": 8}

    assert changes(stack_with(overnight=[PLAN]), stack_with(overnight=[more])) == [
        "planned work is new: train, 8 workers at 02:00 for 2 h",
        "planned work is gone: train, 6 workers at 02:00 for 2 h",
    ]
    assert changes(stack_with(), with_morning(stack_with(), workers=1)) == [
        "mornings of train: 1 worker for 30 min instead of no workers"
    ]
