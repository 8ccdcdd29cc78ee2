"""One pool's part of a turn, from one reading and one view to what is done and told."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from controllers.asked import Ask, Asks
from controllers.pool_turn import PoolTurn, PoolVerdict
from controllers.ports import Action, Known, Mark, Outcome, PodPhase, PodSeen, PoolSeen, Scale, Unknown, Untrusted
from controllers.workers.decision import Reason
from controllers.workers.watch import JANITOR_PATIENCE
from ebbtide.vocabulary.controller_config import Floor
from tests.builders_controllers import CALM, NOON, config, pool_policy, seconds

SWEEP = timedelta(hours=1)
"""So long that every other reason to look again comes first."""


def turned(**policy: object) -> PoolTurn:
    pool = pool_policy(**policy)
    return PoolTurn(pool, config(pool, sweep=SWEEP))


def known(
    *idle: str, waiting: int = 0, running: int = 0, stale: int = 0, oldest_wait: timedelta | None = None
) -> Known:
    return Known(
        waiting=waiting,
        in_transit=0,
        running=running,
        stale=stale,
        idle=frozenset(idle),
        oldest_wait=oldest_wait,
    )


def seen(*pods: str, phase: str = "running", marked: tuple[str, ...] = (), **more: Any) -> PoolSeen:
    shown = tuple(PodSeen(name=name, phase=PodPhase(phase), marked=name in marked) for name in pods)
    fields: dict[str, Any] = {"replicas": len(pods), "existing": len(pods), "version": "7", **more}
    return PoolSeen(pods=shown, **fields)


def calm(turn: PoolTurn, pool: PoolSeen, reading: Known, asks: Asks | None = None) -> PoolVerdict:
    """Two readings, a calm window apart."""
    turn.turn(NOON, pool, reading, Asks())
    return turn.turn(NOON + CALM, pool, reading, asks or Asks())


def scale_asked(value: int) -> Asks:
    asks = Asks()
    asks.record("scale", "train", Ask(value=value, before="7", at=NOON + CALM))
    return asks


def marks(actions: tuple[Action, ...]) -> dict[str, bool]:
    return {action.pod: action.idle for action in actions if isinstance(action, Mark)}


def test_as_many_are_marked_as_are_to_go_and_no_more() -> None:
    verdict = calm(turned(), seen("a", "b", "c", "d"), known("a", "b", "c", "d", waiting=3))

    assert marks(verdict.actions) == {"a": True}
    assert verdict.report.wanted == 3


def test_readings_two_sweeps_apart_are_one_watch_and_a_longer_gap_is_not() -> None:
    for gap, wanted in ((2 * SWEEP, 0), (2 * SWEEP + seconds(1), 2)):
        turn = turned()
        turn.turn(NOON, seen("a", "b"), known("a", "b"), Asks())
        assert turn.turn(NOON + gap, seen("a", "b"), known("a", "b"), Asks()).report.wanted == wanted


def test_nothing_is_lowered_while_a_write_of_ours_is_not_seen() -> None:
    verdict = calm(turned(), seen("a", "b"), known("a", "b"), scale_asked(5))

    assert (verdict.report.reason, verdict.report.wanted, verdict.actions) == (Reason.UNSETTLED, 5, ())


def test_one_pod_that_fails_where_none_runs_is_enough_to_stop_growth() -> None:
    verdict = turned().turn(NOON, seen("a", phase="failing"), known(waiting=4), Asks())

    assert verdict.actions == ()
    assert (verdict.report.failing, verdict.report.wanted) == (1, 1)


def test_the_end_of_the_janitors_patience_is_looked_at_when_it_comes() -> None:
    turn = turned()
    verdict = calm(turn, seen("a"), known(stale=1, running=1))

    assert verdict.report.reason is Reason.STEADY
    assert verdict.due == NOON + JANITOR_PATIENCE


def test_one_stale_entry_with_a_worker_to_clear_it_is_told_after_the_patience() -> None:
    turn = turned()
    patience = JANITOR_PATIENCE.total_seconds()

    notes = [
        turn.turn(NOON + seconds(at), seen("a"), known("a", stale=stale), Asks()).report.note
        for at, stale in ((0, 1), (patience - 1, 1), (patience, 1), (patience + 1, 0))
    ]
    assert notes == ["", "", "stale entries are left that no worker has cleared", ""]


def test_the_report_counts_what_ends_and_tells_the_floor() -> None:
    turn = turned(floors=(Floor(at=12 * 60, lasting=timedelta(hours=1), workers=2),))

    report = turn.turn(NOON, seen("a", "b", phase="terminating", replicas=0, existing=0), known(), Asks()).report

    assert (report.terminating, report.floor, report.wanted) == (2, 2, 2)


@pytest.mark.parametrize(("version", "before"), [("7", "7"), (None, "")])
def test_what_was_asked_is_remembered_with_the_version_it_was_decided_on(version: str | None, before: str) -> None:
    asks = Asks()
    action = Scale(pool="train", replicas=5, version=version, reason="any")

    turned().took(action, Outcome.DONE, NOON, asks)

    assert asks.outstanding("scale", "train", (before, 2), NOON) == Ask(value=5, before=before, at=NOON)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.DONE])
def test_what_was_not_done_was_not_asked(outcome: Outcome) -> None:
    asks = Asks()

    turned().took(Scale(pool="train", replicas=5, version="7", reason="any"), outcome, NOON, asks)
    turned().took(Mark(pool="train", pod="a", idle=True, reason="any"), outcome, NOON, asks)

    assert not asks


def test_a_long_wait_is_nothing_to_a_pool_without_a_drain_target() -> None:
    verdict = turned(jobs_per_worker=4).turn(NOON, seen("a"), known(waiting=4, oldest_wait=timedelta(days=1)), Asks())

    assert (verdict.report.wanted, verdict.report.note) == (1, "")


@pytest.mark.parametrize(
    ("more", "asks", "unmarked"),
    [
        ({}, Asks(), True),
        ({"settled": False}, Asks(), False),
        ({}, scale_asked(5), False),
        ({"replicas": 1}, Asks(), False),
    ],
)
def test_a_mark_is_taken_back_only_when_no_lowering_is_under_way(
    more: dict[str, Any], asks: Asks, unmarked: bool
) -> None:
    turn = turned()
    pool = seen("a", "b", marked=("a",), **more)

    verdict = calm(turn, pool, known(running=2), asks)

    assert marks(verdict.actions) == ({"a": False} if unmarked else {})


def test_the_floor_is_looked_up_anew_when_its_time_is_over_or_the_clock_goes_back() -> None:
    turn = turned(floors=(Floor(at=12 * 60, lasting=timedelta(hours=1), workers=2),))

    def floor(now: datetime) -> int:
        return turn.turn(now, seen(), known(), Asks()).report.floor

    # the nodes' start-up ahead of noon, and an hour after it
    times = (0, 59, 60, -6, -5, 0)
    assert [floor(NOON + timedelta(minutes=at)) for at in times] == [2, 2, 0, 0, 2, 2]


def test_demand_that_is_not_trusted_is_told() -> None:
    verdict = turned().turn(NOON, seen("a"), Untrusted("it restarted", known("a")), Asks())

    assert (verdict.report.note, verdict.actions) == ("demand untrusted, not lowering: it restarted", ())


def test_a_reading_that_is_unknown_leaves_the_pool_as_it_is_and_is_told() -> None:
    report = turned().turn(NOON, seen("a", "b"), Unknown("Redis is away"), Asks()).report

    assert (report.workers, report.wanted, report.note) == (2, None, "demand unknown, holding: Redis is away")


def test_what_is_not_trusted_is_not_watched() -> None:
    turn = turned()
    pool, idle = seen("a"), known("a")
    turn.turn(NOON, pool, Untrusted("it restarted", idle), Asks())
    turn.turn(NOON + CALM - seconds(1), pool, Untrusted("it restarted", idle), Asks())

    assert turn.turn(NOON + CALM, pool, idle, Asks()).report.reason is Reason.CALMING


def test_the_janitors_patience_begins_with_an_entry_that_a_worker_could_clear() -> None:
    turn = turned()
    patience = JANITOR_PATIENCE.total_seconds()
    for at, pool in ((0, seen("a", phase="pending")), (60, seen("a")), (patience + 59, seen("a"))):
        report = turn.turn(NOON + seconds(at), pool, known("a", stale=1), Asks()).report

    assert report.note == ""
    told = turn.turn(NOON + seconds(patience + 60), seen("a"), known("a", stale=1), Asks()).report
    assert told.note == "stale entries are left that no worker has cleared"


def test_demand_that_is_not_trusted_is_the_reason_why_nothing_goes() -> None:
    assert turned().turn(NOON, seen("a"), Untrusted("it restarted", known("a")), Asks()).report.reason == (
        Reason.UNTRUSTED
    )


def test_nothing_is_lowered_while_a_pod_that_was_asked_for_does_not_exist() -> None:
    verdict = calm(turned(), seen("a", "b", replicas=3), known("a", "b"))

    assert (verdict.report.reason, verdict.actions) == (Reason.UNSETTLED, ())


def test_the_report_counts_pods_by_what_they_are() -> None:
    phases = {"a": "running", "b": "pending", "c": "failing", "d": "unreachable", "e": "terminating"}
    pods = tuple(PodSeen(name=name, phase=PodPhase(phase)) for name, phase in phases.items())
    pool = PoolSeen(replicas=4, existing=4, pods=pods, version="7")

    report = turned().turn(NOON, pool, known(running=1), Asks()).report

    counts = (report.running, report.pending, report.failing, report.unreachable, report.terminating)
    assert counts == (1, 1, 1, 1, 1)
    assert (report.name, report.workers, report.reading) == ("train", 4, known(running=1))
