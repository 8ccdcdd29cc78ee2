"""A pool's queue: what it shows at each step of a job, and what a stop or a kill costs."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.ports import Known
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.world.workers import JobRun, PoolEdges, PoolQueue, WorkerTimes

POP, WINDOW = 0.01, 0.1
IN_TRANSIT_AT = POP + WINDOW / 2
RUNNING_AT = POP + WINDOW + 1


class Pool:
    """A queue whose pop and window last a known time."""

    def __init__(self, *, safe_stop: bool = True, pods: tuple[str, ...] = ("pod-1",)) -> None:
        self.timeline = Timeline()
        self.exited: list[str] = []
        self.queue = PoolQueue(
            self.timeline,
            Random(1),
            PoolEdges(changed=lambda: None, exited=self.exited.append),
            safe_stop,
            WorkerTimes(pop_s=POP, window_s=(WINDOW, WINDOW), idle_exit_s=0.3),
        )
        for pod in pods:
            self.queue.started(pod)
        self.timeline.run_until(0.0)

    def submit(self, lasts: float = 60.0) -> JobRun:
        job = JobRun(self.timeline.now, lasts, "pool")
        self.queue.enqueue(job)
        return job

    def seen_at(self, at: float) -> tuple[int, int, int, frozenset[str]]:
        self.timeline.run_until(at)
        seen = self.queue.reading()
        return seen.waiting, seen.in_transit, seen.running, seen.idle


def test_a_job_counts_at_every_step_and_its_worker_says_idle_until_it_runs() -> None:
    pool = Pool()
    pool.submit()

    assert pool.seen_at(POP / 2) == (1, 0, 0, {"pod-1"})
    assert pool.seen_at(IN_TRANSIT_AT) == (0, 1, 0, {"pod-1"})
    assert pool.seen_at(RUNNING_AT) == (0, 0, 1, frozenset())
    assert pool.seen_at(POP + WINDOW + 60) == (0, 0, 0, {"pod-1"})


def test_jobs_start_in_the_order_of_submission_and_wait_for_a_worker() -> None:
    pool = Pool()
    first, second = pool.submit(60), pool.submit(60)
    pool.timeline.run_until(1000)

    assert first.started_at == pytest.approx(POP + WINDOW)
    assert second.started_at == pytest.approx(60 + 2 * (POP + WINDOW))


def test_the_oldest_wait_is_that_of_the_head() -> None:
    pool = Pool(pods=())
    pool.submit()
    pool.timeline.run_until(5)
    pool.submit()

    wait = pool.queue.reading().oldest_wait

    assert wait is not None
    assert wait.total_seconds() == 5


def test_an_idle_worker_exits_soon_after_its_stop_and_takes_no_job_before() -> None:
    pool = Pool()

    assert pool.queue.stop("pod-1") == 0.3
    pool.submit()

    assert pool.seen_at(10) == (1, 0, 0, {"pod-1"})


@pytest.mark.parametrize("at", [IN_TRANSIT_AT, RUNNING_AT])
def test_a_safe_worker_ends_the_job_it_holds_and_then_exits(at: float) -> None:
    pool = Pool()
    job = pool.submit(60)
    pool.timeline.run_until(at)

    assert pool.queue.stop("pod-1") is None
    pool.timeline.run_until(1000)

    assert (job.done_at, job.interruptions) == (pytest.approx(POP + WINDOW + 60), 0)
    assert pool.exited == ["pod-1"]


def test_a_stock_worker_that_is_stopped_in_the_pop_window_drops_its_job() -> None:
    pool = Pool(safe_stop=False, pods=("pod-1", "pod-2"))
    job = pool.submit(60)
    pool.timeline.run_until(IN_TRANSIT_AT)

    assert pool.queue.stop("pod-1") == 0.3
    pool.timeline.run_until(1000)

    assert job.interruptions == 1
    assert job.started_at == pytest.approx(IN_TRANSIT_AT + POP + WINDOW)  # the other worker took it


def test_a_stock_worker_that_is_stopped_while_running_ends_its_job() -> None:
    pool = Pool(safe_stop=False)
    job = pool.submit(60)
    pool.timeline.run_until(RUNNING_AT)

    assert pool.queue.stop("pod-1") is None
    pool.timeline.run_until(1000)

    assert (job.interruptions, pool.exited) == (0, ["pod-1"])


def test_a_killed_job_starts_again_from_zero_and_keeps_its_first_start() -> None:
    pool = Pool()
    job = pool.submit(60)
    pool.timeline.run_until(40)
    pool.queue.gone("pod-1")
    pool.timeline.run_until(100)
    assert pool.queue.reading() == Known(
        waiting=1, in_transit=0, running=0, oldest_wait=pool.queue.reading().oldest_wait
    )

    pool.queue.started("pod-2")
    pool.timeline.run_until(1000)

    assert job.started_at == pytest.approx(POP + WINDOW)
    assert job.done_at == pytest.approx(100 + POP + WINDOW + 60)
    assert job.interruptions == 1


def test_the_end_of_a_pod_that_never_ran_is_no_news() -> None:
    pool = Pool(pods=())
    pool.submit()

    pool.queue.gone("pod-9")

    assert pool.seen_at(10) == (1, 0, 0, frozenset())


@given(st.lists(st.tuples(st.sampled_from(["submit", "start", "stop", "kill"]), st.integers(0, 4)), max_size=40))
def test_no_job_is_ever_lost_or_doubled(steps: list[tuple[str, int]]) -> None:
    pool = Pool(safe_stop=False, pods=())
    jobs: list[JobRun] = []
    alive: list[str] = []
    for number, (step, pause) in enumerate(steps):
        if step == "submit":
            jobs.append(pool.submit(3.0))
        elif step == "start":
            alive.append(f"pod-{number}")
            pool.queue.started(alive[-1])
        elif alive and step == "stop":
            pool.queue.stop(alive[0])
            pool.queue.gone(alive.pop(0))
        elif alive:
            pool.queue.gone(alive.pop())
        pool.timeline.run_until(pool.timeline.now + pause * 0.06)

        waiting, in_transit, running, _ = pool.seen_at(pool.timeline.now)
        assert waiting + in_transit + running + sum(job.done_at is not None for job in jobs) == len(jobs)
