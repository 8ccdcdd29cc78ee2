"""The memory of refusals, reading by reading. What a pool does with it is in test_refusals."""

from datetime import timedelta

import pytest

from controllers.ports import ObservedPool
from controllers.scaler.workers.refusals import FIRST_PAUSE, LONGEST_PAUSE, PATIENCE, Refusals
from tests.builders.controllers import NOON, seconds

PAUSE = int(FIRST_PAUSE.total_seconds())


def pool(replicas: int = 10, refused: str = "quota", version: str = "7", existing: int = 4) -> ObservedPool:
    return ObservedPool(replicas=replicas, existing=existing, pods=(), version=version, refused=refused)


def see(refusals: Refusals, at: float, seen: ObservedPool | None = None, existing: int = 4) -> int | None:
    return refusals.observe(NOON + seconds(at), seen or pool(), existing)


def refused(existing: int = 4) -> Refusals:
    """A pool of ten with four pods, whose first pause began at 30 s."""
    made = Refusals()
    see(made, 0, existing=existing)
    assert see(made, 30, existing=existing) is not None
    return made


def test_the_same_refusal_has_to_last_for_the_entire_patience() -> None:
    refusals = Refusals()

    assert [see(refusals, at) for at in (0, 10, 29.9, 30)] == [None, None, None, 4]
    assert timedelta(seconds=30) == PATIENCE


def test_a_deployment_that_changes_meanwhile_restarts_the_patience() -> None:
    refusals = Refusals()

    see(refusals, 0)
    assert [see(refusals, at, pool(version="8")) for at in (20, 30, 49, 50)] == [None, None, None, 4]


@pytest.mark.parametrize("seen", [pool(refused=""), pool(replicas=4)])
def test_what_is_not_refused_or_has_all_its_pods_is_not_limited(seen: ObservedPool) -> None:
    refusals = Refusals()

    assert [see(refusals, at, seen) for at in (0, 30, 60)] == [None, None, None]
    assert refusals.why == ""
    assert refusals.next_change(NOON) is None


def test_a_complaint_that_ends_for_a_moment_begins_the_patience_anew() -> None:
    refusals = Refusals()

    see(refusals, 0)
    see(refusals, 20, pool(refused=""))
    assert [see(refusals, at) for at in (25, 54, 55)] == [None, None, 4]


def test_one_worker_may_always_be_asked_for() -> None:
    assert see(refused(existing=0), 31, existing=0) == 1


def test_the_limit_is_kept_for_the_pause_although_asking_for_less_ends_the_complaint() -> None:
    refusals = refused()
    quiet = pool(replicas=4, refused="")

    assert [see(refusals, at, quiet) for at in (31, 30 + PAUSE - 1, 30 + PAUSE)] == [4, 4, None]


def test_what_is_asked_for_already_is_not_taken_back_unless_it_is_refused_again() -> None:
    refusals = refused()
    raised = pool(replicas=7, version="8")  # somebody else asked for it

    assert see(refusals, 40, raised) == 7
    assert see(refusals, 69, raised) == 7
    assert see(refusals, 70, raised) == 4


def test_pods_above_the_limit_end_it() -> None:
    refusals = refused()

    assert see(refusals, 60, pool(refused="", replicas=10), existing=5) is None
    assert refusals.why == ""


def test_pods_beside_the_complaint_raise_the_limit() -> None:
    assert see(refused(), 60, existing=6) == 6


def test_the_next_pauses_are_twice_as_long_up_to_the_longest() -> None:
    refusals, at = refused(), 30.0
    lengths = [FIRST_PAUSE]
    for _ in range(4):
        at += lengths[-1].total_seconds()
        version = str(at)
        see(refusals, at, pool(version=version))
        assert see(refusals, at + 29, pool(version=version)) is None
        at += 30
        assert see(refusals, at, pool(version=version)) == 4
        until = refusals.next_change(NOON + seconds(at))
        assert until is not None
        lengths.append(until - (NOON + seconds(at)))

    assert lengths == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]


def test_a_refusal_during_a_pause_does_not_make_it_longer() -> None:
    refusals = refused()

    for at in (60, 120, 200):
        assert see(refusals, at) == 4

    assert refusals.next_change(NOON + seconds(200)) == NOON + seconds(30 + PAUSE)


def test_a_refusal_of_what_was_granted_brings_no_new_pause() -> None:
    """A pod of the four has gone and may not come back: asking for four is not asking for more."""
    refusals = refused()
    less = pool(replicas=4, version="9")
    at = 30 + PAUSE

    assert [see(refusals, after, less, existing=3) for after in (at, at + 40)] == [None, None]


def test_it_is_told_in_the_first_words_until_nothing_was_refused_for_as_long_again() -> None:
    refusals = refused()
    see(refusals, 60, pool(refused="other words", version="8"))
    quiet = pool(replicas=4, refused="")

    see(refusals, 30 + 2 * PAUSE - 1, quiet)
    assert refusals.why == "quota"
    see(refusals, 30 + 2 * PAUSE, quiet)
    assert refusals.why == ""
    assert [see(refusals, 30 + 2 * PAUSE + at) for at in (0, 30)] == [None, 4]
    assert refusals.next_change(NOON + seconds(60 + 2 * PAUSE)) == NOON + seconds(60 + 3 * PAUSE)


def test_a_clock_that_goes_back_ends_the_limit() -> None:
    assert see(refused(), 29, pool(replicas=4, refused="")) is None


def test_the_next_change_is_the_end_of_the_patience_and_then_of_the_pause() -> None:
    refusals = Refusals()
    see(refusals, 0)

    assert refusals.next_change(NOON) == NOON + seconds(30)
    assert refusals.next_change(NOON + seconds(30)) is None
    see(refusals, 30)
    assert refusals.next_change(NOON + seconds(30)) == NOON + seconds(30 + PAUSE)
    assert refusals.next_change(NOON + seconds(30 + PAUSE)) is None


def test_a_complaint_that_comes_back_in_the_pause_stands_when_the_pause_is_over() -> None:
    refusals = refused()
    see(refusals, 60, pool(replicas=4, refused=""))

    assert [see(refusals, at) for at in (70, 30 + PAUSE)] == [10, 4]
    assert refusals.next_change(NOON + seconds(30 + PAUSE)) == NOON + seconds(30 + 3 * PAUSE)


def test_in_the_pause_what_is_not_refused_is_not_taken_back() -> None:
    assert see(refused(), 40, pool(replicas=9, refused="")) == 9
