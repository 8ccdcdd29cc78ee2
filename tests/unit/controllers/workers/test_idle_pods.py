"""Which pods count as idle when the source cannot tell pod from pod."""

from controllers.ports import Known, ObservedPod, ObservedPool, PodPhase
from controllers.reconciling import Expectations
from controllers.scaler.workers.history import DemandHistory
from controllers.scaler.workers.pods import summarize_pods
from tests.builders.controllers import CALM, NOON, Bench, config, pool_policy, seconds


def nameless_bench(workers: int, *, busy: int = 0) -> Bench:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].names_idle = False
    bench.staff("train", workers, busy=busy)
    return bench


def test_without_names_one_job_in_flight_keeps_every_worker() -> None:
    bench = nameless_bench(4, busy=1)

    bench.pass_time(CALM * 3)

    assert bench.cluster.writes == []
    assert bench.pool_report().idle == 0


def test_without_names_a_pool_that_holds_nothing_goes_to_zero() -> None:
    bench = nameless_bench(4)

    bench.pass_time(CALM + seconds(2))

    assert bench.cluster.replicas("train") == 0


def test_without_names_not_even_pending_pods_go_while_a_job_is_in_flight() -> None:
    bench = nameless_bench(2, busy=1)
    bench.queues["train"].enqueue(5)
    bench.reconcile()
    bench.queues["train"].waiting = 0

    bench.pass_time(CALM * 2)

    assert bench.cluster.replicas("train") == 6
    assert bench.pool_report().pending == 4


def test_without_names_stale_entries_keep_every_worker() -> None:
    bench = nameless_bench(3)
    bench.queues["train"].stale = 1

    bench.pass_time(CALM * 2)

    assert bench.cluster.replicas("train") == 3


def test_a_queue_that_was_never_seen_is_told_and_has_no_other_effect() -> None:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].seen_before = False
    bench.queues["train"].enqueue()

    bench.reconcile()

    assert bench.pool_report().note == "queue never seen: is its name right?"
    assert bench.cluster.replicas("train") == 1


def test_what_workers_report_of_their_settings_is_told_and_has_no_other_effect() -> None:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].warning = "visibility_timeout is 1 h, and longestJob is 2 h"
    bench.queues["train"].enqueue()

    bench.reconcile()

    assert bench.pool_report().note == "visibility_timeout is 1 h, and longestJob is 2 h"
    assert bench.cluster.replicas("train") == 1


def test_a_pod_that_leaves_idle_explains_no_job() -> None:
    """One job runs, and every pod says idle: one of those that stay has it."""
    known = Known(waiting=0, in_transit=0, running=1, idle=frozenset({"stays", "stays-too", "leaves"}))
    watch = DemandHistory(CALM, longest_gap=seconds(10))
    watch.observe(NOON, known, staffed=True)
    later = NOON + seconds(9)
    watch.observe(later, known, staffed=True)
    phases = {"stays": PodPhase.RUNNING, "stays-too": PodPhase.RUNNING, "leaves": PodPhase.TERMINATING}
    pods = tuple(ObservedPod(name=name, phase=phase) for name, phase in phases.items())

    shape = summarize_pods(
        later, ObservedPool(replicas=2, existing=2, pods=pods), known, watch, (Expectations[int](), "marks")
    )

    assert (shape.count, shape.terminating, shape.spare.total) == (2, 1, 0)
