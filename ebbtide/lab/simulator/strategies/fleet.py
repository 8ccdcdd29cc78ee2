"""The smallest constant fleet that serves each pool as well as the product does: the baseline of savings.

A fleet has a constant number of workers per pool, and the nodes that hold them and the stack's workloads. It is as good
as the product for a pool if the pool's p95 wait is not longer and no more of the pool's jobs are unfinished at the end.
Each pool is a separate, exact first-in-first-out queue, so pools are independent, and bisection finds the fewest
workers of each.

`peak_fleet` needs no search: its workers are as many as the jobs need at once if none ever waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from ebbtide.lab.simulator.outcome import pool_result
from ebbtide.lab.simulator.results import PoolResult
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.lab.simulator.world.waits import fifo_starts
from ebbtide.prices import Capacity
from ebbtide.settings.capacity.packing import alike_nodes_needed
from ebbtide.settings.capacity.placement import PodSize


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetGroup:
    """A node group of the fleet, with the pods that run there whatever the queues hold."""

    name: str
    shape: Capacity
    min_nodes: int = 0
    residents: tuple[tuple[PodSize, int], ...] = ()
    guests: tuple[tuple[tuple[PodSize, int], ...], ...] = ()
    """Sets of job pods that run at the same time; the group has capacity for the largest set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPool:
    """A worker pool of the fleet: its jobs, the node group and size of its workers, and their limit."""

    name: str
    group: str
    worker: PodSize
    max_workers: int
    jobs: tuple[PooledJob, ...]


@dataclass(frozen=True, slots=True)
class FleetSize:
    """Workers by pool and nodes by group."""

    workers: Mapping[str, int]
    nodes: Mapping[str, int]


def smallest_fleet(
    pools: Sequence[FleetPool], groups: Sequence[FleetGroup], targets: Mapping[str, PoolResult], end_s: float
) -> FleetSize:
    """Return the smallest fleet in which each pool is as good as its target in `targets`."""
    workers = {
        pool.name: fewest_workers(pool.jobs, pool.max_workers, targets[pool.name], end_s) if pool.jobs else 0
        for pool in pools
    }
    return _fleet(pools, groups, workers)


def fewest_workers(jobs: Sequence[PooledJob], most: int, target: PoolResult, end_s: float) -> int:
    """Return the fewest workers with which a pool's jobs are as good as the target, or `most` if no number is enough.

    One more worker never makes a job start later: in order of time, each instant at which a worker becomes free is no
    later than before, and stays so from job to job, gangs included. So the search bisects.
    """
    # A fleet with fewer workers than a gang has members would never start the gang, and would look cheap.
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


def _fleet(pools: Sequence[FleetPool], groups: Sequence[FleetGroup], workers: Mapping[str, int]) -> FleetSize:
    nodes = {
        group.name: nodes_of(group, [(pool.worker, workers[pool.name]) for pool in pools if pool.group == group.name])
        for group in groups
    }
    return FleetSize(workers, nodes)


def nodes_of(group: FleetGroup, workers: Sequence[tuple[PodSize, int]]) -> int:
    """Return the nodes of a group for its residents and these workers."""
    always = [*group.residents, *workers]
    return max(
        group.min_nodes, *(alike_nodes_needed(group.shape, [*always, *guests]) for guests in group.guests or ((),))
    )


def peak_fleet(pools: Sequence[FleetPool], groups: Sequence[FleetGroup]) -> FleetSize:
    """Return the workers that the jobs need at once if all start when submitted, even above a pool's max."""
    return _fleet(pools, groups, {pool.name: most_at_once(pool.jobs) for pool in pools})


def most_at_once(jobs: Sequence[PooledJob]) -> int:
    """A job's end frees its workers for a start at the same instant. One without length ends before the next starts."""
    changes: list[tuple[tuple[float, int, int], int]] = []
    for number, job in enumerate(jobs):
        end = job.submitted_at + job.duration_s
        changes.append(((job.submitted_at, 1, number), job.members))
        changes.append(((end, 0, number) if end > job.submitted_at else (end, 1, number), -job.members))
    changes.sort(key=itemgetter(0))  # stable, so that a job without length begins before it ends
    return max(accumulate(change for _, change in changes), default=0)
