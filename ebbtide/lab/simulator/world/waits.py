"""Percentiles of waits, and the exact first-in-first-out queue of a constant number of workers."""

import heapq
import math
from collections.abc import Sequence

from ebbtide.lab.simulator.world.pools import PooledJob


def percentile(values: Sequence[float], fraction: float) -> float:
    """The nearest rank: the smallest value that at least `fraction` of the values do not exceed; 0 without values."""
    if not values:
        return 0.0
    return sorted(values)[rank(len(values), fraction) - 1]


def rank(count: int, fraction: float) -> int:
    """The 1-based place of a nearest-rank percentile; the rounding keeps 0.95 * 20 from becoming 20."""
    return max(1, math.ceil(round(fraction * count, 9)))


def fifo_starts(jobs: Sequence[PooledJob], workers: int) -> list[float]:
    """The start of each job if `workers` identical workers run the jobs in their order, and none leaves.

    Exact for first in, first out: the next job starts on the worker that is free first, or at once. The members of a
    gang occupy one worker after the other and wait for the last one. A gang with more members than workers holds all
    of them forever, so it and all later jobs start at infinity.
    """
    free = [0.0] * workers
    starts: list[float] = []
    for job in jobs:
        if job.members == 1:
            start = max(job.submitted_at, free[0])
            heapq.heapreplace(free, start + job.duration_s)
        else:
            start = _start_of_gang(job, free)
        starts.append(start)
    return starts


def _start_of_gang(job: PooledJob, free: list[float]) -> float:
    if job.members > len(free):
        free[:] = [math.inf] * len(free)
        return math.inf
    start = max(job.submitted_at, *(heapq.heappop(free) for _ in range(job.members)))
    for _ in range(job.members):
        heapq.heappush(free, start + job.duration_s)
    return start
