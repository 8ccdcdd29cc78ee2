"""Jobs over several workers: who may run them, how they gather, and that each that fits ends."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.gangs import largest_gangs
from ebbtide.lab.simulator.world.pools import PooledJob, assign, gang_assumptions
from ebbtide.lab.simulator.world.waits import fifo_starts
from ebbtide.lab.simulator.world.workers import JobRun, PoolEdges, PoolQueue, WorkerTimes
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import Category
from tests.builders.simulator import HOUR, a_job, a_pool, a_stack, a_workload

STEP = 0.1  # pop and pop window, together
ONCE = WorkerTimes(pop_s=STEP / 2, window_s=(STEP / 2, STEP / 2))
NODE = NodeGroupSettings(kind=NodeKind.GPU, instance_types=("p5.48xlarge",), max=6)


def eight(name: str = "train", *, gpu: int = 8, most: int = 10, longest: float = 8 * HOUR) -> WorkerSettings:
    return a_pool(name, cpu="16", memory="128Gi", gpu=gpu, most=most, longest=longest)


def largest(workers: dict[str, WorkerSettings], services: dict[str, WorkloadSettings] | None = None) -> dict[str, int]:
    stack = a_stack(workers, services)
    return dict(largest_gangs(stack.model_copy(update={"node_groups": {**stack.node_groups, "gpu": NODE}})))


class Pool:
    """A queue with workers that somebody else starts and kills."""

    def __init__(self, workers: int) -> None:
        self.timeline = Timeline()
        self.queue = PoolQueue(self.timeline, Random(1), PoolEdges(changed=lambda: None, exited=self.leave), times=ONCE)
        self.alive: list[str] = []
        self.born = 0
        for _ in range(workers):
            self.start()

    def start(self) -> None:
        self.born += 1
        self.alive.append(f"pod-{self.born}")
        self.queue.started(self.alive[-1])

    def leave(self, pod: str) -> None:
        self.alive.remove(pod)
        self.queue.gone(pod)

    def submit(self, lasts: float, members: int) -> JobRun:
        job = JobRun(self.timeline.now, lasts, "train", members=members)
        self.queue.enqueue(job)
        return job

    def counts_at(self, t: float) -> tuple[int, int, int]:
        self.timeline.run_until(t)
        seen = self.queue.reading()
        return seen.waiting, seen.in_transit, seen.running


def test_a_gang_starts_when_its_last_member_has_a_worker_and_counts_as_its_members() -> None:
    pool = Pool(2)
    gang = pool.submit(60, members=3)

    assert pool.counts_at(10) == (1, 0, 2)
    assert gang.started_at is None
    pool.start()
    assert pool.counts_at(11) == (0, 0, 3)
    assert pool.counts_at(100) == (0, 0, 0)
    assert (gang.started_at, gang.done_at) == (pytest.approx(10 + STEP), pytest.approx(70 + STEP))


def test_a_gang_at_the_head_is_not_overtaken() -> None:
    pool = Pool(2)
    long, gang, short = pool.submit(50, members=1), pool.submit(10, members=2), pool.submit(1, members=1)
    pool.timeline.run_until(200)

    assert long.done_at is not None
    assert gang.started_at is not None
    assert short.started_at is not None
    assert long.done_at < gang.started_at < short.started_at


def test_a_member_that_goes_while_it_waits_is_replaced_first() -> None:
    pool = Pool(2)
    gang, later = pool.submit(60, members=3), pool.submit(60, members=1)
    pool.timeline.run_until(10)
    pool.leave("pod-1")
    for _ in range(2):
        pool.start()
    pool.timeline.run_until(20)

    assert (gang.interruptions, gang.lost_s) == (1, 0)
    assert gang.started_at is not None
    assert later.started_at is None


def test_a_running_gang_that_loses_a_member_starts_again_as_a_whole() -> None:
    pool = Pool(3)
    gang = pool.submit(60, members=3)
    pool.timeline.run_until(STEP + 40)
    pool.leave("pod-2")

    assert pool.counts_at(50) == (1, 0, 2)
    pool.start()
    assert pool.counts_at(STEP + 61) == (0, 0, 3)  # past the end that it would have had
    assert gang.done_at is None
    pool.timeline.run_until(500)

    assert gang.started_at == pytest.approx(STEP)
    assert gang.done_at == pytest.approx(50 + STEP + 60)
    assert gang.lost_s == pytest.approx(3 * 40)
    assert gang.interruptions == 1


def test_a_worker_that_is_told_to_stop_leaves_when_its_gang_is_done() -> None:
    pool = Pool(2)
    gang = pool.submit(60, members=2)
    pool.timeline.run_until(10)

    assert pool.queue.stop("pod-1") is None
    pool.timeline.run_until(100)

    assert (gang.interruptions, pool.alive) == (0, ["pod-2"])


def test_a_job_above_eight_gpus_goes_where_it_has_the_fewest_members() -> None:
    pools = {"one": eight("one", gpu=1), "four": eight("four", gpu=4), "all": eight("all")}
    jobs = [a_job(0, gpu=gpu, cpu=gpu, memory=gpu) for gpu in (0.5, 4, 8, 12, 64)]

    result = assign(jobs, pools, dict.fromkeys(pools, 10)).jobs

    assert [(job.pool, job.members) for job in result] == [("one", 1), ("four", 1), ("all", 1), ("all", 2), ("all", 8)]


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (a_job(0, gpu=33), "too-many-gang-members"),
        (a_job(0, gpu=16, cpu=34), "too-much-cpu"),
        (a_job(0, gpu=16, memory=258), "too-much-memory"),
        (a_job(0, 9 * HOUR, gpu=16), "too-long"),
    ],
)
def test_a_gang_that_no_pool_runs_is_counted_by_its_reason(job: Job, reason: str) -> None:
    assert dict(assign([job], {"train": eight()}, {"train": 4}).unfit) == {reason: 1}


def test_gangs_are_said_with_their_number_and_those_left_out_too() -> None:
    jobs = [a_job(0, gpu=gpu, cpu=8, memory=8) for gpu in (1, 16, 32, 64)]

    ran, left_out = gang_assumptions(assign(jobs, {"train": eight()}, {"train": 4}))

    assert ran.startswith("2 jobs above 8 GPUs run as 2 to 4 members of at most 8 GPUs")
    assert left_out.startswith("Left out: 1 job above 8 GPUs with more members than any pool can promise")
    assert list(gang_assumptions(assign(jobs[:1], {"train": eight()}, {"train": 4}))) == []


def test_without_a_gpu_pool_a_gang_has_too_much_gpu() -> None:
    assert dict(assign([a_job(0, gpu=16)], {"train": a_pool()}, {"train": 9}).unfit) == {"too-much-gpu": 1}


def test_a_gang_has_at_most_the_workers_of_its_pool_and_of_the_nodes() -> None:
    assert largest({"train": eight(most=4)}) == {"train": 4}
    assert largest({"train": eight(most=40)}) == {"train": 6}
    assert largest({"train": eight(gpu=4, most=40)}) == {"train": 12}
    assert largest({"train": a_pool()}) == {"train": 0}


def test_of_the_pools_on_one_node_group_only_the_largest_runs_gangs() -> None:
    kept = eight("small", gpu=1).model_copy(update={"min": 2})

    assert largest({"small": kept, "train": eight()}) == {"small": 0, "train": 4}


def test_services_on_the_nodes_leave_gangs_that_much_less_room() -> None:
    service = a_workload(Category.FLEXIBLE, replicas=2).model_copy(update={"gpu": Gpu(count=1)})

    assert largest({"train": eight()}, {"serving": service}) == {"train": 4}


def test_a_pool_that_shares_workers_among_jobs_runs_no_gang() -> None:
    """Its controller would stop at half the workers, and they would wait for each other for ever."""
    assert largest({"train": eight().model_copy(update={"jobs_per_worker": 2})}) == {"train": 0}


JOBS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 4)), max_size=25)


@given(JOBS, st.integers(4, 6), st.lists(st.integers(0, 5), max_size=12))
def test_every_gang_that_fits_ends_whatever_workers_die(
    asked: list[tuple[int, int, int]], workers: int, deaths: list[int]
) -> None:
    pool = Pool(workers)
    jobs: list[JobRun] = []
    killed = 0
    for at, lasts, members in sorted(asked):
        pool.timeline.run_until(float(at))
        jobs.append(pool.submit(float(lasts), members))
        if deaths:
            pool.leave(pool.alive[deaths.pop() % workers])
            pool.start()
            killed += 1
    pool.timeline.run_until(10_000)

    assert all(job.done_at is not None and job.started_at is not None for job in jobs)
    assert sum(job.interruptions for job in jobs) <= killed
    assert all(job.lost_s == 0 or job.interruptions for job in jobs)
    assert pool.counts_at(10_000) == (0, 0, 0)


@given(JOBS, st.integers(4, 6))
def test_a_gangs_members_hold_their_workers_together_from_start_to_end(
    asked: list[tuple[int, int, int]], workers: int
) -> None:
    pool = Pool(workers)
    jobs = [(at, lasts, members) for at, lasts, members in sorted(asked)]
    runs: list[JobRun] = []
    for at, lasts, members in jobs:
        pool.timeline.run_until(float(at))
        runs.append(pool.submit(float(lasts), members))
    while (upcoming := pool.timeline.next_time()) is not None:
        pool.timeline.run_until(upcoming)
        together = sum(run.members for run in runs if run.started_at is not None and run.done_at is None)
        assert together <= pool.queue.running <= workers

    assert all(run.started_at is not None and run.started_at >= run.submitted_at for run in runs)
    assert [run.done_at for run in runs] == [pytest.approx((run.started_at or 0) + run.duration_s) for run in runs]


@given(JOBS, st.integers(1, 6))
def test_the_exact_queue_agrees_with_the_modelled_one(asked: list[tuple[int, int, int]], workers: int) -> None:
    """Two ways to the same starts; the modelled queue takes a moment for each pop."""
    jobs = [PooledJob(float(at), float(lasts), "train", min(members, 4)) for at, lasts, members in sorted(asked)]
    pool = Pool(workers)
    runs: list[JobRun] = []
    for job in jobs:
        pool.timeline.run_until(job.submitted_at)
        runs.append(pool.submit(job.duration_s, job.members))
    pool.timeline.run_until(10_000)

    for start, run in zip(fifo_starts(jobs, workers), runs, strict=True):
        if run.started_at is None:
            assert start == float("inf")
        else:
            assert start <= run.started_at <= start + STEP * (len(jobs) + 1) * 2
