"""The demo's jobs: each writes down that it started and that it finished, and nothing else is believed."""

import time
from collections import Counter
from dataclasses import dataclass
from typing import cast

from redis import Redis
from rq import get_current_job

STARTED, FINISHED = "ebbtide:demo:started", "ebbtide:demo:finished"


def work(seconds: float) -> None:
    """Take some time."""
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
