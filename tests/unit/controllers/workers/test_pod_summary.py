"""The summary of a pool's pods, pod by pod."""

from datetime import timedelta

import pytest

from controllers.ports import Known, ObservedPod, ObservedPool, PodPhase
from controllers.reconciling import Expectation, Expectations
from controllers.scaler.workers.history import DemandHistory
from controllers.scaler.workers.pods import PodSummary, summarize_pods, with_idle_pods
from controllers.scaler.workers.victims import WorkerPod
from tests.builders.controllers import CALM, NOON, seconds

LATER = NOON + seconds(9)
LONG = seconds(9)


def known(*idle: str, in_transit: int = 0, running: int = 0, stale: int = 0, names_idle: bool = True) -> Known:
    return Known(
        waiting=0, in_transit=in_transit, running=running, stale=stale, idle=frozenset(idle), names_idle=names_idle
    )


def shape(
    pods: dict[str, str],
    reading: Known,
    *,
    marked: tuple[str, ...] = (),
    expectations: Expectations[int] | None = None,
    at: float = 9,
) -> PodSummary:
    """Pods by name and phase; those that say idle have said so for nine seconds."""
    watch = DemandHistory(CALM, longest_gap=seconds(60))
    watch.observe(NOON, reading, staffed=True)
    seen = tuple(ObservedPod(name=name, phase=PodPhase(phase), marked=name in marked) for name, phase in pods.items())
    pool = ObservedPool(replicas=len(pods), existing=len(pods), pods=seen)
    return summarize_pods(NOON + seconds(at), pool, reading, watch, (expectations or Expectations[int](), "marks"))


def asked(name: str, value: int) -> Expectations[int]:
    expectations = Expectations[int]()
    expectations.record("marks", name, Expectation(value=value, before="", at=LATER))
    return expectations


def spare(found: PodSummary) -> tuple[int, int]:
    return found.spare.pending, found.spare.idle


def test_a_busy_pod_without_a_mark_is_a_number() -> None:
    found = shape({"a": "running", "b": "running"}, known("b", running=1))

    assert (found.plain, found.pods) == (1, [WorkerPod("b", idle_for=LONG)])
    assert (found.count, found.running, found.idle, spare(found)) == (2, 2, 1, (0, 1))


def test_a_pending_pod_is_capacity_that_may_go() -> None:
    found = shape({"a": "pending", "b": "running"}, known(running=1))

    assert (found.pending, found.running, found.idle, spare(found)) == (1, 1, 0, (1, 0))
    assert found.pods == [WorkerPod("a", pending=True)]


def test_a_pod_whose_worker_says_idle_already_runs_whatever_its_phase_says() -> None:
    found = shape({"a": "pending"}, known("a"))

    assert (found.pending, found.pods, spare(found)) == (0, [WorkerPod("a", idle_for=LONG)], (0, 1))


@pytest.mark.parametrize("idle", [(), ("a",)])
def test_a_pod_on_a_silent_node_is_never_spare(idle: tuple[str, ...]) -> None:
    found = shape({"a": "unreachable", "b": "running"}, known(*idle, "b"))

    assert (found.unreachable, found.plain, found.running, spare(found)) == (1, 1, 1, (0, 1))
    assert [pod.name for pod in found.pods] == ["b"]


def test_a_pod_that_fails_to_start_may_go_and_is_no_running_one() -> None:
    found = shape({"a": "failing", "b": "running"}, known(running=1))

    assert (found.failing, found.pending, found.running, spare(found)) == (1, 0, 1, (1, 0))


def test_a_pod_that_ends_is_no_capacity_and_explains_its_own_job_alone() -> None:
    pods = {"ends": "terminating", "a": "running", "b": "running"}

    assert spare(shape(pods, known("a", "b", running=1))) == (0, 2)
    assert spare(shape(pods, known("a", "b", running=2))) == (0, 0), "one of those that say idle has the other"
    found = shape(pods, known("a", "b", "ends", running=1))
    assert (spare(found), found.terminating, found.count) == ((0, 0), 1, 2)


