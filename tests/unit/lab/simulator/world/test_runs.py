"""Runs of jobs on a modelled cluster: when their pods come, what keeps their nodes, what ends them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster import ClusterModel, GroupModel, Pod, StopReason
from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.world.runs import Runs
from ebbtide.lab.simulator.world.schedules import JobPlan
from ebbtide.settings.sections.jobs import Concurrency
from tests.builders.cluster import QUICK, group, workload
from tests.counts import examples

NAME = "job nightly"
PLAN = JobPlan(workload=NAME, due=(100.0,), pod_s=50.0, most_s=1000.0)


class Nights:
    """A group that grows from nothing, a service whose budget is open, and jobs. `removed`: with which pods on it."""

    def __init__(
        self,
        *plans: JobPlan,
        shape: GroupModel | None = None,
        accidents: Accidents | None = None,
        startup_s: float = 0.0,
    ) -> None:
        self.timeline = Timeline()
        shape = shape or group(boot_s=20.0)
        self.cluster = ClusterModel(self.timeline, [shape], QUICK, listener=self, accidents=accidents)
        self.began: list[float] = []
        self.ended: list[float] = []
        self.stops: list[StopReason] = []
        self.removed_under: list[str] = []
        self.cluster.deploy(workload("api", pdb_max_unavailable=1), 1)
        for plan in plans:
            pods = workload(plan.workload, category="worker", pdb_max_unavailable=0, startup_s=startup_s)
            self.cluster.deploy(pods, 0)
        self.runs = Runs(self.timeline, self.cluster, plans)

    def pod_running(self, pod: Pod) -> None:
        if pod.workload in self.runs:
            self.began.append(self.timeline.now)
            self.runs.pod_running(pod)

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:
        if pod.workload in self.runs:
            self.stops.append(why)
            self.runs.pod_stopping(pod)
        return 0.0

    def pod_gone(self, pod: Pod, killed: bool) -> None:  # noqa: ARG002 - the listener's signature
        if pod.workload in self.runs:
            self.ended.append(self.timeline.now)
            self.runs.pod_stopping(pod)  # as a world does it: of one whose machine was cut off

    def nodes_changed(self) -> None:
        there = {node.name for node in self.cluster.nodes()} if hasattr(self, "runs") else set[str]()
        for name in self.jobs if there else ():
            for pod in self.cluster.pods(name):
                if pod.running_since is not None and pod.node is not None and pod.node.name not in there:
                    self.removed_under.append(pod.name)

    @property
    def jobs(self) -> list[str]:
        return [name for name in ("job nightly", "job a", "job b") if name in self.runs]

    def at(self, t: float) -> ClusterModel:
        self.timeline.run_until(t)
        return self.cluster

    def nodes(self, t: float) -> int:
        return len(self.at(t).nodes())


def test_a_node_comes_for_a_run_stays_as_long_as_it_runs_and_goes_after_it() -> None:
    large = group(boot_s=20.0, cpu_m=2000)  # one pod each
    nights = Nights(replace(PLAN, pod_s=500.0), shape=large)

    assert nights.nodes(99.0) == 1
    assert nights.nodes(200.0) == 2
    assert nights.nodes(620.0) == 2
    assert nights.nodes(800.0) == 1
    assert nights.ended == [nights.began[0] + 500.0]
    assert nights.runs.counts.succeeded == 1
    assert nights.stops == []


def test_the_next_pods_follow_when_the_first_have_ended() -> None:
    nights = Nights(replace(PLAN, completions=5, parallelism=2), shape=group(initial=4, min=4))
    nights.at(1000.0)

    assert [round(at - 100.0, -1) for at in sorted(nights.began)] == [0, 0, 50, 50, 100]
    assert nights.runs.counts.succeeded == 1
    assert nights.cluster.replicas(NAME) == 0


def test_a_run_is_stopped_at_its_limit_with_the_pods_that_still_wait() -> None:
    short = replace(PLAN, pod_s=300.0, most_s=120.0, completions=3, parallelism=3)
    nights = Nights(short, shape=group(initial=1, min=1, max=1, cpu_m=6000))
    before = nights.at(219.0).pods(NAME)

    assert [pod.node is None for pod in before].count(True) == 1
    assert nights.at(230.0).pods(NAME) == ()
    assert nights.cluster.replicas(NAME) == 0
    assert nights.runs.counts.stopped == 1


def test_a_pod_that_would_start_in_the_instant_of_the_limit_is_gone() -> None:
    nights = Nights(replace(PLAN, most_s=20.0), shape=group(initial=1, min=1), startup_s=20.0)

    assert nights.at(200.0).pods(NAME) == ()
    assert (nights.began, nights.runs.counts.stopped) == ([], 1)


@pytest.mark.parametrize(
    ("concurrency", "began", "stopped"),
    [
        (Concurrency.FORBID, [0, 50], 0),
        (Concurrency.ALLOW, [0, 20, 30], 0),
        (Concurrency.REPLACE, [0, 20, 30], 2),
    ],
)
def test_runs_that_meet_go_by_their_concurrency(concurrency: Concurrency, began: list[int], stopped: int) -> None:
    plan = replace(PLAN, due=(100.0, 120.0, 130.0), concurrency=concurrency)
    nights = Nights(plan, shape=group(initial=4, min=4))
    nights.at(1000.0)

    assert [round(at - 100.0) for at in nights.began] == began
    assert nights.runs.counts.stopped == stopped
    assert nights.runs.counts.succeeded == len(began) - stopped
    assert nights.runs.counts.skipped == (concurrency is Concurrency.FORBID)


def test_a_run_that_could_not_start_in_time_is_left_out() -> None:
    plan = replace(PLAN, due=(100.0, 120.0), concurrency=Concurrency.FORBID, start_within_s=10.0)
    nights = Nights(plan, shape=group(initial=4, min=4))
    nights.at(1000.0)

    assert (nights.runs.counts.begun, nights.runs.counts.skipped) == (1, 1)


@pytest.mark.parametrize(("retries", "succeeded"), [(1, 1), (0, 0)])
def test_a_pod_that_is_lost_with_its_node_takes_a_retry_or_fails_the_run(retries: int, succeeded: int) -> None:
    plan = replace(PLAN, due=(0.0,), pod_s=400.0, most_s=5000.0, retries=retries)
    shape = group(initial=1, min=0, max=4, cpu_m=2000, boot_s=20.0)
    nights = Nights(plan, shape=shape)
    pod = nights.at(150.0).pods(NAME)[0]
    nights.cluster._lifecycle.stop(pod, StopReason.INTERRUPTED, 0.0)  # pyright: ignore[reportPrivateUsage] - as a spot notice does
    nights.at(3000.0)

    assert nights.runs.counts.succeeded == succeeded
    assert nights.runs.counts.failed == 1 - succeeded
    assert nights.cluster.pods(NAME) == ()
    assert nights.cluster.replicas(NAME) == 0


def test_one_retry_is_not_enough_for_two_pods_that_are_lost_at_once() -> None:
    plan = replace(PLAN, due=(0.0,), pod_s=400.0, completions=2, parallelism=2, retries=1)
    nights = Nights(plan, shape=group(initial=2, min=2))
    for pod in nights.at(150.0).pods(NAME):
        nights.cluster._lifecycle.stop(pod, StopReason.INTERRUPTED, 0.0)  # pyright: ignore[reportPrivateUsage] - as a spot notice does
    nights.at(600.0)

    assert nights.runs.counts.failed == 1
    assert (nights.cluster.pods(NAME), nights.cluster.replicas(NAME)) == ((), 0)


PLANS = st.builds(
    JobPlan,
    workload=st.just("job a"),
    due=st.lists(st.integers(0, 2000).map(float), max_size=6, unique=True).map(lambda due: tuple(sorted(due))),
    pod_s=st.sampled_from([0.5, 30.0, 400.0]),
    most_s=st.sampled_from([20.0, 900.0]),
    completions=st.integers(2, 5),
    parallelism=st.integers(1, 2),
    retries=st.integers(0, 2),
    concurrency=st.sampled_from(Concurrency),
    start_within_s=st.sampled_from([10.0, float("inf")]),
)


@settings(max_examples=examples(60), deadline=None)
@given(one=PLANS, other=PLANS, least=st.integers(0, 2))
def test_no_node_goes_under_a_running_pod_and_every_run_comes_to_an_end(
    one: JobPlan, other: JobPlan, least: int
) -> None:
    """As long as no machine is taken back."""
    plans = one, replace(other, workload="job b")
    nights = Nights(*plans, shape=group(min=least, initial=least, max=6, boot_s=20.0))
    nights.at(20_000.0)
    counts = nights.runs.counts

    assert nights.removed_under == []
    assert set(nights.stops) <= {StopReason.SCALED_IN}
    assert not [eviction for eviction in nights.cluster.evictions if eviction.workload in nights.runs]
    assert counts.begun == counts.succeeded + counts.stopped
    assert counts.begun + counts.skipped == sum(len(plan.due) for plan in plans)
    assert all(nights.cluster.pods(plan.workload) == () for plan in plans)
    assert all(nights.cluster.replicas(plan.workload) == 0 for plan in plans)
    assert len(nights.cluster.nodes()) == max(1, least)


@settings(max_examples=examples(20), deadline=None)
@given(plan=PLANS, rate=st.sampled_from([2.0, 20.0]))
def test_every_run_comes_to_an_end_where_machines_are_taken_back(plan: JobPlan, rate: float) -> None:
    accidents = Accidents(interruptions_per_hour={"flexible": rate})
    nights = Nights(plan, shape=group(max=6, boot_s=20.0), accidents=accidents)
    nights.at(20_000.0)
    counts = nights.runs.counts

    assert counts.begun == counts.succeeded + counts.stopped + counts.failed
    assert nights.cluster.pods("job a") == ()
    assert nights.cluster.replicas("job a") == 0
