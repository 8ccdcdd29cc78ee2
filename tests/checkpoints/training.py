"""A training that records its steps in Redis, one entry each; its result depends on every step, in order."""

import hashlib
import os
import signal
import time
from typing import Any

from redis import Redis
from rq import get_current_job

from ebbtide.jobs import checkpoint
from ebbtide.jobs.rq_worker import SafeWorker

STEPS = "test:steps:"  # + the job's id
OPENED = "test:opened:"


class QuickSafeWorker(SafeWorker):
    """Notices a dead worker within seconds: RQ's 90 s, or our 30, would be most of a test."""

    last_chance = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs | {"job_monitoring_interval": 1, "maintenance_interval": 1, "worker_ttl": 18})

    def get_heartbeat_ttl(self, job: Any, **working_time: float) -> int:
        del job, working_time
        return 3

    @property
    def dequeue_timeout(self) -> int:
        return 1


class UnhurriedSafeWorker(QuickSafeWorker):
    """Gives a late worker time that a busy machine does not use up between two lines of a test."""

    last_chance = 5


class OftenKilledSafeWorker(QuickSafeWorker):
    """Its jobs may be killed more often before they save: here the cause is chance, not the job."""

    most_deaths = 1_000


def weights_after(steps: int) -> str:
    """Return the result of an uninterrupted training."""
    weights = ""
    for epoch in range(steps):
        weights = next_weights(weights, epoch)
    return weights


def next_weights(weights: str, epoch: int) -> str:
    return hashlib.sha256(f"{weights}{epoch}".encode()).hexdigest()


def train(
    steps: int, pause: float = 0.0, store: str | None = None, every: float = 0.0, steps_per_offer: int = 1
) -> str:
    job = get_current_job()
    assert job is not None
    with checkpoint(store, every=every) as saved:
        state: dict[str, Any] = saved.load(default={"epoch": 0, "weights": ""})
        job.connection.rpush(OPENED + job.id, saved.attempt)
        for epoch in range(state["epoch"], steps):
            time.sleep(pause)
            job.connection.rpush(STEPS + job.id, epoch)
            state = {"epoch": epoch + 1, "weights": next_weights(state["weights"], epoch)}
            if (epoch + 1) % steps_per_offer == 0:
                saved.offer(state, step=epoch + 1)
    return str(state["weights"])


def dies_before_it_saves(store: str) -> None:
    with checkpoint(store):
        os.kill(os.getpid(), signal.SIGKILL)


def never_opens(seconds: float) -> None:
    time.sleep(seconds)


def steps_done(client: Redis, job_id: str) -> list[int]:
    found: Any = client.lrange(STEPS + job_id, 0, -1)
    return [int(step) for step in found]


def returns_its_attempt(store: str) -> int:
    """Returns once `test:may-end` is a list with an entry."""
    job = get_current_job()
    assert job is not None
    with checkpoint(store) as saved:
        saved.save({})
        job.connection.rpush(OPENED + job.id, saved.attempt)
        job.connection.blpop(["test:may-end"], timeout=60)
        return saved.attempt