def test_busy_pods_explain_as_many_jobs_as_they_are() -> None:
    pods = {"a": "running", "b": "running", "c": "running"}

    assert spare(shape(pods, known("c", running=2))) == (0, 1)
    assert spare(shape(pods, known("c", running=3))) == (0, 0)


@pytest.mark.parametrize("reading", [known("a", in_transit=1), known(in_transit=1, running=1)])
def test_nothing_is_spare_while_a_job_is_between_queue_and_worker(reading: Known) -> None:
    assert spare(shape({"a": "running", "b": "pending"}, reading)) == (0, 0)


def test_a_pod_of_which_idleness_is_new_is_not_spare_yet() -> None:
    found = shape({"a": "running"}, known("a"), at=4.9)

    assert (found.idle, spare(found)) == (0, (0, 0))
    assert spare(shape({"a": "running"}, known("a"), at=5)) == (0, 1)


def test_idleness_that_was_not_watched_counts_from_now() -> None:
    watch = DemandHistory(CALM, longest_gap=seconds(60))
    pool = ObservedPool(replicas=1, existing=1, pods=(ObservedPod(name="a", phase=PodPhase.RUNNING),))

    found = summarize_pods(LATER, pool, known("a"), watch, (Expectations[int](), "marks"))

    assert found.pods == [WorkerPod("a", idle_for=timedelta())]


def test_a_mark_counts_as_asked_until_the_cluster_shows_it() -> None:
    pods = {"a": "running", "b": "running"}

    assert shape(pods, known("a"), expectations=asked("a", 1)).pods == [
        WorkerPod("a", marked=True, mark_seen=False, idle_for=LONG)
    ]
    assert shape(pods, known("a"), expectations=asked("a", 1), marked=("a",)).pods == [
        WorkerPod("a", marked=True, idle_for=LONG)
    ]


def test_a_busy_pod_with_a_mark_or_one_that_is_asked_for_is_looked_at() -> None:
    pods = {"a": "running", "b": "running"}

    assert shape(pods, known(running=2), marked=("a",)).pods == [WorkerPod("a", marked=True)]
    assert shape(pods, known(running=2), expectations=asked("a", 1)).pods == [
        WorkerPod("a", marked=True, mark_seen=False)
    ]
    unmarked = shape(pods, known(running=2), expectations=asked("a", 0), marked=("a",))
    assert unmarked.pods == [WorkerPod("a", mark_seen=False)]


def test_what_was_asked_of_a_pod_that_is_gone_is_forgotten() -> None:
    expectations = asked("gone", 1)

    shape({"a": "running"}, known("a"), expectations=expectations)

    assert not expectations


# --- sources that cannot tell pod from pod ----------------------------------------------------------------------------


def test_of_a_source_without_names_the_running_pods_are_idle_while_nothing_is_in_flight() -> None:
    pods = (ObservedPod(name="a", phase=PodPhase.RUNNING), ObservedPod(name="b", phase=PodPhase.PENDING))

    assert with_idle_pods(known(names_idle=False), pods).idle == {"a"}
    assert with_idle_pods(known(names_idle=False, running=1), pods).idle == frozenset()
    assert with_idle_pods(known(names_idle=False, stale=1), pods).idle == frozenset()
    assert with_idle_pods(known("b"), pods).idle == {"b"}


@pytest.mark.parametrize("reading", [known(names_idle=False, running=1), known(names_idle=False, stale=1)])
def test_without_names_not_even_a_pending_pod_is_spare_while_work_may_be_held(reading: Known) -> None:
    assert spare(shape({"a": "pending"}, reading)) == (0, 0)
    assert spare(shape({"a": "pending"}, known(names_idle=False))) == (1, 0)
    assert spare(shape({"a": "pending"}, known(stale=1))) == (1, 0)
