"""Pods that are there and no capacity: on silent nodes, crashing in a loop, without an image."""

from datetime import timedelta

import pytest

from controllers.ports import Known, PodPhase
from controllers.scaler.workers.decision import Reason, decide_workers
from tests.builders.controllers import CALM, Bench, config, pool_policy, reading, seconds

FAILING, UNREACHABLE, RUNNING = PodPhase.FAILING, PodPhase.UNREACHABLE, PodPhase.RUNNING
SILENT = "workers on silent nodes: 1; nothing is lowered until they answer or are gone"


def test_a_worker_on_a_silent_node_is_replaced_while_a_job_waits() -> None:
    bench = Bench(config(pool_policy()))
    [lost] = bench.staff("train", 1)
    bench.queues["train"].enqueue()
    bench.pass_time(seconds(10))
    assert bench.scalings() == []

    bench.cluster.set_phase("train", lost, UNREACHABLE)
    bench.pass_time(seconds(10))

    assert [(scale.replicas, scale.reason) for scale in bench.scalings()] == [(2, "a-worker-is-out-of-reach")]
    assert (bench.pool_report().running, bench.pool_report().pending, bench.pool_report().unreachable) == (0, 1, 1)
    assert bench.pool_report().note == SILENT


def test_it_is_replaced_within_the_maximum_only() -> None:
    bench = Bench(config(pool_policy(max_workers=2)))
    lost, _ = bench.staff("train", 2, busy=2)
    bench.queues["train"].enqueue(5)
    bench.cluster.set_phase("train", lost, UNREACHABLE)

    bench.pass_time(seconds(30))

    assert bench.scalings() == []


def test_a_pool_without_demand_replaces_nobody() -> None:
    bench = Bench(config(pool_policy()))
    [lost] = bench.staff("train", 1)
    bench.cluster.set_phase("train", lost, UNREACHABLE)

    bench.pass_time(2 * CALM, step=seconds(5))

    assert bench.scalings() == []


def test_nothing_is_lowered_while_a_worker_may_be_busy_on_a_silent_node() -> None:
    """The ReplicaSet would remove it first, whatever the others' deletion costs are."""
    bench = Bench(config(pool_policy()))
    busy, *_ = bench.staff("train", 4, busy=1)
    bench.cluster.set_phase("train", busy, UNREACHABLE)

    bench.pass_time(CALM + timedelta(minutes=5), step=seconds(5))

    assert bench.scalings() == []
    assert bench.pool_report().reason == "a-worker-is-out-of-reach"


def test_a_refused_pool_is_not_lowered_either() -> None:
    bench = Bench(config(pool_policy()))
    busy, *_ = bench.staff("train", 4, busy=4)
    bench.cluster.set_phase("train", busy, UNREACHABLE)
    bench.cluster.set_quota("train", 4)
    bench.queues["train"].enqueue(6)

    bench.pass_time(timedelta(minutes=3))

    assert [scale.replicas for scale in bench.scalings()] == [10]
    assert bench.cluster.removed == []


def test_once_its_node_answers_the_pool_shrinks_to_what_is_busy() -> None:
    bench = Bench(config(pool_policy()))
    busy, *_ = bench.staff("train", 4, busy=1)
    bench.cluster.set_phase("train", busy, UNREACHABLE)
    bench.pass_time(2 * CALM, step=seconds(5))
    bench.cluster.set_phase("train", busy, RUNNING)

    bench.pass_time(seconds(30))

    assert bench.cluster.replicas("train") == 1
    assert bench.cluster.removed_busy == []
    assert bench.journal.notes[-1][2] == f"no longer: {SILENT}"


def test_workers_that_fail_to_start_are_told_and_never_made_more() -> None:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].enqueue(2)
    bench.reconcile()
    for pod in bench.cluster.pods("train", PodPhase.PENDING):
        bench.cluster.set_phase("train", pod, FAILING)
    bench.queues["train"].enqueue(20)

    bench.pass_time(timedelta(minutes=10), step=seconds(5))

    assert [scale.replicas for scale in bench.scalings()] == [2]
    assert (bench.pool_report().reason, bench.pool_report().failing) == ("workers-fail-to-start", 2)
    assert (bench.pool_report().running, bench.pool_report().pending) == (0, 0)
    assert "crash in a loop" in bench.pool_report().note


def test_a_pool_with_what_it_asked_for_is_not_at_its_target_while_none_of_it_starts() -> None:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].enqueue(2)
    bench.reconcile()
    for pod in bench.cluster.pods("train", PodPhase.PENDING):
        bench.cluster.set_phase("train", pod, FAILING)

    bench.reconcile()

    assert bench.pool_report().reason == "workers-fail-to-start"


def test_one_that_fails_beside_others_that_work_stops_no_growth() -> None:
    bench = Bench(config(pool_policy()))
    one, _ = bench.staff("train", 2)
    bench.cluster.set_phase("train", one, FAILING)
    bench.queues["train"].enqueue(6)

    bench.reconcile()

    assert bench.cluster.replicas("train") == 6
    assert bench.pool_report().reason == "demand-above-capacity"


def test_the_first_worker_is_asked_for_whatever_failed_before() -> None:
    decision = decide_workers(reading(jobs=1, workers=0, failing=True), pool_policy())

    assert (decision.workers, decision.reason) == (1, Reason.GROW)


def test_unreachable_workers_alone_are_no_reason_to_wake_a_pool() -> None:
    assert decide_workers(reading(jobs=0, workers=0, unreachable=2), pool_policy()).workers == 0


def test_workers_that_fail_to_start_go_when_the_demand_has_gone() -> None:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].enqueue(3)
    bench.reconcile()
    for pod in bench.cluster.pods("train", PodPhase.PENDING):
        bench.cluster.set_phase("train", pod, FAILING)
    bench.queues["train"].waiting = 0

    bench.pass_time(CALM + seconds(15))

    assert bench.cluster.replicas("train") == 0


def test_a_job_that_a_failing_pod_may_have_taken_keeps_it() -> None:
    """Between two crashes its container runs and may take a job, before anybody sees it run."""
    bench = Bench(config(pool_policy()))
    one, other = bench.staff("train", 2)
    bench.take_job("train", one)
    bench.cluster.set_phase("train", one, FAILING)
    bench.cluster.set_phase("train", other, FAILING)
    bench.queues["train"].workers.discard(other)

    bench.pass_time(2 * CALM, step=seconds(5))

    assert bench.cluster.removed == []


@pytest.mark.parametrize("phase", [FAILING, UNREACHABLE])
def test_a_janitor_that_does_not_run_is_not_out_of_time(phase: PodPhase) -> None:
    """Patience with stale entries counts from when a worker runs that could clear them."""
    bench = Bench(config(pool_policy()))
    [janitor] = bench.staff("train", 1)
    bench.cluster.set_phase("train", janitor, phase)
    bench.queues["train"].stale = 1

    bench.pass_time(timedelta(minutes=15), step=seconds(5))

    reading = bench.pool_report().reading
    assert isinstance(reading, Known)
    assert "stale entries" not in bench.pool_report().note
    assert bench.cluster.replicas("train") >= 1
