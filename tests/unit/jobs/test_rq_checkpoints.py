"""Jobs with checkpoints under the safe worker, as real processes on a real Redis: they pause and resume."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from rq import Queue, Retry
from rq.job import Job, JobStatus

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.jobs.checkpoints.attempts import attempt_key
from tests.builders.jobs import job as plain_job
from tests.builders.redis import DEADLINE, wait_until
from tests.checkpoints.training import (
    OPENED,
    QuickSafeWorker,
    dies_before_it_saves,
    never_opens,
    returns_its_attempt,
    steps_done,
    train,
    weights_after,
)
from tests.paths import ROOT

pytestmark = pytest.mark.redis

QUICK = "tests.checkpoints.training.QuickSafeWorker"

WorkerProcess = subprocess.Popen[bytes]
StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def start_worker(server: EmbeddedRedis, tmp_path: Path, rq_program: Path) -> Iterator[StartWorker]:
    started: list[WorkerProcess] = []

    def start(kind: str = QUICK, **pool: Any) -> WorkerProcess:
        url = f"redis://{server.host}:{server.port}"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if pool:
            section = {"store": str(tmp_path), "every": 0, "saveWithin": 5, "required": False, "openWithin": 600}
            environment["EBBTIDE_CHECKPOINTS"] = json.dumps(section | pool)
        command = [str(rq_program), "worker", "-w", kind, "-u", url, "train"]
        with (tmp_path / f"worker-{len(started)}.log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stderr=log, stdout=log)
        started.append(process)
        return process

    yield start
    for process in started:
        kill_all_of(process)


def kill_all_of(process: WorkerProcess) -> None:
    """Kill the worker and its job's process, as a power cut would."""
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)  # it makes no further process meanwhile
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    for pid in [process.pid, *map(int, found.stdout.split())]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


@pytest.fixture
def queue(client: Redis) -> Queue:
    return Queue("train", connection=client)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def until_step(client: Redis, job: Job, step: int) -> None:
    wait_until(lambda: step in steps_done(client, job.id), f"step {step}")


def ended(job: Job) -> bool:
    return job.get_status(refresh=True) in {JobStatus.FINISHED, JobStatus.FAILED}


def test_on_sigterm_a_job_pauses_and_another_worker_resumes_it(
    client: Redis, queue: Queue, store: str, tmp_path: Path, start_worker: StartWorker
) -> None:
    first = start_worker()
    job = queue.enqueue(train, 40, 0.05, store, 3600, retry=Retry(max=1))
    behind = queue.enqueue(plain_job, 0)
    until_step(client, job, 5)

    first.send_signal(signal.SIGTERM)

    assert first.wait(DEADLINE) == 0
    assert queue.job_ids == [job.id, behind.id]  # at the front
    assert job.get_status(refresh=True) is JobStatus.QUEUED
    log = (tmp_path / "worker-0.log").read_text()
    assert f"job {job.id}: step 1 saved, " in log
    assert "it is at the head of its queue" in log
    assert "Traceback" not in log
    start_worker()
    wait_until(lambda: ended(job) and ended(behind), "the jobs to end")
    assert job.return_value() == weights_after(40)
    assert steps_done(client, job.id) == list(range(40))  # none twice
    job.refresh()
    assert job.retries_left == 1
    assert not queue.failed_job_registry.get_job_ids()


def test_a_job_without_a_checkpoint_still_runs_to_its_end(
    client: Redis, queue: Queue, start_worker: StartWorker
) -> None:
    worker = start_worker()
    job = queue.enqueue(plain_job, 1.0)
    wait_until(lambda: client.llen("test:begun"), "the job to begin")

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(DEADLINE) == 0
    assert job.get_status(refresh=True) is JobStatus.FINISHED


def test_a_job_whose_process_is_killed_resumes_without_using_a_retry(
    client: Redis, queue: Queue, store: str, start_worker: StartWorker
) -> None:
    worker = start_worker()
    job = queue.enqueue(train, 30, 0.05, store, retry=Retry(max=1))
    until_step(client, job, 5)

    os.kill(child_of(worker), signal.SIGKILL)

    wait_until(lambda: ended(job), "the job to end")
    assert job.return_value() == weights_after(30)
    steps = steps_done(client, job.id)
    assert set(steps) == set(range(30))
    assert len(steps) <= 31  # the step under way, at most
    job.refresh()
    assert job.retries_left == 1


