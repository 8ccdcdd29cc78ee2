"""Writes that no cache shows yet, and noted conditions."""

import pytest

from controllers.reconciling import Expectation, Expectations, Notes
from tests.builders.controllers import NOON, seconds

ASK = Expectation(value=3, before="7", at=NOON)
BEFORE, OTHER_VERSION, SHOWN = ("7", 5), ("8", 5), ("7", 3)


def expectations() -> Expectations[int]:
    made = Expectations[int]()
    made.record("scale", "train", ASK)
    return made


def test_an_ask_is_outstanding_until_the_cluster_shows_another_version_or_the_value() -> None:
    for seen in (OTHER_VERSION, SHOWN):
        open_ones = expectations()
        assert open_ones.outstanding("scale", "train", BEFORE, NOON + seconds(1)) == ASK
        assert open_ones.outstanding("scale", "train", seen, NOON + seconds(1)) is None
        assert not open_ones, "and then it is forgotten"


@pytest.mark.parametrize(("at", "outstanding"), [(-0.001, False), (0, True), (29.999, True), (30, False)])
def test_a_write_that_no_cache_shows_for_half_a_minute_is_forgotten(at: float, outstanding: bool) -> None:
    open_ones = expectations()

    found = open_ones.outstanding("scale", "train", BEFORE, NOON + seconds(at))

    assert (found == ASK, bool(open_ones)) == (outstanding, outstanding)


def test_expectations_of_another_kind_or_name_are_none_of_it() -> None:
    assert expectations().outstanding("budget", "train", BEFORE, NOON) is None
    assert expectations().outstanding("scale", "prep", BEFORE, NOON) is None


def test_a_later_ask_takes_the_place_of_the_one_before() -> None:
    open_ones = expectations()
    later = Expectation(value=4, before="8", at=NOON)
    open_ones.record("scale", "train", later)

    assert open_ones.outstanding("scale", "train", ("8", 3), NOON) == later


def test_expectations_about_what_is_gone_are_dropped_and_the_others_are_named() -> None:
    open_ones = expectations()
    open_ones.record("scale", "prep", ASK)

    left = open_ones.drop_gone("scale", ["prep", "new"])

    assert ("prep" in left, "train" in left, "new" in left) == (True, False, False)
    assert open_ones.outstanding("scale", "train", BEFORE, NOON) is None
    assert open_ones.outstanding("scale", "prep", BEFORE, NOON) == ASK


def test_a_value_that_cannot_be_compared_ends_no_expectation() -> None:
    open_ones = expectations()

    assert open_ones.outstanding("scale", "train", ("7", None), NOON) == ASK
    assert open_ones.outstanding("scale", "train", ("8", None), NOON) is None


def test_a_condition_is_reported_when_it_begins_changes_and_ends() -> None:
    reports: list[tuple[str, str]] = []
    notes = Notes(lambda _, subject, message: reports.append((subject, message)))
    for condition in ("", "away", "away", "refused", "", ""):
        notes.note(NOON, "cluster", condition)
    notes.note(NOON, "clocks", "skewed")

    reported = ["away", "refused", "no longer: refused"]
    assert reports == [*(("cluster", message) for message in reported), ("clocks", "skewed")]
    assert (notes.condition("cluster"), notes.condition("clocks"), notes.condition("config")) == ("", "skewed", "")
