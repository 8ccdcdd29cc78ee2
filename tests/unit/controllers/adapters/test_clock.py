"""Clocks that disagree."""

from datetime import timedelta

import pytest

from controllers.adapters.clock import ClockCheck
from tests.builders.controllers import NOON, seconds


class Check:
    """A check at noon, whose monotonic clock moves by hand."""

    def __init__(self) -> None:
        self.monotonic = 0.0
        self.check = ClockCheck(lambda: NOON, lambda: self.monotonic)

    def hear(self, **ahead: float) -> str:
        for source, by in ahead.items():
            self.check.compare(source, NOON + seconds(by))
        return self.check.doubt()


@pytest.mark.parametrize("ahead", [{}, {"redis": 60.0}, {"redis": -60.0}, {"redis": 30.0, "api": -30.0}])
def test_a_minute_apart_is_still_agreement(ahead: dict[str, float]) -> None:
    assert Check().hear(**ahead) == ""


@pytest.mark.parametrize(
    ("ahead", "says"),
    [
        ({"redis": 61.0}, "redis is 61 s ahead of ours"),
        ({"redis": -3600.0}, "ours is 3600 s ahead of redis"),
        ({"redis": 40.0, "api": -40.0}, "redis is 80 s ahead of api"),
    ],
)
def test_more_than_a_minute_is_reported_with_sources_and_difference(ahead: dict[str, float], says: str) -> None:
    assert says in Check().hear(**ahead)


def test_a_clock_that_was_set_right_is_believed_again() -> None:
    check = Check()
    check.hear(redis=3600)

    assert check.hear(redis=0) == ""


def test_what_was_heard_long_ago_says_nothing() -> None:
    check = Check()
    check.hear(redis=3600)
    check.monotonic += timedelta(minutes=6).total_seconds()

    assert check.check.doubt() == ""