def child_of(process: WorkerProcess) -> int:
    """Return the process of its job."""
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])


def test_a_job_whose_machine_is_gone_resumes_at_the_next_worker(
    client: Redis, queue: Queue, store: str, start_worker: StartWorker
) -> None:
    first = start_worker()
    job = queue.enqueue(train, 30, 0.05, store, retry=Retry(max=1))
    until_step(client, job, 5)

    kill_all_of(first)
    start_worker()

    wait_until(lambda: ended(job), "the job to end")
    assert job.return_value() == weights_after(30)
    job.refresh()
    assert job.retries_left == 1


def lost(queue: Queue, second: int, *, checkpoint: bool) -> Job:
    """Make a job whose worker is gone and had until this second, which is over."""
    job = Job.create(plain_job, (0,), connection=queue.connection, origin=queue.name, status=JobStatus.STARTED)
    job.retries_left = 1
    job.save()
    if checkpoint:
        queue.connection.hset(attempt_key(job.id), "token", 1)
    queue.connection.zadd("rq:wip:train", {f"{job.id}:1": second})
    return job


@pytest.mark.parametrize("deadlines", ["later", "equal"])
def test_while_more_machines_are_lost_the_jobs_of_the_first_ones_go_on(
    client: Redis, queue: Queue, start_worker: StartWorker, deadlines: str
) -> None:
    """At each look of the idle worker there is one whose time is not up. RQ's cleanup must leave those alone."""
    second = int(time.time()) - 5
    start_worker(kind="tests.checkpoints.training.UnhurriedSafeWorker")
    first, *others = [lost(queue, second, checkpoint=checkpoint) for checkpoint in (True, False)]
    until = time.monotonic() + 30
    while not ended(first) and time.monotonic() < until:
        later = second if deadlines == "equal" else int(time.time()) - 1
        others.append(lost(queue, later, checkpoint=len(others) % 2 == 0))
        time.sleep(0.5)

    assert first.get_status() is JobStatus.FINISHED
    assert others[-1].get_status(refresh=True) is JobStatus.STARTED
    if deadlines == "equal":
        assert others[0].get_status(refresh=True) is JobStatus.STARTED
    wait_until(lambda: all(ended(job) for job in others), "all of them")
    assert {job.get_status() for job in others} == {JobStatus.FINISHED}
    assert client.llen("test:ended") == 1 + len(others)


def test_a_job_whose_deadline_passes_while_a_worker_looks_is_left_for_its_next_look(
    server: EmbeddedRedis, client: Redis, queue: Queue, store: str, start_worker: StartWorker
) -> None:
    class Slow(QuickSafeWorker):
        last_chance = 0

        def clean_up_to(self, limits: Any, stuck: Any) -> None:
            """Between our look at the deadlines and RQ's own, which fails jobs."""
            wait_until(lambda: not client.zrangebyscore("rq:wip:train", time.time(), "+inf"), "the deadline to pass")
            super().clean_up_to(limits, stuck)

    first = start_worker()
    job = queue.enqueue(train, 30, 0.05, store)
    until_step(client, job, 5)
    kill_all_of(first)
    worker = Slow([queue], connection=Redis(host=server.host, port=server.port))

    worker.clean_registries()
    seen_late = job.get_status(refresh=True)
    worker.clean_registries()

    assert (seen_late, job.get_status(refresh=True)) == (JobStatus.STARTED, JobStatus.QUEUED)
    assert queue.job_ids == [job.id]


def test_three_hard_ends_without_a_new_checkpoint_fail_the_job_with_one_line(
    client: Redis, queue: Queue, store: str, start_worker: StartWorker
) -> None:
    start_worker()
    job = queue.enqueue(dies_before_it_saves, store)

    wait_until(lambda: ended(job), "the job to fail")

    assert job.get_status() is JobStatus.FAILED
    result = job.latest_result()
    assert result is not None
    assert "ended hard 3 times without a new checkpoint" in (result.exc_string or "")


