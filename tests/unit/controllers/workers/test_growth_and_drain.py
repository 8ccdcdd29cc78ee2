"""The growth limit of a pool, and the instant at which its declared job time is no longer believed."""

from datetime import timedelta

from controllers.ports import Known, PodPhase, Scale
from tests.builders.controllers import CALM, Bench, config, pool_policy, seconds


def replicas_after(bench: Bench, *pauses: float) -> list[int]:
    """Return the requested workers after each of the pauses, with a reconcile at its end."""
    asked: list[int] = []
    for pause in pauses:
        bench.clock.advance(seconds(pause))
        bench.reconcile()
        asked.append(bench.cluster.replicas("train"))
    return asked


def test_no_more_workers_than_the_limit_are_added_in_any_minute() -> None:
    bench = Bench(config(pool_policy(growth_per_minute=3)))
    bench.queues["train"].enqueue(10)

    assert replicas_after(bench, 0, 1, 58, 1, 1, 59) == [3, 3, 3, 3, 6, 6]


def test_a_limited_pool_says_so_and_looks_again_when_the_minute_is_over() -> None:
    bench = Bench(config(pool_policy(growth_per_minute=3), resync=timedelta(hours=1)))
    bench.queues["train"].enqueue(10)
    bench.reconcile()
    bench.clock.advance(seconds(1))

    bench.reconcile()
    bench.clock.advance(seconds(1))
    due = bench.reconcile()

    assert (bench.pool_report().wanted, bench.pool_report().reason) == (3, "growth-limit-of-this-minute")
    assert due == seconds(59)  # the growth counts from the turn that saw it


def test_the_first_worker_is_never_delayed() -> None:
    bench = Bench(config(pool_policy(growth_per_minute=2, stabilization_window=seconds(6))))
    bench.queues["train"].enqueue(2)
    bench.reconcile()
    bench.queues["train"].waiting = 0
    bench.pass_time(seconds(12))
    assert bench.cluster.replicas("train") == 0
    bench.queues["train"].enqueue(5)

    assert replicas_after(bench, 0) == [1]


def test_without_a_limit_growth_is_at_once() -> None:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].enqueue(10)

    assert replicas_after(bench, 0) == [10]


def test_a_growth_by_someone_else_counts_too() -> None:
    bench = Bench(config(pool_policy(growth_per_minute=3)))
    bench.reconcile()
    bench.cluster.act(Scale(pool="train", replicas=2, version=None, reason="an operator"))
    bench.queues["train"].enqueue(10)

    assert replicas_after(bench, 1) == [3]


def waiting(jobs: int, oldest: float) -> Known:
    return Known(waiting=jobs, in_transit=0, running=0, oldest_wait=seconds(oldest))


def drained_bench() -> Bench:
    return Bench(config(pool_policy(jobs_per_worker=5, drain_within=seconds(60))))


def test_a_head_that_waits_too_long_gets_one_worker_per_job() -> None:
    bench = drained_bench()
    bench.staff("train", 2)
    bench.demand.override["train"] = waiting(8, oldest=60)
    assert replicas_after(bench, 0) == [2]
    bench.demand.override["train"] = waiting(8, oldest=61)

    assert replicas_after(bench, 1) == [8]
    assert "longer than the drain target" in bench.pool_report().note


def test_a_late_head_waits_for_the_workers_that_are_on_their_way() -> None:
    bench = drained_bench()
    bench.cluster.add_pool("train", 2)  # both pending
    bench.demand.override["train"] = waiting(8, oldest=90)
    assert replicas_after(bench, 0) == [2]
    bench.cluster.start_all("train")

    assert replicas_after(bench, 1) == [8]


def test_slow_nodes_do_not_make_it_send_the_extra_workers_back() -> None:
    bench = drained_bench()
    bench.staff("train", 2)
    bench.demand.override["train"] = waiting(8, oldest=90)

    bench.pass_time(CALM * 3)

    assert [scale.replicas for scale in bench.scalings()] == [8]
    assert len(bench.cluster.pods("train", PodPhase.PENDING)) == 6


def test_a_head_that_is_young_again_keeps_the_extra_workers_for_the_stabilization_window() -> None:
    bench = drained_bench()
    bench.staff("train", 2)
    bench.demand.override["train"] = waiting(8, oldest=90)
    bench.pass_time(seconds(10))
    bench.demand.override["train"] = waiting(8, oldest=5)

    bench.pass_time(CALM - seconds(5))
    assert bench.cluster.replicas("train") == 8
    bench.pass_time(seconds(10))
    assert bench.cluster.replicas("train") == 2


def test_an_unknown_age_overrules_nothing() -> None:
    bench = drained_bench()
    bench.staff("train", 2)
    bench.demand.override["train"] = Known(waiting=8, in_transit=0, running=0)

    assert replicas_after(bench, 0) == [2]
