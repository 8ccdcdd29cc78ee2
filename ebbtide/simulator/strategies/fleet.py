"""The smallest constant fleet whose overall p95 wait is not above a target: what savings are measured against.

A fleet has a number of workers per pool, always on, and the nodes that hold them together with the workloads that run
anyway. Each pool is an exact first-in-first-out queue, so the only search is over worker counts. "p95 not above the
target" means: at most a known number of jobs, over all pools, waits longer. A pool's count of such jobs falls as its
workers grow; so the search walks the pools, spends that allowance, and cuts every branch that cannot get cheaper
than the best fleet found. It is exact: a fleet that is too large would flatter the savings.

`peak_fleet` needs no search: it is what the jobs want at once if none ever waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from ebbtide.prices import Capacity
from ebbtide.settings.packing import alike_nodes_needed
from ebbtide.settings.placement import PodSize
from ebbtide.simulator.world.pools import PooledJob
from ebbtide.simulator.world.waits import fifo_starts, rank

P95 = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetGroup:
    """A node group of the fleet, with the pods that live there whatever the queues hold."""

    name: str
    shape: Capacity
    usd_per_hour: float
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
    usd_per_hour: float


class NoFleet(ValueError):
    """Not even every pool at its largest reaches the target."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Jobs that are run by others: they count for the p95, with those of them that wait too long."""

    jobs: int = 0
    late: int = 0


_ALONE = Beside()


def smallest_fleet(
    pools: Sequence[FleetPool],
    groups: Sequence[FleetGroup],
    *,
    target_p95_s: float,
    end_s: float,
    beside: Beside = _ALONE,
) -> Fleet:
    """The cheapest fleet, then the one with the fewest workers, with p95 wait <= `target_p95_s`. Raises `NoFleet`.

    A job that has not started at `end_s` counts with the wait it has had until then.
    """
    return _Search(pools, groups, target_p95_s, end_s, beside).run()


def late_allowed(jobs: int) -> int:
    """How many of so many jobs may wait longer than their p95."""
    return jobs - rank(jobs, P95) if jobs else 0


def least_late(pools: Sequence[FleetPool], target_p95_s: float, end_s: float) -> int:
    """Jobs that wait longer with every pool at its largest."""
    ladders = [_Ladder(pool, target_p95_s, end_s) for pool in pools if pool.jobs]
    return sum(ladder.late(ladder.most) for ladder in ladders)


@dataclass(frozen=True, slots=True)
class _Option:
    """A worker count of one pool worth trying, and how many of its jobs then wait too long."""

    workers: int
    late: int


class _Search:
    def __init__(
        self,
        pools: Sequence[FleetPool],
        groups: Sequence[FleetGroup],
        target_p95_s: float,
        end_s: float,
        beside: Beside,
    ) -> None:
        self._pools = [pool for pool in pools if pool.jobs]  # a pool without jobs needs no worker
        self._idle = {pool.name: 0 for pool in pools if not pool.jobs}
        self._groups = groups
        jobs = sum(len(pool.jobs) for pool in self._pools) + beside.jobs
        self._allowed = late_allowed(jobs) - beside.late
        self._ladders = [_Ladder(pool, target_p95_s, end_s) for pool in self._pools]
        # the fewest late jobs that the pools from i on can have: what the pools before them must leave over
        least = [ladder.late(ladder.most) for ladder in self._ladders]
        self._least_late = [sum(least[i:]) for i in range(len(least) + 1)]
        self._nodes_of: dict[tuple[str, tuple[int, ...]], int] = {}
        self._best: tuple[float, int] | None = None
        self._best_counts: tuple[int, ...] = ()

    def run(self) -> Fleet:
        if self._least_late[0] > self._allowed:
            raise NoFleet("the pools' largest fleet waits longer than the target")
        self._walk((), self._allowed)
        named = {pool.name: count for pool, count in zip(self._pools, self._best_counts, strict=True)}
        workers = {**named, **self._idle}
        nodes = {group.name: self._nodes(group, self._best_counts) for group in self._groups}
        return Fleet(workers, nodes, self._price(self._best_counts))

    def _walk(self, chosen: tuple[int, ...], allowance: int) -> None:
        depth = len(chosen)
        if depth == len(self._pools):
            bid = (self._price(chosen), sum(chosen))
            if self._best is None or bid < self._best:
                self._best, self._best_counts = bid, chosen
            return
        # Whatever this pool gets, those that follow need what they would if it left them all that is allowed.
        to_spend = allowance - self._least_late[depth]
        fewest = tuple(
            ladder.first(ladder.late(ladder.most) + to_spend).workers for ladder in self._ladders[depth + 1 :]
        )
        option: _Option | None = self._ladders[depth].first(allowance - self._least_late[depth + 1])
        while option is not None:
            counts = (*chosen, option.workers)
            bound = (self._price(counts + fewest), sum(counts + fewest))
            if self._best is not None and bound >= self._best:
                return  # larger options of this pool only cost more
            self._walk(counts, allowance - option.late)
            option = self._ladders[depth].after(option)

    def _price(self, counts: tuple[int, ...]) -> float:
        # rounded: sums in another order must not look like another price
        return round(sum(self._nodes(group, counts) * group.usd_per_hour for group in self._groups), 9)

    def _nodes(self, group: FleetGroup, counts: tuple[int, ...]) -> int:
        here = [(pool.worker, n) for pool, n in zip(self._pools, counts, strict=True) if pool.group == group.name]
        key = (group.name, tuple(n for _, n in here))
        if key not in self._nodes_of:
            self._nodes_of[key] = _nodes_of(group, here)
        return self._nodes_of[key]