def test_an_attempt_that_was_frozen_publishes_nothing_after_another_went_on(
    client: Redis, queue: Queue, store: str, start_worker: StartWorker
) -> None:
    first = start_worker()
    job = queue.enqueue(train, 30, 0.1, store)
    until_step(client, job, 5)
    horse = child_of(first)
    for pid in (first.pid, horse):
        os.kill(pid, signal.SIGSTOP)
    second = start_worker()
    wait_until(lambda: client.llen(OPENED + job.id) == 2, "the second attempt to begin")
    newest = client.hget(attempt_key(job.id), "token")

    for pid in (horse, first.pid):
        os.kill(pid, signal.SIGCONT)

    wait_until(lambda: ended(job), "the job to end")
    assert job.return_value() == weights_after(30)
    assert client.hget(attempt_key(job.id), "token") == newest  # nobody put it back again
    assert queue.job_ids == []
    for process in (second, first):
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE)
    files = sorted(path.name for path in (Path(store) / job.id).glob("*.json"))
    assert files[-1].startswith(f"{int(newest or 0):010d}-")


def test_the_result_of_an_attempt_that_was_replaced_is_dropped(
    client: Redis, queue: Queue, store: str, tmp_path: Path, start_worker: StartWorker
) -> None:
    start_worker()
    job = queue.enqueue(returns_its_attempt, store)
    wait_until(lambda: client.llen(OPENED + job.id), "the job to open its checkpoint")

    client.hincrby(attempt_key(job.id), "token", 1)  # what every way back to the queue does
    client.rpush("test:may-end", "now")

    log = tmp_path / "worker-0.log"
    wait_until(lambda: f"the result of job {job.id} is dropped" in log.read_text(), "the worker to say so")
    assert job.latest_result() is None
    assert job.get_status(refresh=True) is JobStatus.STARTED


def test_an_emptied_redis_loses_the_job_and_not_the_checkpoint(
    client: Redis, queue: Queue, store: str, start_worker: StartWorker
) -> None:
    """Its producer enqueues it again under its id, and the new attempt's number exceeds those in the store."""
    first = start_worker()
    job = queue.enqueue(train, 30, 0.05, store, job_id="nightly")
    until_step(client, job, 5)

    client.flushall()
    kill_all_of(first)
    start_worker()
    again = queue.enqueue(train, 30, 0.01, store, job_id="nightly")

    wait_until(lambda: ended(again), "the job to end")
    assert again.return_value() == weights_after(30)
    assert min(steps_done(client, "nightly")) >= 5
    files = sorted(path.name for path in (Path(store) / "nightly").glob("*.json"))
    assert files[-1].startswith("0000000002-")


def test_checkpoints_go_with_the_result(client: Redis, queue: Queue, tmp_path: Path, start_worker: StartWorker) -> None:
    shelf = tmp_path / "pool"
    short = {"store": str(shelf), "every": 0}
    first = start_worker(**short)
    gone = queue.enqueue(train, 2, 0.0, None, result_ttl=1)
    kept = queue.enqueue(train, 2, 0.0, None, result_ttl=500)
    wait_until(lambda: client.exists(f"rq:job:{gone.id}") == 0 and ended(kept), "one result to be over")
    first.send_signal(signal.SIGTERM)
    first.wait(DEADLINE)

    start_worker(**short)  # the first thing that a worker does about maintenance

    wait_until(lambda: not list(shelf.glob(f"{gone.id}*")), "its checkpoints to go")
    assert list((shelf / kept.id).glob("*.json"))


def test_a_required_checkpoint_that_is_never_opened_fails_the_job_with_one_line(
    queue: Queue, start_worker: StartWorker
) -> None:
    start_worker(required=True, openWithin=2)
    job = queue.enqueue(never_opens, 60)

    wait_until(lambda: ended(job), "the job to fail")

    assert job.get_status() is JobStatus.FAILED
    result = job.latest_result()
    assert result is not None
    assert "has opened no checkpoint within 2 s" in (result.exc_string or "")


def test_no_job_is_taken_until_the_store_is_usable(
    client: Redis, queue: Queue, tmp_path: Path, start_worker: StartWorker
) -> None:
    taken = tmp_path / "a-file"
    taken.write_text("in the way")
    worker = start_worker(store=str(taken))
    job = queue.enqueue(plain_job, 0)
    log = tmp_path / "worker-0.log"

    wait_until(lambda: "no job is taken until checkpoints can be stored" in log.read_text(), "the line")

    assert str(taken) in log.read_text()
    assert job.get_status(refresh=True) is JobStatus.QUEUED
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE) == 0
    assert job.get_status(refresh=True) is JobStatus.QUEUED
    assert "Traceback" not in log.read_text()
