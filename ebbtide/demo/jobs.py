"""The demo's jobs: short ones, and a training whose worker gets SIGTERM halfway, so that another worker resumes it.

Each job records its start and its end, the training each finished step with its attempt; the demo counts only these
records.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from redis import Redis
from rq import Queue, get_current_job
from rq.job import Job, JobStatus

from controllers.ports import Scale
from ebbtide.demo.process_cluster import ProcessCluster, rq_worker_command
from ebbtide.jobs import checkpoint

STARTED, FINISHED = "ebbtide:demo:started", "ebbtide:demo:finished"


def work(seconds: float) -> None:
    """Sleep, between two records."""
    job = get_current_job()
    if job is None:
        raise RuntimeError("this function runs as an RQ job only")
    job.connection.rpush(STARTED, f"{job.id} {time.time()}")
    time.sleep(seconds)
    job.connection.rpush(FINISHED, f"{job.id} {time.time()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    done: int
    interrupted: int  # jobs that started more often than they finished
    started: int
    first_start: float | None  # epoch seconds


def read_records(connection: Redis) -> Records:
    started = _entries(connection, STARTED)
    finished = Counter(job for job, _ in _entries(connection, FINISHED))
    starts = Counter(job for job, _ in started)
    return Records(
        done=len(finished),
        interrupted=sum(1 for job, times in starts.items() if times > finished[job]),
        started=len(starts),
        first_start=min((at for _, at in started), default=None),
    )


def _entries(connection: Redis, key: str) -> list[tuple[str, float]]:
    lines = cast("list[bytes]", connection.lrange(key, 0, -1))
    return [(job, float(at)) for job, at in (line.decode().split() for line in lines)]


STEPS_DONE = "ebbtide:demo:steps"
QUEUE = "ebbtide-demo-training"  # in no pool, so the controller leaves its workers alone
STEPS, STEP_SECONDS = 12, 0.1
SAVE_EVERY = 3600.0  # seconds: so that only SIGTERM makes it save again
LIMIT = 30.0  # seconds; usually it takes a tenth

Say = Callable[[str], None]


class NotFinished(RuntimeError):
    """Raised after the time limit; the message says what was awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Figures of the run, counted from the job's records."""

    steps: int
    done: int  # distinct steps
    repeated: int  # further executions of done steps
    first_of_second: int | None  # the step at which the second attempt began; None without one
    attempts: int

    def facts(self) -> dict[str, str]:
        resumed = "was not interrupted" if self.first_of_second is None else f"resumed at step {self.first_of_second}"
        return {
            "interrupted training": f"{resumed}, {self.done} of {self.steps} steps done in {self.attempts} attempts",
            "steps repeated": str(self.repeated),
        }


def train(steps: int, seconds: float, store: str) -> None:
    """Run the steps; this is the job."""
    job = get_current_job()
    if job is None:
        raise RuntimeError("this function runs as an RQ job only")
    with checkpoint(store, every=SAVE_EVERY) as saved:
        for step in range(saved.load(default=1), steps + 1):
            time.sleep(seconds)
            job.connection.rpush(STEPS_DONE, f"{saved.attempt} {step}")
            saved.offer(step + 1, step=step)


def read_training(connection: Redis, steps: int = STEPS) -> Training:
    lines: Any = connection.lrange(STEPS_DONE, 0, -1)
    done = [(int(attempt), int(step)) for attempt, step in (line.split() for line in lines)]
    attempts = sorted({attempt for attempt, _ in done})
    distinct = {step for _, step in done}
    later = [step for attempt, step in done if attempt != attempts[0]]
    return Training(
        steps=steps,
        done=len(distinct),
        repeated=len(done) - len(distinct),
        first_of_second=later[0] if later else None,
        attempts=len(attempts),
    )


def run_interrupted(connection: Redis, url: str, worker_class: str, say: Say) -> Training:
    """Start, interrupt and finish a training. Raises `NotFinished`."""

    def command(_pool: str, pod: str) -> list[str]:
        return rq_worker_command(url, pod, [QUEUE], worker_class)

    with TemporaryDirectory(prefix="ebbtide-demo-") as store, ProcessCluster([QUEUE], command) as cluster:
        job = Queue(QUEUE, connection=connection).enqueue(train, STEPS, STEP_SECONDS, str(Path(store)))
        _scale(cluster, 1)
        _wait(lambda: read_training(connection).done >= STEPS // 2, "half of the training")
        say(f"a training has done {read_training(connection).done} of {STEPS} steps: its worker gets SIGTERM")
        _scale(cluster, 0)
        _wait(lambda: not cluster.pids(), "its worker to leave")
        _scale(cluster, 1)
        _wait(lambda: _has_ended(job), "the training to end")
        if job.get_status(refresh=True) is not JobStatus.FINISHED:
            raise NotFinished("the interrupted training failed")
        return read_training(connection)


def _scale(cluster: ProcessCluster, workers: int) -> None:
    cluster.act(Scale(pool=QUEUE, replicas=workers, version=None, reason="demo"))


def _has_ended(job: Job) -> bool:
    return job.get_status(refresh=True) in (JobStatus.FINISHED, JobStatus.FAILED)


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise NotFinished(f"waited {LIMIT:.0f} s for {what}")
        time.sleep(0.02)
