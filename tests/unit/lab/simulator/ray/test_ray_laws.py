"""Laws of Ray clusters in whole worlds: the production loop, Ray's autoscaler, the modelled cluster, spot nodes."""

from dataclasses import dataclass, replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster import ClusterModel, GroupModel, Pod, StopReason, WorkloadModel
from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.run import controlled
from ebbtide.lab.simulator.strategies.table import cluster_plan, world_setup_of
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.ray.clusters import LOOK_S, RayClusters
from ebbtide.lab.simulator.world.ray.work import RayGroupPlan, RayPlan, Size
from ebbtide.lab.simulator.world.workers import JobRun, runs_of
from ebbtide.lab.simulator.world.world import World
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.simulator import (
    HOUR,
    a_driver,
    a_driver_job,
    a_job,
    a_pool,
    a_ray_group,
    a_stack,
    a_trace,
    with_ray,
)
from tests.counts import count, examples

IDLE_AFTER = 90.0
LONGEST_TASK = 100.0  # the most beside spot
MONDAY = datetime(2026, 6, 1)  # noqa: DTZ001 - local time of the customer
HEAD_THERE_S = 600.0
GROUPS = CPU, GPU, CHEAP = "ray flow/cpu", "ray flow/gpu", "ray flow/cheap"


def stack(*, least: int = 0, drivers: int = 4) -> StackSettings:
    """Two workers fit on a node of the CPU group, and one on each of the others. `cheap` is larger than `cpu`."""
    plain = a_stack({"drive": a_driver(most=drivers), "train": a_pool()}, {})
    spot = NodeGroupSettings(kind=NodeKind.SPOT, instance_types=("m7i.4xlarge",), max=6)
    groups = {
        "cpu": a_ray_group(cpu=6, memory="20Gi", least=least, idle_after=IDLE_AFTER),
        "gpu": a_ray_group(cpu=6, memory="20Gi", gpu=1, most=3, idle_after=IDLE_AFTER),
        "cheap": a_ray_group(cpu=12, memory="40Gi", node_group="cheap", spot=True, idle_after=IDLE_AFTER),
    }
    with_spot = plain.model_copy(update={"node_groups": {**plain.node_groups, "cheap": spot}})
    return with_ray(with_spot, groups, longest_task=LONGEST_TASK)


class Watched(World):
    """Notes what must not be, at each change of a pod."""

    def begin(self) -> None:
        self.wrong: list[str] = []
        self.sent_away: list[tuple[str, float, float]] = []  # group, idle since, told to stop

    def pod_running(self, pod: Pod) -> None:
        super().pod_running(pod)
        self._check()

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:
        if pod.workload in GROUPS:
            worker = self.ray.line(pod.workload).workers[pod.name]
            if worker.tasks and why is not StopReason.INTERRUPTED:
                self.wrong.append(f"{pod.name} was told to stop while it ran a task")
            if why is StopReason.SCALED_IN:
                self.sent_away.append((pod.workload, worker.idle_since or 0.0, self.timeline.now))
        return super().pod_stopping(pod, why)

    def pod_gone(self, pod: Pod, killed: bool) -> None:
        if pod.workload in (CPU, GPU):
            worker = self.ray.line(pod.workload).workers.get(pod.name)
            if worker is not None and worker.tasks:
                self.wrong.append(f"{pod.name} went with a task")
        super().pod_gone(pod, killed)
        self._check()

    def _check(self) -> None:
        for name in GROUPS if hasattr(self, "wrong") else ():
            plan, asked = self.ray.line(name).plan, self.cluster.replicas(name)
            if not plan.min * (self.timeline.now > HEAD_THERE_S) <= asked <= plan.max:
                self.wrong.append(f"{name} has {asked} workers")


@dataclass(frozen=True, slots=True)
class Played:
    world: Watched
    runs: list[JobRun]
    end_s: float

    def done_s(self, group: str) -> float:
        """What is left of the work on a group: done, and not lost again by its driver."""
        counts = self.world.ray.line(group).counts
        return counts.done_s - counts.redone_s

    def work_s(self, group: str) -> float:
        return sum(run.ray.work_s for run in self.runs if run.ray is not None and run.ray.group == group)


def played(
    jobs: list[Job], its_stack: StackSettings, *, seed: int = 0, taken_back: float = 0.0, missed: float = 0.5
) -> Played:
    """Two days, with jobs in the first hours: time enough for all of them. `taken_back`: of spot nodes, each hour."""
    strategy = Strategy.FIXED_FLEXIBLE
    setup = replay_setup_of(
        its_stack, a_trace([*jobs, a_job(25 * HOUR, 1.0)]), ReplayOptions(start=MONDAY, rollouts=False)
    )
    runs = runs_of(setup.jobs)
    accidents = Accidents(interruptions_per_hour={"cheap": taken_back}, missed_notices=missed)
    at = replace(world_setup_of(setup, strategy), seed=seed, accidents=accidents)
    world = Watched(cluster_plan(its_stack, strategy), runs, at)
    world.begin()
    controlled(setup.config, world, ActionCounts())
    return Played(world, runs, setup.end_s)


