"""The conditions under which a Ray cluster is suspended, and under which it wakes."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.workloads.ray.sleep import SPEC_AFTER, SleepDecision, decide_sleep
from ebbtide.vocabulary.workloads import Purpose, Sleep, SleepWhen, Wake
from tests.builders.workloads.specs import IDLE, seen

NEVER = Sleep()
AT_NIGHT = Sleep(when=SleepWhen.OUTSIDE_HOURS, after=timedelta(minutes=30), wake=frozenset({Wake.QUEUE}))
DAY_TOO = Sleep(when=SleepWhen.IDLE, after=timedelta(hours=2), wake=frozenset({Wake.BUSINESS_HOURS}))


def up(reason: str) -> SleepDecision:
    return SleepDecision(suspend=False, reason=reason)


def test_it_sleeps_once_it_has_been_idle_for_long_enough() -> None:
    instant = timedelta(microseconds=1)

    assert decide_sleep(seen(idle_for=IDLE.after - instant), IDLE) == up("idle-but-recent")
    slept = decide_sleep(seen(idle_for=IDLE.after), IDLE)
    assert slept == SleepDecision(suspend=True, reason="idle-for-long", purpose=Purpose.REST)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"idle_for": None}, "not-known-idle"),
        ({"drivers": True}, "drivers-wanted"),
        ({"drivers": None}, "drivers-unknown"),
        ({"wake_asked": True}, "wake-asked"),
        ({"doubt": "clock skew"}, "in-doubt"),
        ({"kept": True}, "kept-awake"),
        ({"paused": True}, "paused"),
    ],
)
def test_whatever_speaks_against_sleep_keeps_it_awake(what: dict[str, Any], why: str) -> None:
    assert decide_sleep(seen(**what), IDLE) == up(why)


def test_by_day_it_stays_awake_however_idle_it_is() -> None:
    for sleep in (AT_NIGHT, DAY_TOO):
        assert decide_sleep(seen(hours_open=True), sleep) == up("business-hours")
        assert decide_sleep(seen(hours_open=False), sleep).suspend
    assert decide_sleep(seen(hours_open=True), IDLE).suspend
    assert decide_sleep(seen(), NEVER) == up("never-sleeps")


@pytest.mark.parametrize(
    ("what", "sleep", "why"),
    [
        ({}, IDLE, "asleep"),
        ({"idle_for": None, "drivers": None}, IDLE, "asleep"),
        ({"doubt": "clock skew"}, IDLE, "asleep"),
        ({"hours_open": True}, IDLE, "asleep"),
        ({"wake_asked": True}, AT_NIGHT, "asleep"),
        ({"paused": True, "drivers": True}, IDLE, "paused"),
    ],
)
def test_it_sleeps_on_while_nothing_that_it_listens_to_wakes_it(what: dict[str, Any], sleep: Sleep, why: str) -> None:
    asleep = seen(suspended=True, purpose=Purpose.REST, **what)

    assert decide_sleep(asleep, sleep) == SleepDecision(suspend=True, reason=why)


@pytest.mark.parametrize(
    ("what", "sleep", "why"),
    [
        ({"drivers": True}, IDLE, "drivers-wanted"),
        ({"wake_asked": True}, IDLE, "wake-asked"),
        ({"kept": True}, IDLE, "kept-awake"),
        ({"hours_open": True}, AT_NIGHT, "business-hours"),
        ({"hours_open": True}, DAY_TOO, "business-hours"),
        ({}, NEVER, "never-sleeps"),
        ({"drivers": True, "doubt": "clock skew"}, IDLE, "drivers-wanted"),
        ({"drivers": True, "purpose": None}, IDLE, "drivers-wanted"),
    ],
)
def test_it_wakes_without_a_word_of_the_head(what: dict[str, Any], sleep: Sleep, why: str) -> None:
    assert decide_sleep(seen(**{"suspended": True, "purpose": Purpose.REST, "idle_for": None, **what}), sleep) == up(
        why
    )


@pytest.mark.parametrize("sleep", [NEVER, IDLE, AT_NIGHT])
def test_a_pending_spec_suspends_it_when_nothing_is_attached_and_lets_it_go_once_written(sleep: Sleep) -> None:
    by_day = {"pending": True, "hours_open": True}
    suspended = SleepDecision(suspend=True, reason="spec-pending-and-idle", purpose=Purpose.SPEC)

    assert decide_sleep(seen(idle_for=SPEC_AFTER, **by_day), sleep) == suspended
    for against in ({"idle_for": SPEC_AFTER / 2}, {"idle_for": None}, {"drivers": True}, {"drivers": None}):
        assert not decide_sleep(seen(**by_day, **against), sleep).suspend
    below = {"suspended": True, "purpose": Purpose.SPEC}
    assert decide_sleep(seen(pending=True, **below), sleep) == SleepDecision(suspend=True, reason="spec-pending")
    assert decide_sleep(seen(**below), sleep) == up("spec-done")


def test_under_maintenance_a_pending_spec_interrupts_what_runs_but_not_against_a_hold_or_a_doubtful_clock() -> None:
    busy = {"idle_for": None, "drivers": True, "may_interrupt": True}

    assert decide_sleep(seen(pending=True, **busy), NEVER).purpose is Purpose.SPEC
    assert decide_sleep(seen(pending=False, **busy), NEVER) == up("never-sleeps")
    for against in ({"doubt": "clock skew"}, {"kept": True}, {"paused": True}):
        assert not decide_sleep(seen(pending=True, **busy, **against), NEVER).suspend


@pytest.mark.parametrize("sleep", [NEVER, IDLE, AT_NIGHT])
def test_a_pending_spec_is_applied_at_once_where_no_head_lives_to_run_anything(sleep: Sleep) -> None:
    headless = {"pending": True, "headless": True, "idle_for": None, "drivers": True, "hours_open": True}
    applied = SleepDecision(suspend=True, reason="spec-pending-without-a-head", purpose=Purpose.SPEC)

    assert decide_sleep(seen(**headless), sleep) == applied
    assert not decide_sleep(seen(**{**headless, "pending": False}), sleep).suspend
    for against in ({"doubt": "clock skew"}, {"kept": True}, {"paused": True}):
        assert not decide_sleep(seen(**headless, **against), sleep).suspend
