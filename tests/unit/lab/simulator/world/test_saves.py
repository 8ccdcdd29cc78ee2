"""Jobs with checkpoints: what an interruption costs, told or not, and where the job goes on."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.world.saves import SAVE_S, Saves, saves_of
from ebbtide.lab.simulator.world.workers import JobRun, PoolEdges, PoolQueue, WorkerTimes
from tests.builders.simulator import a_pool, a_saver
from tests.counts import examples

EVERY, TAKES = 300.0, 10.0
SAVES = Saves(every_s=EVERY, takes_s=TAKES)
POP, WINDOW, EXIT = 0.01, 0.1, 0.3
BEGIN = POP + WINDOW


class Pool:
    """A queue of jobs that save, whose pop and window last a known time. `seen_s`: worker-seconds that it showed."""

    def __init__(self, *pods: str) -> None:
        self.timeline = Timeline()
        self.exited: list[str] = []
        self.seen_s = 0.0
        self._seen = (0.0, 0)
        self.queue = PoolQueue(
            self.timeline,
            Random(1),
            PoolEdges(changed=self.look, exited=self.left),
            times=WorkerTimes(pop_s=POP, window_s=(WINDOW, WINDOW), idle_exit_s=EXIT),
            saves=SAVES,
        )
        for pod in pods:
            self.queue.started(pod)
        self.timeline.run_until(0.0)

    def look(self) -> None:
        at, running = self._seen
        self.seen_s += running * (self.timeline.now - at)
        self._seen = (self.timeline.now, self.queue.running)

    def left(self, pod: str) -> None:
        self.exited.append(pod)
        self.queue.gone(pod)

    def submit(self, lasts: float, members: int = 1) -> JobRun:
        job = JobRun(self.timeline.now, lasts, "pool", members=members)
        self.queue.enqueue(job)
        return job


def test_a_job_saves_after_each_interval_of_work_and_not_at_its_end() -> None:
    pool = Pool("pod-1")
    job = pool.submit(3 * EVERY)
    pool.timeline.run_until(10_000)

    assert job.done_at == pytest.approx(BEGIN + 3 * EVERY + 2 * TAKES)
    assert (job.saving_s, job.lost_s, job.resumes) == (pytest.approx(2 * TAKES), 0, 0)


def test_a_job_that_is_told_saves_leaves_and_goes_on_before_all_others() -> None:
    pool = Pool("pod-1")
    job, later = pool.submit(1000), pool.submit(60)
    pool.timeline.run_until(BEGIN + EVERY + TAKES + 50)

    assert pool.queue.stop("pod-1") is None
    pool.timeline.run_until(BEGIN + EVERY + TAKES + 50 + TAKES - 0.1)
    assert pool.queue.running == 1
    pool.timeline.run_until(500)
    assert (pool.exited, pool.queue.waiting) == (["pod-1"], 2)

    pool.queue.started("pod-2")
    pool.timeline.run_until(10_000)

    # 350 s were done, so 650 are left: two more saves on the way.
    assert job.done_at == pytest.approx(500 + BEGIN + 650 + 2 * TAKES)
    assert (job.lost_s, job.interruptions, job.resumes) == (0, 1, 1)
    assert job.saving_s == pytest.approx(4 * TAKES)
    assert later.started_at == pytest.approx(500 + BEGIN + 650 + 2 * TAKES + BEGIN)


def test_a_job_that_is_told_during_a_save_ends_that_save_and_no_other() -> None:
    pool = Pool("pod-1")
    job = pool.submit(1000)
    pool.timeline.run_until(BEGIN + EVERY + 4)
    pool.queue.stop("pod-1")
    pool.timeline.run_until(BEGIN + EVERY + TAKES + 0.1)

    assert (job.saved_s, job.saving_s) == (pytest.approx(EVERY), pytest.approx(TAKES))
    assert (pool.queue.running, pool.queue.waiting) == (0, 1)


@pytest.mark.parametrize(
    ("ran", "lost", "kept", "saving"),
    [
        (100, 100, 0, 0),
        (EVERY + 4, EVERY, 0, 4),  # half a save is none
        (EVERY + TAKES + 50, 50, EVERY, TAKES),
    ],
)
def test_a_killed_job_repeats_what_came_after_its_last_whole_save(
    ran: float, lost: float, kept: float, saving: float
) -> None:
    pool = Pool("pod-1")
    job = pool.submit(1000)
    pool.timeline.run_until(BEGIN + ran)
    pool.queue.gone("pod-1")
    pool.queue.started("pod-2")
    pool.timeline.run_until(10_000)

    assert job.lost_s == pytest.approx(lost)
    left = 1000 - kept
    assert job.done_at == pytest.approx(BEGIN + ran + BEGIN + SAVES.lasts(left))
    assert job.saving_s == pytest.approx(saving + SAVES.lasts(left) - left)
    assert job.resumes == (kept > 0)


def test_a_job_that_is_killed_while_it_saves_for_the_last_time_loses_what_it_had_not_saved() -> None:
    pool = Pool("pod-1")
    job = pool.submit(1000)
    pool.timeline.run_until(BEGIN + 100)
    pool.queue.stop("pod-1")
    pool.timeline.run_until(BEGIN + 103)
    pool.queue.gone("pod-1")
    pool.timeline.run_until(BEGIN + 200)

    assert (job.lost_s, job.saving_s, job.interruptions) == (pytest.approx(100), pytest.approx(3), 1)
    assert (pool.queue.running, pool.queue.waiting) == (0, 1)


def test_a_job_whose_worker_was_told_in_the_pop_window_goes_back_as_it_came() -> None:
    pool = Pool("pod-1")
    job = pool.submit(1000)
    pool.timeline.run_until(POP + WINDOW / 2)
    pool.queue.stop("pod-1")
    pool.timeline.run_until(10)

    assert (job.lost_s, job.saved_s, job.saving_s) == (0, 0, 0)
    assert (pool.exited, pool.queue.waiting) == (["pod-1"], 1)


def test_a_gang_saves_for_all_its_members_and_goes_behind_one_that_is_incomplete() -> None:
    pool = Pool("pod-1", "pod-2", "pod-3")
    first, second = pool.submit(1000, members=2), pool.submit(1000, members=2)
    pool.timeline.run_until(100)  # the first runs, the second holds one worker and waits for another
    pool.queue.stop("pod-1")
    pool.timeline.run_until(200)

    assert first.saving_s == pytest.approx(2 * TAKES)
    assert first.started_at is not None
    assert second.started_at is not None  # by the worker that the first one left
    assert pool.queue.waiting == 2


@pytest.mark.parametrize(("told_after", "saving"), [(None, 3 * TAKES), (920, 2 * TAKES + 5)])
def test_at_the_end_of_a_replay_the_saves_of_what_still_runs_are_counted(
    told_after: float | None, saving: float
) -> None:
    pool = Pool("pod-1", "pod-2")
    gang = pool.submit(5000, members=2)
    if told_after is not None:
        pool.timeline.run_until(BEGIN + told_after)
        pool.queue.stop("pod-1")
    pool.timeline.run_until(BEGIN + (935 if told_after is None else 925))
    pool.queue.settle()

    assert gang.saving_s == pytest.approx(2 * saving)
    assert gang.lost_s == 0


def test_only_pools_with_checkpoints_save_and_no_longer_than_they_may() -> None:
    saved = a_pool(checkpoints=a_saver(every=60, within=4))

    assert saves_of({"train": saved, "plain": a_pool()}) == {"train": Saves(every_s=60.0, takes_s=4.0)}
    assert SAVE_S > 4


@given(
    every=st.floats(1, 1000),
    takes=st.floats(0, 100),
    work=st.floats(0.1, 1e6),
    share=st.floats(0, 1, exclude_max=True),
)
def test_an_attempt_is_its_work_and_its_saves_at_every_moment(
    every: float, takes: float, work: float, share: float
) -> None:
    saves = Saves(every_s=every, takes_s=takes)
    ran = saves.lasts(work) * share
    stood = saves.standing(ran)

    assert stood.done_s + stood.saving_s == pytest.approx(ran, abs=1e-6)
    assert 0 <= stood.done_s - stood.saved_s <= every + 1e-6
    assert stood.done_s <= work + 1e-6
    assert 0 <= saves.until_saved_s(ran) <= takes


STEPS = st.lists(
    st.tuples(st.sampled_from(["one", "gang", "start", "start", "stop", "kill"]), st.integers(0, 900)), max_size=40
)


@settings(max_examples=examples(300))
@given(STEPS, st.booleans())
def test_no_work_is_lost_beyond_an_interval_and_what_workers_run_adds_up(
    steps: list[tuple[str, int]],
    gangs: bool,
) -> None:
    pool, jobs = Pool(), list[JobRun]()
    began: list[str] = []
    killed = 0
    for number, (step, pause) in enumerate(steps):
        alive = [pod for pod in began if pod not in pool.exited]
        if step in ("one", "gang"):
            jobs.append(pool.submit(100.0 + 137 * number, members=3 if step == "gang" and gangs else 1))
        elif step == "start":
            began.append(f"pod-{number}")
            pool.queue.started(began[-1])
        elif alive and step == "stop":
            if pool.queue.stop(alive[0]) is not None:
                pool.left(alive[0])
        elif alive:
            killed += 1
            began.remove(alive[-1])
            pool.queue.gone(alive[-1])
        pool.timeline.run_until(pool.timeline.now + pause)
    for number in range(3):
        pool.queue.started(f"last-{number}")
    pool.timeline.run_until(pool.timeline.now + 1e6)

    for job in jobs:
        assert job.done_at is not None
        assert job.lost_s <= job.interruptions * EVERY * job.members + 1e-6
        assert job.saved_s < job.duration_s
    assert killed > 0 or sum(job.lost_s for job in jobs) == 0
    ran = sum(job.members * job.duration_s + job.lost_s + job.saving_s for job in jobs)
    if all(job.members == 1 for job in jobs):
        assert pool.seen_s == pytest.approx(ran)
    else:  # members wait for each other
        assert pool.seen_s >= ran * (1 - 1e-9)
