"""Clocks that disagree."""

from datetime import timedelta

import pytest

from controllers.adapters.clock import ClockCheck
from controllers.doubt import TRUST, Doubt
from tests.builders.controllers import NOON, seconds


class Check:
    """A check from noon on; `error` is what its own clock is ahead of true time."""

    def __init__(self) -> None:
        self.passed = self.error = 0.0  # seconds
        self.check = ClockCheck(lambda: NOON + seconds(self.passed + self.error), lambda: self.passed)

    def hear(self, **ahead: float) -> Doubt:
        """Hear from servers that are so many seconds ahead of true time."""
        for source, by in ahead.items():
            self.check.compare(source, NOON + seconds(self.passed + by))
        return self.check.doubt()

    def doubt_after(self, passed: float) -> Doubt:
        self.passed += passed
        return self.check.doubt()


def leads(*ahead: float) -> tuple[timedelta, ...]:
    return tuple(seconds(by) for by in ahead)


@pytest.mark.parametrize("ahead", [{}, {"redis": 60.0}, {"redis": -60.0}, {"redis": 30.0, "api": -30.0}])
def test_a_minute_apart_is_still_agreement(ahead: dict[str, float]) -> None:
    assert Check().hear(**ahead) == TRUST


@pytest.mark.parametrize(
    ("ahead", "says"),
    [
        ({"redis": 61.0}, "redis is 61 s ahead of ours"),
        ({"redis": -3600.0}, "ours is 3600 s ahead of redis"),
        ({"redis": 40.0, "api": -40.0}, "redis is 80 s ahead of api"),
    ],
)
def test_more_than_a_minute_is_reported_with_sources_and_difference(ahead: dict[str, float], says: str) -> None:
    assert says in Check().hear(**ahead).why


@pytest.mark.parametrize(
    ("ahead", "theirs"),
    [
        ({"api": 2400.0}, leads(2400)),
        ({"api": -2400.0}, leads(-2400)),
        ({"api": 2400.0, "redis": 2399.6}, leads(2400)),
        ({"api": -2400.0, "redis": 61.0}, leads(-2400, 61)),
        ({"api": 2400.0, "redis": 0.0}, leads(2400)),
        ({"api": 2400.0, "redis": -30.0}, leads(-30, 2400)),
    ],
)
def test_while_clocks_disagree_the_lead_of_each_is_known(
    ahead: dict[str, float], theirs: tuple[timedelta, ...]
) -> None:
    assert Check().hear(**ahead).leads == theirs


def test_what_was_heard_long_ago_says_nothing() -> None:
    check = Check()
    check.hear(redis=3600)

    assert check.doubt_after(299).leads == leads(3600)
    assert check.doubt_after(2) == TRUST


def test_of_two_servers_only_the_one_that_was_heard_lately_counts() -> None:
    check = Check()
    check.hear(redis=-3600)
    check.passed = 200.0
    check.hear(api=900)

    assert check.doubt_after(0).leads == leads(-3600, 900)
    assert check.doubt_after(101).leads == leads(900)


def test_a_server_that_was_set_right_is_believed_when_its_last_wrong_answer_is_old() -> None:
    check = Check()
    check.hear(redis=3600)

    assert check.hear(redis=0)
    check.passed = 299.0
    assert check.hear(redis=0).leads == leads(3600)
    check.passed = 301.0
    assert check.hear(redis=0) == TRUST


def test_a_difference_of_about_a_minute_does_not_come_and_go() -> None:
    check = Check()
    doubts: list[bool] = []
    for turn in range(1200):
        check.passed = float(turn)
        doubts.append(bool(check.hear(api=60 + turn % 2)))

    assert doubts == [False] + [True] * 1199


def test_two_servers_behind_one_address_are_one_doubt_with_both_leads() -> None:
    check = Check()
    whys: set[str] = set()
    for turn in range(20):
        check.passed = 60.0 * turn
        check.hear(api=-2400 * (turn % 2) - 30)
        whys.add(check.doubt_after(0).why)

    assert check.doubt_after(0).leads == leads(-2430, -30)
    assert whys == {"", "clock skew: ours is 2430 s ahead of api"}


def test_answers_of_one_server_that_contradict_each_other_are_named_as_such() -> None:
    check = Check()
    check.hear(api=-10)

    assert "times of api are 2410 s apart" in check.hear(api=2400).why


def test_a_step_of_our_own_clock_shows_before_anything_else_is_heard() -> None:
    check = Check()
    check.hear(api=0)
    check.error = -2400.0
    assert check.doubt_after(1).leads == leads(2400)

    check.error = 0.0
    assert check.doubt_after(1) == TRUST
