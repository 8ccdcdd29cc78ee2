"""Examples of coming nights; `tests/properties/test_coming_nights.py` compares them with the controller."""

from datetime import timedelta

import pytest

from tests.builders.nights import at, nights, stack_with, with_morning

DAY = timedelta(days=1)


def test_a_row_names_the_wall_time_and_both_instants() -> None:
    friday = nights(stack_with(), "2026-11-20T12:00", days=1).rows

    assert [row.local for row in friday] == ["Fri 20 Nov 17:00 → Mon 23 Nov 07:45 (America/New_York)"]
    assert (friday[0].opens, friday[0].closes) == (at("2026-11-20T17:00"), at("2026-11-23T07:45"))
    assert friday[0].opens.isoformat() == "2026-11-20T22:00:00+00:00"
    assert friday[0].note == ""


def test_two_weeks_have_ten_windows_and_one_that_is_open_already_is_shown_whole() -> None:
    on_a_sunday = nights(stack_with(), "2026-11-15T12:00").rows

    assert len(on_a_sunday) == 11
    assert on_a_sunday[0].opens == at("2026-11-13T17:00")
    assert on_a_sunday[-1].opens == at("2026-11-27T17:00")


def test_the_minutes_of_the_guard_are_in_no_window() -> None:
    assert nights(stack_with(), "2026-11-17T07:50", days=1).rows[0].opens == at("2026-11-17T19:00")


@pytest.mark.parametrize(
    ("now", "hours", "note"),
    [
        ("2026-10-31T12:00", 62.75 + 1, "clocks go back: 1 h longer than the clock shows"),
        ("2027-03-13T12:00", 62.75 - 1, "clocks go forward: 1 h shorter than the clock shows"),
    ],
)
def test_a_weekend_on_which_the_clocks_change_says_so(now: str, hours: float, note: str) -> None:
    weekend = nights(stack_with(week={"mon-fri": "08:00-17:00"}), now, days=1).rows[0]

    assert weekend.note == note
    assert weekend.closes - weekend.opens == timedelta(hours=hours)


def test_half_an_hour_is_told_as_such() -> None:
    lord_howe = stack_with(timezone="Australia/Lord_Howe")

    assert "30 min longer" in nights(lord_howe, "2026-04-03T12:00", days=1).rows[0].note


def test_holidays_that_lengthen_a_window_are_named_and_others_are_not() -> None:
    thanksgiving = stack_with(holidays={"country": "US", "closed": ["2026-11-27"]})
    christmas = stack_with(holidays={"country": "DE"}, week={"mon-thu": "08:00-19:00"})

    assert [row.note for row in nights(thanksgiving, "2026-11-25T12:00", days=1).rows] == [
        "Thu 26 Nov Thanksgiving Day; Fri 27 Nov holiday"
    ]
    assert nights(christmas, "2026-12-24T12:00", days=1).rows[0].note == ""  # a Friday and a Saturday, closed anyway


def test_a_working_saturday_ends_a_window_and_says_so() -> None:
    hungary = stack_with(timezone="Europe/Budapest", week={"mon-fri": "08:00-18:00"}, holidays={"country": "HU"})

    friday, saturday = nights(hungary, "2026-12-11T20:00", days=1).rows[:2]

    assert (friday.local, friday.note) == (
        "Fri 11 Dec 18:00 → Sat 12 Dec 07:45 (Europe/Budapest)",
        "Sat 12 Dec is open 08:00-18:00",
    )
    assert (saturday.local, saturday.note) == ("Sat 12 Dec 18:00 → Mon 14 Dec 07:45 (Europe/Budapest)", "")


def test_planned_work_is_shown_from_when_its_nodes_are_asked_for() -> None:
    planned = stack_with(overnight=[{"pool": "train", "at": "02:00", "for": timedelta(hours=2), "workers": 6}])

    notes = [row.note for row in nights(planned, "2026-11-19T12:00", days=2).rows]

    assert notes == [
        "planned: train, 6 workers 01:55 to 04:00",
        "planned: train, 6 workers 01:55 to 04:00, on 3 nights",
    ]


def test_a_morning_is_shown_with_the_window_that_it_ends() -> None:
    rows = nights(with_morning(stack_with(), workers=2), days=1).rows

    assert [row.note for row in rows] == ["morning: train, 2 workers 07:55 to 08:30"]


def test_hours_without_a_night_warn() -> None:
    never = nights(stack_with(week={"mon-sun": "00:00-24:00"}))

    assert never.rows == ()
    assert never.warnings == ("no window within 14 days: budgets never open, and flexible nodes stay",)


def test_a_window_that_nothing_ends_is_cut_and_says_so() -> None:
    stack = stack_with()
    abandoned = stack.model_copy(update={"business_hours": stack.business_hours.model_copy(update={"week": ()})})

    (row,) = nights(abandoned, "2026-11-16T10:00", days=3).rows

    assert row.closes == at("2026-11-19T10:00")
    assert row.note == "no opening follows: the window stays open"


def test_a_window_too_short_for_the_autoscaler_warns_by_name() -> None:
    lunch = stack_with(week={"mon": ["08:00-12:00", "12:30-19:00"], "tue-fri": "08:00-19:00"})

    assert nights(lunch, days=7).warnings == (
        "a window too short for the autoscaler, which needs about 30 min to remove a node: Mon 16 Nov 12:00 (15 min)",
    )
    assert nights(stack_with(week={"mon": ["08:00-12:00", "12:45-19:00"]}), days=7).warnings == ()


def test_a_window_that_is_open_at_new_year_began_before_the_holidays_of_december() -> None:
    thursdays = stack_with(week={"thu": "08:00-17:00"}, holidays={"country": "US"})  # Christmas 2025 is one of them

    assert nights(thursdays, "2026-01-02T10:00").rows[0].opens == at("2025-12-18T17:00")


def test_a_list_of_holidays_that_ends_soon_warns() -> None:
    stack = stack_with(holidays={"country": "LK"})  # whose calendar is announced year by year
    until = stack.business_hours.hours((2026, 2027, 2028)).holidays_known_until
    assert until is not None
    said = (f"the list of holidays ends on {until}; after that, holidays count as working days",)

    assert nights(stack, f"{until - 59 * DAY}T10:00").warnings == said
    assert nights(stack, f"{until - 61 * DAY}T10:00").warnings == ()
