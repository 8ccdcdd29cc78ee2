"""The smallest constant fleet whose overall p95 wait is not above a target: what savings are measured against.

A fleet has a number of workers per pool, always on, and the nodes that hold them together with the workloads that run
anyway. Each pool is an exact first-in-first-out queue, so the only search is over worker counts. "p95 not above the
target" means: at most a known number of jobs, over all pools, waits longer. A pool's count of such jobs falls as its
workers grow; so the search walks the pools, spends that allowance, and cuts every branch that cannot get cheaper
than the best fleet found. It is exact: a fleet that is too large would flatter the savings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.prices import Capacity
from ebbtide.settings.packing import alike_nodes_needed
from ebbtide.settings.placement import PodSize
from ebbtide.simulator.pools import PooledJob
from ebbtide.simulator.waits import fifo_starts, rank

P95 = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetGroup:
    """A node group of the fleet, with the pods that live there whatever the queues hold."""

    name: str
    shape: Capacity
    usd_per_hour: float
    min_nodes: int = 0
    residents: tuple[tuple[PodSize, int], ...] = ()


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
    usd_per_hour: float


class NoFleet(ValueError):
    """Not even every pool at its largest reaches the target."""


def smallest_fleet(
    pools: Sequence[FleetPool], groups: Sequence[FleetGroup], *, target_p95_s: float, end_s: float
) -> Fleet:
    """The cheapest fleet, then the one with the fewest workers, with p95 wait <= `target_p95_s`. Raises `NoFleet`.

    A job that has not started at `end_s` counts with the wait it has had until then.
    """
    return _Search(pools, groups, target_p95_s, end_s).run()


@dataclass(frozen=True, slots=True)
class _Option:
    """A worker count of one pool worth trying, and how many of its jobs then wait too long."""

    workers: int
    late: int


class _Search:
    def __init__(
        self, pools: Sequence[FleetPool], groups: Sequence[FleetGroup], target_p95_s: float, end_s: float
    ) -> None:
        self._pools = [pool for pool in pools if pool.jobs]  # a pool without jobs needs no worker
        self._idle = {pool.name: 0 for pool in pools if not pool.jobs}
        self._groups = groups
        jobs = sum(len(pool.jobs) for pool in self._pools)
        self._allowed = jobs - rank(jobs, P95) if jobs else 0
        self._options = [_options(pool, target_p95_s, end_s, self._allowed) for pool in self._pools]
        # the fewest late jobs that the pools from i on can have: what the pools before them must leave over
        least = [min(option.late for option in some) for some in self._options]
        self._least_late = [sum(least[i:]) for i in range(len(least) + 1)]
        self._nodes_of: dict[tuple[str, tuple[int, ...]], int] = {}
        self._best: tuple[float, int] | None = None
        self._best_counts: tuple[int, ...] = ()

    def run(self) -> Fleet:
        if self._least_late[0] > self._allowed:
            raise NoFleet("the pools' largest fleet waits longer than the target")
        self._walk((), self._allowed)
        nodes = {group.name: self._nodes(group, self._best_counts) for group in self._groups}
        named = {pool.name: count for pool, count in zip(self._pools, self._best_counts, strict=True)}
        return Fleet({**named, **self._idle}, nodes, self._price(self._best_counts))

    def _walk(self, chosen: tuple[int, ...], allowance: int) -> None:
        depth = len(chosen)
        if depth == len(self._pools):
            bid = (self._price(chosen), sum(chosen))
            if self._best is None or bid < self._best:
                self._best, self._best_counts = bid, chosen
            return
        fewest = tuple(some[0].workers for some in self._options[depth + 1 :])
        for option in self._options[depth]:
            left = allowance - option.late
            if left < self._least_late[depth + 1]:
                continue
            counts = (*chosen, option.workers)
            bound = (self._price(counts + fewest), sum(counts + fewest))
            if self._best is not None and bound >= self._best:
                return  # larger options of this pool only cost more
            self._walk(counts, left)

    def _price(self, counts: tuple[int, ...]) -> float:
        # rounded: sums in another order must not look like another price
        return round(sum(self._nodes(group, counts) * group.usd_per_hour for group in self._groups), 9)

    def _nodes(self, group: FleetGroup, counts: tuple[int, ...]) -> int:
        here = [(pool.worker, n) for pool, n in zip(self._pools, counts, strict=True) if pool.group == group.name]
        key = (group.name, tuple(n for _, n in here))
        if key not in self._nodes_of:
            self._nodes_of[key] = max(group.min_nodes, alike_nodes_needed(group.shape, [*group.residents, *here]))
        return self._nodes_of[key]


def _options(pool: FleetPool, target_s: float, end_s: float, allowed: int) -> tuple[_Option, ...]:
    """Worker counts from the fewest that could do, each with fewer late jobs than the one before."""
    options: list[_Option] = []
    for workers in range(1, max(1, pool.max_workers) + 1):
        starts = fifo_starts(pool.jobs, workers)
        waits = (min(start, end_s) - job.submitted_at for start, job in zip(starts, pool.jobs, strict=True))
        late = sum(wait > target_s for wait in waits)
        if (late <= allowed or workers == pool.max_workers) and (not options or late < options[-1].late):
            options.append(_Option(workers, late))
        if late == 0:
            break
    return tuple(options)
