"""Ray clusters of constant size: the drivers and Ray workers of a fixed fleet and a peak fleet.

Queues, drivers and groups work as in a world, but all workers run from second 0 to the end, so none has to be placed on
a node. `smallest` starts with every pool and group at its `max` and shrinks each while every pool stays as good as its
target, groups with GPUs first. Unlike the exact search of `fleet` this is a descent: pools and groups wait for each
other, so shrinking one after the other may stop above the minimum. A `min` is ignored, as in `fleet`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from ebbtide.lab.simulator.outcome import pool_results
from ebbtide.lab.simulator.results import PoolResult, RayClusterResult, RayGroupResult
from ebbtide.lab.simulator.strategies.fleet import as_good
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.lab.simulator.world.ray.drives import JOIN_S, Drive, DriveEdges
from ebbtide.lab.simulator.world.ray.lines import GroupMeter, Line
from ebbtide.lab.simulator.world.ray.work import RayGroupPlan, RayPlan, RayWork, key_of_group
from ebbtide.lab.simulator.world.workers import JobRun, PoolEdges, PoolQueue, WorkerTimes, runs_of

_AT_ONCE = WorkerTimes(pop_s=0.0, window_s=(0.0, 0.0))
_BEFORE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RayFleet:
    """One cluster with its numbers of drivers and workers, and the runs of its jobs."""

    plan: RayPlan
    counts: Mapping[str, int]  # by pool, and by `workload_of_group` of a group
    runs: tuple[JobRun, ...]
    result: RayClusterResult


class _Group:
    """A group with a constant number of workers, or with one more as soon as a task lacks a worker (`unlimited`)."""

    def __init__(self, timeline: Timeline, plan: RayGroupPlan, workers: int | None) -> None:
        self.line = Line(timeline, plan, changed=self._changed, exited=lambda _: None)
        self.meter = GroupMeter(self.line)
        self._unlimited = workers is None
        self._growing = False
        self.born = 0
        for _ in range(workers or 0):
            self._start()

    def _start(self) -> None:
        self.born += 1
        self.line.started(str(self.born))

    def _changed(self) -> None:
        if self._growing:
            return
        self._growing = True
        while self._unlimited and self.line.waiting:
            self._start()
        self._growing = False
        self.meter.note()


def play(plan: RayPlan, jobs: Sequence[PooledJob], counts: Mapping[str, int], end_s: float) -> RayFleet:
    """Groups that `counts` leaves out are unlimited: no task waits there."""
    timeline = Timeline()
    groups = {group.worker.name: _Group(timeline, group, counts.get(group.worker.name)) for group in plan.groups}

    def drive(work: RayWork, tasks_done: int, edges: DriveEdges) -> Drive:
        return Drive(timeline, groups[work.group].line, work, edges, lambda _: None, tasks_done)

    edges = PoolEdges(changed=lambda: None, exited=lambda _: None, drive=drive)
    queues = {pool: PoolQueue(timeline, Random(0), edges, times=_AT_ONCE) for pool in plan.drivers}
    for pool, queue in queues.items():
        for number in range(counts[pool]):
            queue.started(str(number))
    runs = runs_of(jobs)
    for run in runs:
        timeline.at(run.submitted_at, _enqueue(queues[run.pool], run), _BEFORE)
    timeline.run_until(end_s)
    results: dict[str, RayGroupResult] = {
        key_of_group(plan.name, name): group.meter.result(end_s) for name, group in groups.items()
    }
    return RayFleet(
        plan=plan,
        counts={**counts, **{name: group.born for name, group in groups.items()}},
        runs=tuple(runs),
        result=RayClusterResult(head_hours=end_s / 3600, groups=results),
    )


def _enqueue(queue: PoolQueue, run: JobRun) -> Callable[[], None]:
    return lambda: queue.enqueue(run)


def smallest(
    plan: RayPlan, most: Mapping[str, int], jobs: Sequence[PooledJob], targets: Mapping[str, PoolResult], end_s: float
) -> RayFleet:
    """Shrink a cluster while each pool of drivers is as good as its target, or as with `most` if that is worse."""
    counts = {pool: most[pool] for pool in plan.drivers} | {group.worker.name: group.max for group in plan.groups}
    best = play(plan, jobs, counts, end_s)
    reached = {pool: _worse(targets[pool], result) for pool, result in pool_results(best.runs, end_s).items()}
    by_price = sorted(plan.groups, key=lambda group: (-group.size.gpu, -group.size.cpu_m, group.worker.name))
    lowest = {group.worker.name: _widest(group, jobs) for group in by_price}
    for name in (*lowest, *sorted(plan.drivers)):
        low, high = lowest.get(name, 0), best.counts[name]
        while low < high:
            middle = (low + high) // 2
            candidate = play(plan, jobs, {**best.counts, name: middle}, end_s)
            results = pool_results(candidate.runs, end_s)
            if all(as_good(results[pool], target) for pool, target in reached.items()):
                best, high = candidate, middle
            else:
                low = middle + 1
    return best


def _worse(one: PoolResult, other: PoolResult) -> PoolResult:
    return replace(
        one,
        wait_p95_s=max(one.wait_p95_s, other.wait_p95_s),
        jobs_unfinished=max(one.jobs_unfinished, other.jobs_unfinished),
    )


def _widest(group: RayGroupPlan, jobs: Sequence[PooledJob]) -> int:
    """The fewest workers with which every gang can start."""
    return max((job.ray.members for job in jobs if job.ray and job.ray.group == group.worker.name), default=0)


def peak(
    plan: RayPlan, jobs: Sequence[PooledJob], most_at_once: Callable[[Sequence[PooledJob]], int], end_s: float
) -> RayFleet:
    """A cluster in which no job and no task waits for a worker, even above `max`."""
    joined = [replace(job, duration_s=job.duration_s + JOIN_S) for job in jobs]
    drivers = {pool: most_at_once([job for job in joined if job.pool == pool]) for pool in plan.drivers}
    return play(plan, jobs, drivers, end_s)


def share_of_worker(work: RayWork, group: RayGroupPlan) -> float:
    """The smallest share of a worker that a member takes: shares of any tasks add up to no more than the workers."""
    return work.size.gpu / group.size.gpu if group.size.gpu else work.size.cpu_m / group.size.cpu_m
