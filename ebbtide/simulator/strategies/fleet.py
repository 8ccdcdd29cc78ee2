"""The smallest constant fleet that serves each pool as well as the product does: what savings are measured against.

A fleet has a number of workers per pool, always on, and the nodes that hold them together with the workloads that run
anyway. It is as good as the product for a pool if the p95 of the pool's waits is not longer and no more of the pool's
jobs are unfinished at the end. Each pool is an exact first-in-first-out queue of its own, so pools are independent, and
the fewest workers of each are found by halving.

`peak_fleet` needs no search: it is what the jobs want at once if none ever waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from ebbtide.prices import Capacity
from ebbtide.settings.packing import alike_nodes_needed
from ebbtide.settings.placement import PodSize
from ebbtide.simulator.outcome import pool_result
from ebbtide.simulator.results import PoolResult
from ebbtide.simulator.world.pools import PooledJob
from ebbtide.simulator.world.waits import fifo_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetGroup:
    """A node group of the fleet, with the pods that live there whatever the queues hold."""

    name: str
    shape: Capacity
    min_nodes: int = 0
    residents: tuple[tuple[PodSize, int], ...] = ()
    guests: tuple[tuple[tuple[PodSize, int], ...], ...] = ()
    """Pods of jobs: each set of them is there at some time, and the group has room for whichever is largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPool:
    """A worker pool of the fleet: which jobs come, where its workers live, how many there may be."""

    name: str
    group: str
    worker: PodSize
    max_workers: int
    jobs: tuple[PooledJob, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workers by pool and nodes by group."""

    workers: Mapping[str, int]
    nodes: Mapping[str, int]


def smallest_fleet(
    pools: Sequence[FleetPool], groups: Sequence[FleetGroup], targets: Mapping[str, PoolResult], end_s: float
) -> Fleet:
    """Return the fleet that is as good as `targets`, by pool, for the jobs of each pool."""
    workers = {
        pool.name: fewest_workers(pool.jobs, pool.max_workers, targets[pool.name], end_s) if pool.jobs else 0
        for pool in pools
    }
    return _fleet(pools, groups, workers)


def fewest_workers(jobs: Sequence[PooledJob], most: int, target: PoolResult, end_s: float) -> int:
    """Return the fewest workers that are as good as the target for these jobs of a pool, or `most` if no number is.

    One more worker never makes a job start later: of the instants at which workers are free, the first, the second and
    so on are each no later than before, and stay so from job to job, gangs included. So the search halves.
    """
    # Fewer than a gang has members would never start it, and be cheap for that.
    low, high = max(job.members for job in jobs), most
    while low < high:
        middle = (low + high) // 2
        if as_good(fifo_result(jobs, middle, end_s), target):
            high = middle
        else:
            low = middle + 1
    return low


def as_good(result: PoolResult, target: PoolResult) -> bool:
    return result.wait_p95_s <= target.wait_p95_s and result.jobs_unfinished <= target.jobs_unfinished


def fifo_result(jobs: Sequence[PooledJob], workers: int, end_s: float) -> PoolResult:
    """Return the waits and unfinished jobs of a pool with a constant number of workers."""
    starts = fifo_starts(jobs, workers)
    waits = [min(start, end_s) - job.submitted_at for start, job in zip(starts, jobs, strict=True)]
    done = sum(start < end_s and start + job.duration_s <= end_s for start, job in zip(starts, jobs, strict=True))
    return pool_result(waits, len(jobs) - done)


def _fleet(pools: Sequence[FleetPool], groups: Sequence[FleetGroup], workers: Mapping[str, int]) -> Fleet:
    nodes = {
        group.name: nodes_of(group, [(pool.worker, workers[pool.name]) for pool in pools if pool.group == group.name])
        for group in groups
    }
    return Fleet(workers, nodes)


def nodes_of(group: FleetGroup, workers: Sequence[tuple[PodSize, int]]) -> int:
    """Return the nodes of a group for its residents and these workers."""
    always = [*group.residents, *workers]
    return max(
        group.min_nodes, *(alike_nodes_needed(group.shape, [*always, *guests]) for guests in group.guests or ((),))
    )


def peak_fleet(pools: Sequence[FleetPool], groups: Sequence[FleetGroup]) -> Fleet:
    """Return as many workers as jobs that all start when submitted need at once, however many a pool may have."""
    return _fleet(pools, groups, {pool.name: most_at_once(pool.jobs) for pool in pools})


def most_at_once(jobs: Sequence[PooledJob]) -> int:
    """A job that ends makes room for one that starts at that instant; one of no length, for itself alone."""
    changes: list[tuple[tuple[float, int, int], int]] = []
    for number, job in enumerate(jobs):
        end = job.submitted_at + job.duration_s
        changes.append(((job.submitted_at, 1, number), job.members))
        changes.append(((end, 0, number) if end > job.submitted_at else (end, 1, number), -job.members))
    changes.sort(key=itemgetter(0))  # in the order given at one place, so that a job without length starts first
    return max(accumulate(change for _, change in changes), default=0)
