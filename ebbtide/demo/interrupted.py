"""A training whose worker is told to stop in the middle: another worker goes on where it was.

Each step is written down by the job as it is done, with the attempt that did it; the figures are counted from that.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redis import Redis
from rq import Queue, get_current_job
from rq.job import Job, JobStatus

from controllers.ports import Scale
from ebbtide.demo.process_cluster import ProcessCluster, rq_worker_command
from ebbtide.jobs import checkpoint

STEPS_DONE = "ebbtide:demo:steps"
QUEUE = "ebbtide-demo-training"  # of no pool, so the controller leaves its workers alone
STEPS, STEP_SECONDS = 12, 0.1
SAVE_EVERY = 3600.0  # seconds: only being told to stop makes it save again
LIMIT = 30.0  # seconds: usually it takes a tenth of it

Say = Callable[[str], None]


class NotFinished(RuntimeError):
    """The message says what was waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Counted from what the job wrote down."""

    steps: int  # that it has
    done: int  # of them
    repeated: int  # done more than once, each time counted
    first_of_second: int | None  # the step at which the second attempt began; None: there was none
    attempts: int

    def facts(self) -> dict[str, str]:
        went_on = "was not interrupted" if self.first_of_second is None else f"went on at step {self.first_of_second}"
        return {
            "training told to stop": f"{went_on}, {self.done} of {self.steps} steps done in {self.attempts} attempts",
            "steps repeated": str(self.repeated),
        }


def train(steps: int, seconds: float, store: str) -> None:
    """The job."""
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
    """Raises `NotFinished`."""

    def command(_pool: str, pod: str) -> list[str]:
        return rq_worker_command(url, pod, [QUEUE], worker_class)

    with TemporaryDirectory(prefix="ebbtide-demo-") as store, ProcessCluster([QUEUE], command) as cluster:
        job = Queue(QUEUE, connection=connection).enqueue(train, STEPS, STEP_SECONDS, str(Path(store)))
        _scale(cluster, 1)
        _wait(lambda: read_training(connection).done >= STEPS // 2, "half of the training")
        say(f"a training has done {read_training(connection).done} of {STEPS} steps: its worker is told to stop")
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