class _Ladder:
    """A pool's worker counts worth trying, from few to many, each with fewer late jobs than the one before.

    One more worker never makes a job start later: of the instants at which workers are free, the first, the second and
    so on are each no later than before, and stay so from job to job, gangs included. So late jobs only fall, and a step
    is found by halving instead of by trying every count.
    """

    def __init__(self, pool: FleetPool, target_s: float, end_s: float) -> None:
        self._pool = pool
        self._target_s = target_s
        self._end_s = end_s
        self._late: dict[int, int] = {}
        self.most = max(1, pool.max_workers)
        # Fewer than a gang has members would never start it, and be cheap for that.
        self._least = min(self.most, max((job.members for job in pool.jobs), default=1))

    def late(self, workers: int) -> int:
        """Jobs that wait longer than the target."""
        if workers not in self._late:
            jobs = self._pool.jobs
            starts = fifo_starts(jobs, workers)
            waits = (min(start, self._end_s) - job.submitted_at for start, job in zip(starts, jobs, strict=True))
            self._late[workers] = sum(wait > self._target_s for wait in waits)
        return self._late[workers]

    def first(self, allowed: int) -> _Option:
        """The fewest workers with at most `allowed` late jobs, which all the workers there may be do not exceed."""
        return self._fewest(self._least, allowed)

    def after(self, option: _Option) -> _Option | None:
        """The next step; None when no more workers make any job less late."""
        if option.late == self.late(self.most):
            return None
        return self._fewest(option.workers + 1, option.late - 1)

    def _fewest(self, low: int, allowed: int) -> _Option:
        high = self.most
        while low < high:
            middle = (low + high) // 2
            if self.late(middle) <= allowed:
                high = middle
            else:
                low = middle + 1
        return _Option(low, self.late(low))


def _nodes_of(group: FleetGroup, workers: Sequence[tuple[PodSize, int]]) -> int:
    always = [*group.residents, *workers]
    return max(
        group.min_nodes, *(alike_nodes_needed(group.shape, [*always, *guests]) for guests in group.guests or ((),))
    )


def peak_fleet(pools: Sequence[FleetPool], groups: Sequence[FleetGroup]) -> Fleet:
    """As many workers as jobs that all start when submitted need at once, however many a pool may have."""
    workers = {pool.name: most_at_once(pool.jobs) for pool in pools}
    nodes = {
        group.name: _nodes_of(group, [(pool.worker, workers[pool.name]) for pool in pools if pool.group == group.name])
        for group in groups
    }
    return Fleet(workers, nodes, sum(nodes[group.name] * group.usd_per_hour for group in groups))


def most_at_once(jobs: Sequence[PooledJob]) -> int:
    """A job that ends makes room for one that starts at that instant; one of no length, for itself alone."""
    changes: list[tuple[tuple[float, int, int], int]] = []
    for number, job in enumerate(jobs):
        end = job.submitted_at + job.duration_s
        changes.append(((job.submitted_at, 1, number), job.members))
        changes.append(((end, 0, number) if end > job.submitted_at else (end, 1, number), -job.members))
    changes.sort(key=itemgetter(0))  # in the order given at one place, so that a job without length starts first
    return max(accumulate(change for _, change in changes), default=0)