JOBS = st.lists(
    st.builds(
        a_driver_job,
        st.integers(0, 4 * 3600).map(float),
        st.sampled_from([0.1, 60.0, 900.0, 5000.0]),
        tasks=st.integers(1, 6),
        cpu=st.sampled_from([1.0, 2.5, 6.0, 11.0]),
        gpu=st.just(0),
    )
    | st.builds(a_driver_job, st.integers(0, 4 * 3600).map(float), gpu=st.just(1.0)),
    max_size=8,
)
STACKS = st.builds(stack, least=st.integers(0, 2), drivers=st.integers(1, 4))
CASES = given(JOBS, STACKS, st.sampled_from([0.0, 0.0, 0.6]), st.integers(0, 999))


def laws_hold(jobs: list[Job], its_stack: StackSettings, taken_back: float, seed: int) -> None:
    result = played(jobs, its_stack, seed=seed, taken_back=taken_back)
    world, results = result.world, result.world.ray.results(result.end_s)["flow"].groups
    hours = {group: seconds / 3600 for group, seconds in world.cluster.billed_seconds().items()}

    assert world.wrong == []
    assert all(run.done_at is not None and run.started_at is not None for run in result.runs)
    assert sum(run.interruptions for run in result.runs) == 0  # drivers are not on spot nodes
    for name in GROUPS:
        line = world.ray.line(name)
        assert result.done_s(name) == pytest.approx(result.work_s(name))
        assert (line.counts.lost_s > 0) <= (name == CHEAP and taken_back > 0)
        assert line.counts.lost_s <= line.counts.interrupted * LONGEST_TASK + 1e-6
        assert len(line.workers) == line.plan.min
    assert results["gpu"].worker_hours == 0 or any(job.gpu for job in jobs)
    assert hours["flexible"] + 1e-9 >= results["cpu"].worker_hours / 2
    assert hours["gpu"] + 1e-9 >= results["gpu"].worker_hours
    assert hours["cheap"] + 1e-9 >= results["cheap"].worker_hours


@settings(max_examples=examples(20), deadline=None)
@CASES
def test_tasks_are_done_once_and_workers_stay_within_their_group(
    jobs: list[Job], its_stack: StackSettings, taken_back: float, seed: int
) -> None:
    laws_hold(jobs, its_stack, taken_back, seed)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(max_examples=count(2000, 200), deadline=None)
@CASES
def test_the_laws_hold_in_very_many_worlds(
    jobs: list[Job], its_stack: StackSettings, taken_back: float, seed: int
) -> None:
    laws_hold(jobs, its_stack, taken_back, seed)


@settings(max_examples=examples(15), deadline=None)
@given(JOBS, st.integers(0, 99))
def test_an_idle_worker_goes_within_its_time_and_one_look(jobs: list[Job], seed: int) -> None:
    """Never earlier, and later only for a task that waited: then at the look after its start."""
    result = played(jobs, stack(), seed=seed)

    for group, idle_since, stopped in result.world.sent_away:
        series = result.world.ray.results(result.end_s)["flow"].groups[group.rpartition("/")[2]].series
        steps = zip(series.at, (*series.at[1:], result.end_s), series.waiting, strict=True)
        waited_until = max((until for at, until, waiting in steps if waiting and at <= stopped), default=0.0)
        assert stopped >= idle_since + IDLE_AFTER
        assert stopped <= max(idle_since + IDLE_AFTER, waited_until) + LOOK_S


def test_a_worker_that_is_told_of_its_interruption_loses_no_task() -> None:
    jobs = [a_driver_job(600.0 * i, 900.0, tasks=3, cpu=11) for i in range(8)]
    told, missed = (played(jobs, stack(), taken_back=2.0, missed=share).world.ray.line(CHEAP) for share in (0.0, 1.0))

    assert (told.counts.lost_s, told.counts.interrupted) == (0.0, 0)
    assert missed.counts.lost_s > 0
    assert told.counts.done_s == missed.counts.done_s


@pytest.mark.timeout(30)
def test_an_idle_time_that_ends_a_rounding_error_after_a_look_ends_with_it() -> None:
    """Neither early nor late by a look, and above all no look that plans another one for the same instant."""
    timeline = Timeline()
    group = GroupModel(name="flexible", min=1, max=1, cpu_m=8000, memory_mib=32768, initial=1)
    worker = WorkloadModel(name=CPU, category="worker", cpu_m=1000, memory_mib=1024, pdb_max_unavailable=0)
    head = WorkloadModel(name="ray flow", category="fixed", cpu_m=1000, memory_mib=1024)
    size = Size(cpu_m=1000, memory_mib=1024)
    plan = RayGroupPlan(worker=worker, size=size, min=0, max=1, idle_after_s=IDLE_AFTER)
    model = ClusterModel(timeline, [group], None)
    clusters = RayClusters(timeline, model, [RayPlan(name="flow", head=head, groups=(plan,))])
    model.scale(CPU, 1)
    clusters.begin(())
    timeline.run_until(1.0)
    (pod,), (head_pod,) = model.pods(CPU), model.pods("ray flow")
    clusters.pod_running(head_pod)
    model.scale(CPU, 1)
    timeline.at(100.0 - IDLE_AFTER + 1e-10, lambda: clusters.pod_running(pod))
    timeline.run_until(101.0)

    assert pod.stopping


def test_equal_seeds_give_equal_worlds() -> None:
    jobs = [a_driver_job(600.0 * i, 900.0, tasks=3, cpu=11) for i in range(8)]
    first, again, other = (played(jobs, stack(), seed=seed, taken_back=0.6) for seed in (1, 1, 2))

    def figures(result: Played) -> object:
        return result.world.ray.results(result.end_s), result.runs and [run.done_at for run in result.runs]

    assert figures(first) == figures(again)
    assert figures(first) != figures(other)
