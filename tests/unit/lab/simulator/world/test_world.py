"""The controller's edges in virtual time: late views, events, version-bound writes."""

from datetime import UTC, datetime, timedelta

import pytest

from controllers.ports import Known, Mark, Outcome, PodPhase, Scale, SetBudget
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.world.edges import (
    ActionCounts,
    SimulatedClock,
    SimulatedCluster,
    SimulatedDemand,
    SimulatedWaker,
)
from ebbtide.lab.simulator.world.workers import JobRun, WorkerTimes
from ebbtide.lab.simulator.world.world import World, WorldSetup
from tests.builders.simulator import a_stack

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
WINDOW = 2.0  # wide, so that a test can look inside


class Edges:
    """A world with one pool, `train`, and its ports."""

    def __init__(self, *jobs: JobRun, end_s: float = 10_000.0) -> None:
        setup = WorldSetup(start=START, end_s=end_s, times=WorkerTimes(window_s=(WINDOW, WINDOW)))
        self.world = World(cluster_plan(a_stack(), Strategy.FIXED_FLEXIBLE), jobs, setup)
        self.tally = ActionCounts()
        self.cluster = SimulatedCluster(self.world, self.tally)
        self.waker = SimulatedWaker(self.world)

    def scale(self, replicas: int, version: str | None = None) -> Outcome:
        return self.cluster.act(Scale(pool="train", replicas=replicas, version=version, reason="test"))

    def demand(self) -> Known:
        reading = SimulatedDemand(self.world).read(["train"])["train"]
        assert isinstance(reading, Known)
        return reading

    def until(self, at: float) -> None:
        self.world.timeline.run_until(at)

    def notified_by(self) -> float:
        assert self.waker.wait(timedelta(hours=1))
        return self.world.timeline.now


def test_a_popped_job_is_in_transit_and_its_pod_still_says_idle() -> None:
    edges = Edges(JobRun(500.0, 60.0, "train"))
    edges.scale(1)
    edges.until(500.5)

    seen = edges.demand()

    assert (seen.waiting, seen.in_transit, seen.running, seen.in_flight) == (0, 1, 0, 1)
    assert seen.idle == {"train-1"}


def test_a_job_that_comes_while_the_queues_are_read_is_not_known_in_that_turn() -> None:
    edges = Edges(JobRun(500.0, 60.0, "train"), JobRun(500.004, 60.0, "train"))
    edges.until(499.0)

    assert edges.notified_by() == pytest.approx(500.005)
    assert edges.demand().waiting == 1
    assert edges.notified_by() == pytest.approx(500.009)
    assert edges.demand().waiting == 2


def test_who_reads_without_having_been_woken_sees_the_queues_as_they_are() -> None:
    edges = Edges(JobRun(500.0, 60.0, "train"))

    edges.until(499.9)
    before = edges.demand()
    edges.until(500.0)

    assert (before.waiting, edges.demand().waiting) == (0, 1)


def test_the_head_of_a_queue_ages_from_one_reading_to_the_next() -> None:
    edges = Edges(JobRun(500.0, 60.0, "train"))

    edges.until(560.0)
    first = edges.demand().oldest_wait
    edges.until(590.0)

    assert (first, edges.demand().oldest_wait) == (timedelta(seconds=60), timedelta(seconds=90))


def test_new_work_notifies_at_once_and_any_other_news_waits_for_more_of_it() -> None:
    work, news = Edges(JobRun(500.0, 60.0, "train")), Edges()
    news.scale(1)

    assert work.notified_by() == pytest.approx(500.005)
    assert news.notified_by() == pytest.approx(0.1 + 2.0)  # in the cache, and then the wait


def test_the_waker_returns_at_the_timeout_and_stops_at_the_end() -> None:
    edges = Edges(end_s=100.0)

    assert edges.waker.wait(timedelta(seconds=40))
    assert SimulatedClock(edges.world).now() == START + timedelta(seconds=40)
    assert not edges.waker.wait(timedelta(seconds=400))
    assert SimulatedClock(edges.world).now() == START + timedelta(seconds=100)


def test_the_cache_shows_a_write_late_with_its_pending_pods() -> None:
    edges = Edges()
    edges.scale(2)
    edges.until(0.09)
    before = edges.cluster.observe()
    edges.until(0.2)
    after = edges.cluster.observe()

    assert before.pools["train"].replicas == 0
    assert after.pools["train"].replicas == 2
    assert [pod.phase for pod in after.pools["train"].pods] == [PodPhase.PENDING, PodPhase.PENDING]


def test_a_lowering_write_fails_on_an_object_that_has_changed() -> None:
    edges = Edges()
    edges.scale(3)
    edges.until(0.2)
    seen = edges.cluster.observe().pools["train"].version

    assert edges.scale(2, seen) is Outcome.DONE
    assert edges.scale(0, seen) is Outcome.STALE
    assert edges.world.cluster.replicas("train") == 2


def test_a_mark_is_seen_in_the_cache_after_its_lag() -> None:
    edges = Edges()
    edges.scale(1)
    edges.until(400.0)

    assert edges.cluster.act(Mark(pool="train", pod="train-1", idle=True, reason="test")) is Outcome.DONE
    edges.until(400.05)
    before = edges.cluster.observe().pools["train"].pods[0]
    edges.until(400.2)

    assert (before.marked, edges.cluster.observe().pools["train"].pods[0].marked) == (False, True)
    assert edges.cluster.act(Mark(pool="train", pod="train-7", idle=True, reason="test")) is Outcome.REFUSED


def test_a_budget_settles_after_its_write_and_counts_as_one_opening() -> None:
    edges = Edges()
    opening = SetBudget(budget="api", max_unavailable=1, version="0", reason="test")

    assert edges.cluster.act(opening) is Outcome.DONE
    assert edges.cluster.act(opening) is Outcome.STALE
    edges.until(0.2)
    written = edges.cluster.observe().budgets["api"]
    edges.until(1.0)
    settled = edges.cluster.observe().budgets["api"]

    assert (written.max_unavailable, written.settled, settled.settled) == (1, False, True)
    assert edges.tally.budget_openings == 1


def test_only_a_fall_to_zero_counts_as_one() -> None:
    edges = Edges()
    for replicas in (3, 1, 0, 0):
        edges.scale(replicas)

    assert edges.tally.scale_downs_to_zero == 1


def test_what_is_not_there_is_refused() -> None:
    edges = Edges()

    assert edges.cluster.act(Scale(pool="none", replicas=1, version=None, reason="test")) is Outcome.REFUSED
    unknown = SetBudget(budget="none", max_unavailable=0, version=None, reason="test")
    assert edges.cluster.act(unknown) is Outcome.REFUSED
