"""The fakes behave as what they stand for, and refuse what it could never be."""

from datetime import datetime, timedelta

import pytest

from controllers.ports import Mark, ObservedCluster, Outcome, PodPhase, Scale, Unknown
from tests.builders.controllers import NOON, seconds
from tests.fakes import FakeCluster, FakeQueue, ImpossibleState, ManualClock, ScriptedWaker


def cluster_of(replicas: int, *, busy: str = "") -> FakeCluster:
    cluster = FakeCluster(ManualClock(NOON), is_busy=lambda pod: pod == busy)
    cluster.add_pool("train", replicas)
    return cluster


def scale(replicas: int, version: str | None = None) -> Scale:
    return Scale(pool="train", replicas=replicas, version=version, reason="test")


def seen(cluster: FakeCluster) -> ObservedCluster:
    shown = cluster.observe()
    assert not isinstance(shown, Unknown)
    return shown


def test_pending_pods_vanish_first() -> None:
    cluster = cluster_of(2)
    cluster.start("train", "train-1")

    cluster.act(scale(1))

    assert cluster.pods("train", PodPhase.RUNNING) == ["train-1"]
    assert cluster.pods("train", PodPhase.PENDING) == []


def test_marked_pods_go_before_others_and_end_in_their_own_time() -> None:
    cluster = cluster_of(3)
    cluster.start_all("train")
    cluster.act(Mark(pool="train", pod="train-2", idle=True, reason="test"))

    cluster.act(scale(2))

    assert cluster.pods("train", PodPhase.TERMINATING) == ["train-2"]
    cluster.end("train", "train-2")
    assert cluster.pods("train", PodPhase.TERMINATING) == []


def test_among_equals_a_busy_pod_goes_and_that_is_recorded() -> None:
    cluster = cluster_of(3, busy="train-1")
    cluster.start_all("train")

    cluster.act(scale(2))

    assert cluster.removed_busy == ["train-1"]


def test_a_stale_version_is_refused_and_changes_nothing() -> None:
    cluster = cluster_of(1)
    old = seen(cluster).pools["train"].version
    cluster.start_all("train")

    assert cluster.act(scale(0, old)) is Outcome.STALE
    assert cluster.replicas("train") == 1


def test_the_caches_show_the_past() -> None:
    clock = ManualClock(NOON)
    cluster = FakeCluster(clock)
    cluster.add_pool("train", 1)
    cluster.objects_lag = seconds(5)
    clock.advance(seconds(10))
    cluster.act(scale(4))

    assert seen(cluster).pools["train"].replicas == 1
    clock.advance(seconds(5))
    assert seen(cluster).pools["train"].replicas == 4


def test_a_lost_pod_is_replaced() -> None:
    cluster = cluster_of(1)
    cluster.start_all("train")

    cluster.lose("train", "train-1")

    assert len(cluster.pods("train", PodPhase.PENDING)) == 1


def test_a_popped_job_is_in_transit_while_its_worker_still_says_idle() -> None:
    queue = FakeQueue(waiting=1)
    queue.join("a")

    queue.pop("a")

    snapshot = queue.snapshot()
    assert (snapshot.waiting, snapshot.in_transit, snapshot.running, snapshot.idle) == (0, 1, 0, {"a"})


def test_a_queue_refuses_impossible_moves() -> None:
    queue = FakeQueue(waiting=1)
    queue.join("a")
    queue.pop("a")

    with pytest.raises(ImpossibleState, match="empty queue"):
        queue.pop("a")
    queue.enqueue()
    with pytest.raises(ImpossibleState, match="no free worker"):
        queue.pop("a")
    with pytest.raises(ImpossibleState, match="runs none"):
        queue.finish("a")
    with pytest.raises(ImpossibleState, match="popped none"):
        queue.start("b")


def test_a_cluster_refuses_impossible_moves() -> None:
    cluster = cluster_of(1)

    with pytest.raises(ImpossibleState, match="not terminating"):
        cluster.end("train", "train-1")
    with pytest.raises(ImpossibleState, match="not pending"):
        cluster.start("train", "train-9")
    with pytest.raises(ImpossibleState, match="not there"):
        cluster.lose("train", "train-9")
    with pytest.raises(ImpossibleState, match="-1 replicas"):
        cluster.act(scale(-1))


def test_time_only_goes_forward_and_has_a_zone() -> None:
    with pytest.raises(ImpossibleState, match="goes back"):
        ManualClock(NOON).advance(-seconds(1))
    with pytest.raises(ImpossibleState, match="without a zone"):
        ManualClock(datetime(2026, 1, 1))  # noqa: DTZ001 - the very mistake


def test_the_waker_never_sleeps_past_the_timeout_and_ends_with_its_script() -> None:
    clock = ManualClock(NOON)
    waker = ScriptedWaker(clock, [(timedelta(hours=1), lambda: None)])

    assert waker.wait(seconds(5))
    assert clock.now() == NOON + seconds(5)
    assert not waker.wait(seconds(5))
