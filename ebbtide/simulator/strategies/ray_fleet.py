"""Ray clusters of constant size: what a fixed fleet and a peak fleet keep of drivers and of Ray workers.

The same queues, drivers and groups as in a world, with workers that are all there from second 0 and never leave, so
nothing has to be placed on nodes. `smallest` starts with every pool and group at its `max` and takes from each as much
as still leaves no more jobs late than allowed, groups with GPUs first. That is a descent, not the exact search of
`fleet`: pools and groups wait for each other, and one after the other may stop above the least. A `min` is no bound
here, as that of a pool is none in `fleet`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from ebbtide.simulator.results import RayClusterResult, RayGroupResult
from ebbtide.simulator.timeline import Timeline
from ebbtide.simulator.world.pools import PooledJob
from ebbtide.simulator.world.ray.drives import JOIN_S, Drive, DriveEdges
from ebbtide.simulator.world.ray.lines import GroupMeter, Line
from ebbtide.simulator.world.ray.work import RayGroupPlan, RayPlan, RayWork, key_of_group
from ebbtide.simulator.world.workers import JobRun, PoolEdges, PoolQueue, WorkerTimes, runs_of

_AT_ONCE = WorkerTimes(pop_s=0.0, window_s=(0.0, 0.0))
_BEFORE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RayFleet:
    """One cluster with so many drivers by pool and workers by group, and what became of its jobs."""

    plan: RayPlan
    counts: Mapping[str, int]  # by pool, and by group as `workload_of_group` names it
    runs: tuple[JobRun, ...]
    result: RayClusterResult


class _Group:
    """A group whose workers are there, or come the instant that a task lacks one (`unlimited`)."""

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
    """`counts` leaves out what there is as much of as is needed: groups in which no task waits."""
    timeline = Timeline()
    groups = {it.worker.name: _Group(timeline, it, counts.get(it.worker.name)) for it in plan.groups}

    def drive(work: RayWork, kept: int, edges: DriveEdges) -> Drive:
        return Drive(timeline, groups[work.group].line, work, edges, lambda _: None, kept)

    edges = PoolEdges(changed=lambda: None, exited=lambda _: None, drive=drive)
    queues = {pool: PoolQueue(timeline, Random(0), edges, times=_AT_ONCE) for pool in plan.drivers}
    for pool, queue in queues.items():
        for number in range(counts[pool]):
            queue.started(str(number))
    runs = runs_of(jobs)
    for run in runs:
        timeline.at(run.submitted_at, _enqueue(queues[run.pool], run), _BEFORE)
    timeline.run_until(end_s)
    found: dict[str, RayGroupResult] = {
        key_of_group(plan.name, name): group.meter.result(end_s) for name, group in groups.items()
    }
    return RayFleet(
        plan=plan,
        counts={**counts, **{name: group.born for name, group in groups.items()}},
        runs=tuple(runs),
        result=RayClusterResult(head_hours=end_s / 3600, groups=found),
    )


def _enqueue(queue: PoolQueue, run: JobRun) -> Callable[[], None]:
    return lambda: queue.enqueue(run)


def smallest(
    plan: RayPlan, most: Mapping[str, int], jobs: Sequence[PooledJob], *, late_after_s: float, late: int, end_s: float
) -> RayFleet:
    """At most `late` jobs wait longer than `late_after_s`, or as many as with every pool at its `most`."""
    counts = {**most, **{group.worker.name: group.max for group in plan.groups}}
    best = play(plan, jobs, counts, end_s)
    allowed = max(late, late_of(best, late_after_s, end_s))
    by_price = sorted(plan.groups, key=lambda it: (-it.size.gpu, -it.size.cpu_m, it.worker.name))
    least = {group.worker.name: _widest(group, jobs) for group in by_price}
    for name in (*least, *sorted(plan.drivers)):
        low, high = least.get(name, 0), best.counts[name]
        while low < high:
            middle = (low + high) // 2
            tried = play(plan, jobs, {**best.counts, name: middle}, end_s)
            if late_of(tried, late_after_s, end_s) <= allowed:
                best, high = tried, middle
            else:
                low = middle + 1
    return best


def _widest(group: RayGroupPlan, jobs: Sequence[PooledJob]) -> int:
    """Workers without which some gang would never start."""
    return max((job.ray.members for job in jobs if job.ray and job.ray.group == group.worker.name), default=0)


def late_of(fleet: RayFleet, after_s: float, end_s: float) -> int:
    """Jobs that waited longer; one that never started, until the end."""
    starts = ((end_s if run.started_at is None else run.started_at, run.submitted_at) for run in fleet.runs)
    return sum(start - submitted > after_s for start, submitted in starts)


def peak(
    plan: RayPlan, jobs: Sequence[PooledJob], most_at_once: Callable[[Sequence[PooledJob]], int], end_s: float
) -> RayFleet:
    """No job and no task waits for a worker, however many a pool or group may have."""
    joined = [replace(job, duration_s=job.duration_s + JOIN_S) for job in jobs]
    drivers = {pool: most_at_once([job for job in joined if job.pool == pool]) for pool in plan.drivers}
    return play(plan, jobs, drivers, end_s)


def share_of_worker(work: RayWork, group: RayGroupPlan) -> float:
    """The least share of a worker that a member takes, so that shares of any tasks add up to no more than workers."""
    return work.size.gpu / group.size.gpu if group.size.gpu else work.size.cpu_m / group.size.cpu_m


def allowed_late(jobs: int, of_all: int, allowed: int, spoken_for: int) -> int:
    """A cluster's part of the jobs that may be late: by its share of all, less what the others need in any case."""
    return max(0, min(math.floor(allowed * jobs / of_all) if of_all else 0, allowed - spoken_for))
