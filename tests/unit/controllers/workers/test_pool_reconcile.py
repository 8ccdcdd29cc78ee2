"""One pool's part of a reconcile, from one reading and one observation to what is done and reported."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from controllers.ports import (
    Action,
    Known,
    Mark,
    ObservedPod,
    ObservedPool,
    Outcome,
    PodPhase,
    PoolReport,
    Scale,
    Unknown,
    Untrusted,
)
from controllers.reconciling import Expectation, Expectations, Result
from controllers.scaler.workers.decision import Reason
from controllers.scaler.workers.history import JANITOR_PATIENCE
from controllers.scaler.workers.reconcile import PoolReconciler
from ebbtide.vocabulary.controller_config import Floor
from tests.builders.controllers import CALM, NOON, config, pool_policy, seconds

RESYNC = timedelta(hours=1)
"""So long that every other reason to look again comes first."""


def reconciler(expectations: Expectations[int] | None = None, **policy: object) -> PoolReconciler:
    pool = pool_policy(**policy)
    return PoolReconciler(
        pool, config(pool, resync=RESYNC), Expectations[int]() if expectations is None else expectations
    )


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


def seen(*pods: str, phase: str = "running", marked: tuple[str, ...] = (), **more: Any) -> ObservedPool:
    shown = tuple(ObservedPod(name=name, phase=PodPhase(phase), marked=name in marked) for name in pods)
    fields: dict[str, Any] = {"replicas": len(pods), "existing": len(pods), "version": "7", **more}
    return ObservedPool(pods=shown, **fields)


def calm(
    pool_reconciler: PoolReconciler, pool: ObservedPool, reading: Known, written: Scale | None = None
) -> Result[PoolReport]:
    """Two readings, a stabilization window apart; `written` was done just before the second one."""
    pool_reconciler.reconcile(NOON, pool, reading)
    if written is not None:
        pool_reconciler.record_outcome(written, Outcome.DONE, NOON + CALM)
    return pool_reconciler.reconcile(NOON + CALM, pool, reading)


def scale(replicas: int) -> Scale:
    return Scale(pool="train", replicas=replicas, version="7", reason="any")


def marks(actions: tuple[Action, ...]) -> dict[str, bool]:
    return {action.pod: action.idle for action in actions if isinstance(action, Mark)}


def test_as_many_are_marked_as_are_to_go_and_no_more() -> None:
    result = calm(reconciler(), seen("a", "b", "c", "d"), known("a", "b", "c", "d", waiting=3))

    assert marks(result.actions) == {"a": True}
    assert result.report.wanted == 3


def test_readings_two_sweeps_apart_are_one_watch_and_a_longer_gap_is_not() -> None:
    for gap, wanted in ((2 * RESYNC, 0), (2 * RESYNC + seconds(1), 2)):
        pool_reconciler = reconciler()
        pool_reconciler.reconcile(NOON, seen("a", "b"), known("a", "b"))
        assert pool_reconciler.reconcile(NOON + gap, seen("a", "b"), known("a", "b")).report.wanted == wanted


def test_nothing_is_lowered_while_a_write_of_ours_is_not_seen() -> None:
    result = calm(reconciler(), seen("a", "b"), known("a", "b"), scale(5))

    assert (result.report.reason, result.report.wanted, result.actions) == (Reason.UNSETTLED, 5, ())


def test_one_pod_that_fails_where_none_runs_is_enough_to_stop_growth() -> None:
    result = reconciler().reconcile(NOON, seen("a", phase="failing"), known(waiting=4))

    assert result.actions == ()
    assert (result.report.failing, result.report.wanted) == (1, 1)


def test_the_end_of_the_janitors_patience_is_looked_at_when_it_comes() -> None:
    pool_reconciler = reconciler()
    result = calm(pool_reconciler, seen("a"), known("a", stale=1))

    assert result.report.reason is Reason.STEADY
    assert result.due == NOON + JANITOR_PATIENCE


def test_a_stale_entry_calls_for_one_worker_more_than_the_busy_ones() -> None:
    pool, entries = seen("a", "b"), known(running=2, stale=1)
    result = reconciler().reconcile(NOON, pool, entries)
    with_a_free_one = reconciler().reconcile(NOON, pool, known("b", running=1, stale=1))
    without = reconciler().reconcile(NOON, pool, known(running=2))

    assert (result.report.wanted, result.report.reason) == (3, Reason.CHORES)
    assert (with_a_free_one.report.wanted, without.report.wanted) == (2, 2)


def test_a_stale_entry_of_a_pool_with_several_jobs_per_worker_calls_for_one_worker_more() -> None:
    pool_reconciler = reconciler(jobs_per_worker=4)

    assert pool_reconciler.reconcile(NOON, seen("a"), known(running=4, stale=1)).report.wanted == 2


def test_stale_entries_call_for_no_worker_beyond_max_and_the_note_says_so() -> None:
    report = reconciler(max_workers=2).reconcile(NOON, seen("a", "b"), known(running=2, stale=1)).report

    assert (report.wanted, report.reason) == (2, Reason.STEADY)
    assert report.note == "stale entries wait for a free worker: as many are busy as max allows, 2"


def test_the_janitors_patience_does_not_run_while_every_worker_is_busy() -> None:
    pool_reconciler = reconciler(max_workers=1)
    patience = int(JANITOR_PATIENCE.total_seconds())
    for at in range(0, patience + 60, 10):
        pool_reconciler.reconcile(NOON + seconds(at), seen("a"), known(running=1, stale=1))

    free = pool_reconciler.reconcile(NOON + seconds(patience + 60), seen("a"), known("a", stale=1)).report

    assert (free.wanted, free.reason, free.note) == (1, Reason.STEADY, "")


def test_one_stale_entry_with_a_worker_to_clear_it_is_reported_after_the_patience() -> None:
    pool_reconciler = reconciler(source="list")
    patience = JANITOR_PATIENCE.total_seconds()

    notes = [
        pool_reconciler.reconcile(NOON + seconds(at), seen("a"), known("a", stale=stale)).report.note
        for at, stale in ((0, 1), (patience - 1, 1), (patience, 1), (patience + 1, 0))
    ]
    assert notes == ["", "", "stale entries are left that no worker has cleared", ""]


@pytest.mark.parametrize(
    ("template", "pods", "wanted"),
    [(7200, (7200, 7200), 0), (7200, (7200, 7199), 2), (30, (7200, 7200), 2)],
)
def test_an_adopted_pool_only_grows_while_a_stopped_pod_gets_less_time_than_the_longest_job(
    template: int, pods: tuple[int, ...], wanted: int
) -> None:
    pool = seen("a", "b", grace=template)
    shown = tuple(replace(pod, grace=grace) for pod, grace in zip(pool.pods, pods, strict=True))

    result = calm(reconciler(adopted=True, longest_job=timedelta(hours=2)), replace(pool, pods=shown), known("a", "b"))

    assert result.report.wanted == wanted
    shortest = min(template, *pods)
    why = f"only grows: a pod gets {shortest} s to stop, of terminationGracePeriodSeconds; longestJob is 7200 s"
    assert result.report.note == (why if wanted else "")


def test_a_pod_that_is_being_stopped_already_does_not_count_with_its_grace() -> None:
    pool = seen("a", "b", grace=7200, replicas=1, existing=1)
    ending = replace(pool.pods[0], phase=PodPhase.TERMINATING)
    pool = replace(pool, pods=(ending, replace(pool.pods[1], grace=7200)))

    assert calm(reconciler(adopted=True), pool, known("b")).report.wanted == 0


def test_the_report_counts_terminating_pods_and_names_the_floor() -> None:
    pool_reconciler = reconciler(floors=(Floor(at=12 * 60, lasting=timedelta(hours=1), workers=2),))

    report = pool_reconciler.reconcile(
        NOON, seen("a", "b", phase="terminating", replicas=0, existing=0), known()
    ).report

    assert (report.terminating, report.floor, report.wanted) == (2, 2, 2)


@pytest.mark.parametrize(("version", "before"), [("7", "7"), (None, "")])
def test_what_was_asked_is_remembered_with_the_version_it_was_decided_on(version: str | None, before: str) -> None:
    expectations = Expectations[int]()
    action = Scale(pool="train", replicas=5, version=version, reason="any")

    reconciler(expectations).record_outcome(action, Outcome.DONE, NOON)

    assert expectations.outstanding("scale", "train", (before, 2), NOON) == Expectation(value=5, before=before, at=NOON)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.DONE])
def test_what_was_not_done_was_not_asked(outcome: Outcome) -> None:
    expectations = Expectations[int]()

    reconciler(expectations).record_outcome(scale(5), outcome, NOON)
    reconciler(expectations).record_outcome(Mark(pool="train", pod="a", idle=True, reason="any"), outcome, NOON)

    assert not expectations


def test_a_long_wait_is_nothing_to_a_pool_without_a_drain_target() -> None:
    result = reconciler(jobs_per_worker=4).reconcile(NOON, seen("a"), known(waiting=4, oldest_wait=timedelta(days=1)))

    assert (result.report.wanted, result.report.note) == (1, "")


@pytest.mark.parametrize(
    ("more", "written", "unmarked"),
    [
        ({}, None, True),
        ({"settled": False}, None, False),
        ({}, scale(5), False),
        ({}, scale(1), False),
        ({"replicas": 1}, None, False),
        ({"existing": 3}, None, False),
    ],
)
def test_the_only_mark_is_taken_back_when_no_pod_is_to_go(
    more: dict[str, Any], written: Scale | None, unmarked: bool
) -> None:
    pool_reconciler = reconciler()
    pool = seen("a", "b", marked=("a",), **more)

    result = calm(pool_reconciler, pool, known(running=2), written)

    assert marks(result.actions) == ({"a": False} if unmarked else {})


@pytest.mark.parametrize(
    ("replicas", "written", "unmarked"), [(3, 1, ["a"]), (3, 0, []), (1, 1, ["a"]), (0, 1, []), (0, 0, [])]
)
def test_a_mark_beyond_what_is_to_go_is_taken_back_before_the_replicaset_has_chosen(
    replicas: int, written: int, unmarked: list[str]
) -> None:
    pool_reconciler = reconciler()
    pool_reconciler.record_outcome(scale(written), Outcome.DONE, NOON)
    pool = seen("a", "b", "c", marked=("a", "b", "c"), replicas=replicas, settled=False)

    result = pool_reconciler.reconcile(NOON, pool, known("b", "c", running=1))

    assert [pod for pod, idle in marks(result.actions).items() if not idle] == unmarked


def test_the_floor_is_calculated_again_when_it_ends_or_the_clock_goes_back() -> None:
    pool_reconciler = reconciler(floors=(Floor(at=12 * 60, lasting=timedelta(hours=1), workers=2),))

    def floor(now: datetime) -> int:
        return pool_reconciler.reconcile(now, seen(), known()).report.floor

    # the nodes' start-up ahead of noon, and an hour after it
    times = (0, 59, 60, -6, -5, 0)
    assert [floor(NOON + timedelta(minutes=at)) for at in times] == [2, 2, 0, 0, 2, 2]


def test_warnings_of_workers_are_noted_and_hide_no_other_condition() -> None:
    warned = replace(known(), warning="workers have --burst")
    fine = reconciler().reconcile(NOON, seen("a"), warned).report
    both = reconciler().reconcile(NOON, seen("a", phase="failing"), warned).report

    assert fine.note == "workers have --burst"
    assert both.note.startswith("workers that crash in a loop")
    assert both.note.endswith("; workers have --burst")


def test_untrusted_demand_is_noted() -> None:
    result = reconciler().reconcile(NOON, seen("a"), Untrusted("it restarted", known("a")))

    assert (result.report.note, result.actions) == ("demand untrusted, not lowering: it restarted", ())


def test_an_unknown_reading_leaves_the_pool_unchanged_and_is_noted() -> None:
    report = reconciler().reconcile(NOON, seen("a", "b"), Unknown("Redis is away")).report

    assert (report.workers, report.wanted, report.note) == (2, None, "demand unknown, holding: Redis is away")


def test_what_is_not_trusted_is_not_watched() -> None:
    pool_reconciler = reconciler()
    pool, idle = seen("a"), known("a")
    pool_reconciler.reconcile(NOON, pool, Untrusted("it restarted", idle))
    pool_reconciler.reconcile(NOON + CALM - seconds(1), pool, Untrusted("it restarted", idle))

    assert pool_reconciler.reconcile(NOON + CALM, pool, idle).report.reason is Reason.STABILIZING


def test_the_janitors_patience_begins_with_an_entry_that_a_worker_could_clear() -> None:
    pool_reconciler = reconciler()
    patience = JANITOR_PATIENCE.total_seconds()
    for at, pool in ((0, seen("a", phase="pending")), (60, seen("a")), (patience + 59, seen("a"))):
        report = pool_reconciler.reconcile(NOON + seconds(at), pool, known("a", stale=1)).report

    assert report.note == ""
    told = pool_reconciler.reconcile(NOON + seconds(patience + 60), seen("a"), known("a", stale=1)).report
    assert told.note.startswith("stale entries or overdue jobs are left that no worker has cleared")
    assert "--with-scheduler" in told.note


def test_demand_that_is_not_trusted_is_the_reason_why_nothing_goes() -> None:
    assert reconciler().reconcile(NOON, seen("a"), Untrusted("it restarted", known("a"))).report.reason == (
        Reason.UNTRUSTED
    )


def test_nothing_is_lowered_while_a_pod_that_was_asked_for_does_not_exist() -> None:
    result = calm(reconciler(), seen("a", "b", replicas=3), known("a", "b"))

    assert (result.report.reason, result.actions) == (Reason.UNSETTLED, ())


def test_the_report_counts_pods_by_what_they_are() -> None:
    phases = {"a": "running", "b": "pending", "c": "failing", "d": "unreachable", "e": "terminating"}
    pods = tuple(ObservedPod(name=name, phase=PodPhase(phase)) for name, phase in phases.items())
    pool = ObservedPool(replicas=4, existing=4, pods=pods, version="7")

    report = reconciler().reconcile(NOON, pool, known(running=1)).report

    counts = (report.running, report.pending, report.failing, report.unreachable, report.terminating)
    assert counts == (1, 1, 1, 1, 1)
    assert (report.name, report.workers, report.reading) == ("train", 4, known(running=1))


def test_an_ordinary_pool_has_an_empty_note() -> None:
    observed = ObservedPool(replicas=0, existing=0, pods=())

    assert reconciler().reconcile(NOON, observed, known()).report.note == ""
