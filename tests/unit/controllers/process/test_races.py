"""Races that random runs found: each is between what the controller saw and what the ReplicaSet chose."""

from datetime import timedelta

from controllers.ports import Mark
from tests.builders.controllers import CALM, Bench, config, pool_policy, seconds


def test_a_long_pop_keeps_every_worker_although_a_starting_one_might_explain_the_job() -> None:
    bench = Bench(config(pool_policy()))
    popping, starting = bench.staff("train", 2)
    bench.queues["train"].leave(starting)  # its worker has not told Redis of itself yet
    bench.queues["train"].enqueue()
    bench.queues["train"].pop(popping)

    bench.pass_time(CALM + seconds(30))

    assert bench.cluster.replicas("train") == 2
    assert bench.cluster.marked("train") == set()


def test_a_mark_stays_while_the_replicaset_may_still_choose() -> None:
    bench = Bench(config(pool_policy()))
    pod, _ = bench.staff("train", 2)
    bench.cluster.act(Mark(pool="train", pod=pod, idle=True, reason="idle"))
    bench.take_job("train", pod)
    bench.cluster.set_settled("train", settled=False)

    bench.pass_time(seconds(3))
    assert bench.cluster.marked("train") == {pod}

    bench.cluster.set_settled("train", settled=True)
    bench.pass_time(seconds(3))
    assert bench.cluster.marked("train") == set()


def test_stabilization_windows_count_from_the_reading_and_not_from_the_start_of_a_slow_reconcile() -> None:
    bench = Bench(config(pool_policy(stabilization_window=seconds(6))))
    bench.staff("train", 1, busy=1)
    bench.reconcile()
    started = bench.clock.now()
    bench.clock.advance(seconds(4))  # the pass began before this, and its writes took so long
    bench.queues["train"].finish(next(iter(bench.queues["train"].running)))
    bench.loop.reconcile(started)

    bench.pass_time(timedelta(seconds=5.5))

    assert bench.cluster.replicas("train") == 1
