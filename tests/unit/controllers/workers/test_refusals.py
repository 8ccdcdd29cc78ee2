"""A cluster that creates no more pods: cap, report, ask again after a pause, touch nothing that exists."""

from datetime import timedelta
from itertools import pairwise

from controllers.ports import PodPhase, Scale
from tests.builders.controllers import CALM, Bench, config, pool_policy, seconds

SETTLED = seconds(40)  # the patience and a few turns


def refused_bench(*, pods: int = 4, jobs: int = 10) -> Bench:
    """Demand for ten workers, a quota for `pods`, which have started and are busy."""
    bench = Bench(config(pool_policy()))
    bench.cluster.set_quota("train", pods)
    bench.queues["train"].enqueue(jobs)
    bench.reconcile()
    for pod in bench.cluster.start_all("train"):
        bench.queues["train"].join(pod)
        bench.queues["train"].pop(pod)
        bench.queues["train"].start(pod)
    return bench


def test_a_refused_pool_asks_for_no_more_than_the_pods_that_exist() -> None:
    bench = refused_bench()

    bench.pass_time(SETTLED)

    assert [scale.replicas for scale in bench.scalings()] == [10, 4]
    assert len(bench.cluster.pods("train", PodPhase.RUNNING)) == 4
    assert bench.cluster.removed == []


def test_it_is_reported_once_in_the_clusters_own_words() -> None:
    bench = refused_bench()

    bench.pass_time(timedelta(minutes=20), step=seconds(5))

    said = "the cluster creates no more pods: exceeded quota: pods"
    assert [message for _, _, message in bench.journal.notes] == [said]
    assert bench.pool_report().note == said
    assert bench.pool_report().reason == "cluster-creates-no-more-pods"


def test_a_short_refusal_is_left_to_the_replica_set() -> None:
    bench = refused_bench()
    bench.pass_time(seconds(20))
    bench.cluster.set_quota("train", None)

    bench.pass_time(timedelta(minutes=10), step=seconds(5))

    assert [scale.replicas for scale in bench.scalings()] == [10]
    assert bench.pool_report().note == ""


def test_it_asks_again_after_pauses_that_grow_to_forty_minutes() -> None:
    bench = refused_bench()

    bench.pass_time(timedelta(hours=3), step=seconds(5))

    asks = [at for at, action, _ in bench.journal.actions if getattr(action, "replicas", 0) == 10]
    minutes = [round((later - earlier) / timedelta(minutes=1)) for earlier, later in pairwise(asks)]
    assert minutes == [6, 11, 21, 41, 41, 41]  # the pause and half a minute's patience
    assert bench.cluster.removed == []


def test_when_the_quota_grows_the_next_ask_is_granted_and_the_matter_is_over() -> None:
    bench = refused_bench()
    bench.pass_time(timedelta(minutes=2))
    bench.cluster.set_quota("train", None)

    bench.pass_time(timedelta(minutes=5), step=seconds(5))

    assert [scale.replicas for scale in bench.scalings()] == [10, 4, 10]
    assert bench.journal.notes[-1][2].startswith("no longer: the cluster creates no more pods")


def test_with_no_pod_at_all_one_ask_stands_and_wakes_the_pool_by_itself() -> None:
    bench = refused_bench(pods=0)
    bench.pass_time(SETTLED)
    assert bench.cluster.replicas("train") == 1

    bench.cluster.set_quota("train", 1)

    assert len(bench.cluster.pods("train", PodPhase.PENDING)) == 1


def test_pods_that_came_while_the_ask_was_lowered_are_not_touched() -> None:
    bench = refused_bench()
    bench.pass_time(seconds(30))
    stale = bench.cluster.observe()  # what the caches would still show
    bench.cluster.set_quota("train", 7)
    bench.cluster.observe = lambda: stale

    bench.pass_time(seconds(5))

    assert bench.cluster.removed == []
    assert bench.cluster.replicas("train") == 10  # every write was bound to the version before


def test_what_someone_else_asks_for_in_a_pause_is_not_cut_and_counts_as_granted() -> None:
    """Seen by the cluster's own count, while the cache of pods lags."""
    bench = refused_bench()
    bench.pass_time(SETTLED)
    bench.cluster.pods_lag = seconds(5)
    bench.cluster.set_quota("train", None)

    bench.cluster.act(Scale(pool="train", replicas=9, version=None, reason="an operator"))
    bench.pass_time(seconds(4))

    assert [scale.replicas for scale in bench.scalings()] == [10, 4, 9, 10]
    assert bench.cluster.removed == []


def test_a_rollout_is_waited_for() -> None:
    bench = refused_bench()
    bench.cluster.set_settled("train", settled=False)

    bench.pass_time(SETTLED)

    assert [scale.replicas for scale in bench.scalings()] == [10]


def test_a_refused_pool_still_goes_to_zero_when_it_is_empty() -> None:
    bench = refused_bench(jobs=4)
    bench.queues["train"].enqueue(3)
    bench.pass_time(SETTLED)
    queue = bench.queues["train"]
    queue.waiting = 0
    for pod in list(queue.running):
        queue.finish(pod)

    bench.pass_time(CALM + seconds(10))

    assert bench.cluster.replicas("train") == 0


def test_what_was_refused_long_ago_is_forgotten_with_the_demand() -> None:
    bench = refused_bench(jobs=10)
    bench.pass_time(SETTLED)
    bench.queues["train"].waiting = 0

    bench.pass_time(timedelta(minutes=11), step=seconds(5))

    assert bench.pool_report().note == ""


def test_pods_that_the_cluster_counts_and_the_cache_does_not_show_are_never_given_up() -> None:
    """The pods' watch is connected and delivers nothing, while the Deployment's goes on."""
    bench = Bench(config(pool_policy()))
    bench.staff("train", 3, busy=3)
    bench.cluster.set_quota("train", 5)
    bench.reconcile()
    bench.cluster.pods_stand_still_at = bench.clock.now()
    bench.clock.advance(seconds(1))
    bench.queues["train"].enqueue(7)
    bench.reconcile()
    for pod in bench.cluster.start_all("train"):
        bench.queues["train"].join(pod)
        bench.queues["train"].pop(pod)
        bench.queues["train"].start(pod)

    bench.pass_time(timedelta(minutes=2))

    assert bench.cluster.removed == []
    assert [scale.replicas for scale in bench.scalings()] == [10]


def test_what_the_cluster_counts_is_granted_once_the_cache_shows_it_again() -> None:
    bench = refused_bench(pods=5)
    bench.cluster.pods_stand_still_at = bench.clock.now() - seconds(1)
    bench.pass_time(SETTLED)
    bench.cluster.pods_stand_still_at = None

    bench.pass_time(seconds(5))

    assert [scale.replicas for scale in bench.scalings()] == [10, 5]
    assert bench.cluster.removed == []
