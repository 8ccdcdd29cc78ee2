"""The assignment of a trace's jobs to pools: each goes to the pool that serves its queue.

A job that is too large or too long for that pool is left out, and so is one whose queue no pool serves. If no pool
serves any queue of the trace, as with the bundled traces, each job runs on the smallest pool that fits its size and its
length.

"Smallest" compares GPUs, then CPU, then memory, then the longest job of the pool. A job that no pool can run is counted
under the limit that rules out the last pool, in the order GPU, gang, CPU, memory, length: the customer would have to
raise that limit. A job occupies one worker; a fraction of a GPU occupies an entire GPU, as in the product.

A job above `NODE_GPUS` GPUs is a gang (`gangs`). It runs on the pool with the fewest members, then on the smallest;
each member has an even share of the request and occupies one worker.

A pool of drivers (`workers.X.ray`) runs the jobs that no other pool runs, and the trace's drivers. A driver occupies
one worker of the pool and requests its tasks from the smallest group of the Ray cluster that fits (`drivers`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from ebbtide.lab.simulator.results import Coverage
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.gangs import NODE_GPUS, is_gang, members_of
from ebbtide.lab.simulator.world.ray.drivers import DrivenGroup, driven_groups
from ebbtide.lab.simulator.world.ray.work import RayWork
from ebbtide.settings.sections.ray import RaySettings
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.text.counts import several

_ROUNDING = 1e-6


class Unfit(StrEnum):
    """The limit that keeps a job from every pool."""

    QUEUE = "no-pool-for-its-queue"
    RAY = "no-ray-cluster"
    GPU = "too-much-gpu"
    GANG = "too-many-gang-members"
    CPU = "too-much-cpu"
    MEMORY = "too-much-memory"
    LENGTH = "too-long"


@dataclass(frozen=True, slots=True)
class PooledJob:
    """A job that a pool runs, with the fields that the replay needs."""

    submitted_at: float
    duration_s: float
    pool: str
    members: int = 1  # workers at once
    ray: RayWork | None = None  # the tasks of a driver


@dataclass(frozen=True, slots=True)
class Assignment:
    """The jobs of the stack's pools in the order of submission, and counts of the jobs that no pool runs."""

    jobs: tuple[PooledJob, ...]
    unfit: Mapping[str, int]
    coverage: Coverage
    by_queue: bool  # False: no pool serves a queue of the trace
    queues_not_served: Mapping[str, int]  # jobs by queue, if jobs go by queue


def assign(
    jobs: Sequence[Job],
    workers: Mapping[str, WorkerSettings],
    largest_gangs: Mapping[str, int] | None = None,
    ray: Mapping[str, RaySettings] | None = None,
    queues: Collection[str] | None = None,
) -> Assignment:
    """Assign each job to a pool. Without jobs the coverage is 1.

    `largest_gangs`: the most members of a gang, by pool or group of Ray workers (see `gangs.largest_gangs`); without it
    no pool runs gangs. `queues`: the queues of the entire trace, if `jobs` are a part of it.
    """
    largest = largest_gangs or {}
    by_size = sorted(
        ((name, pool) for name, pool in workers.items() if pool.ray is None),
        key=lambda item: _size(item[0], item[1]),
    )
    drivers = driven_groups(workers, ray or {})
    of_queue = {
        queue: (
            [item for item in by_size if item[0] == pool],
            [group for group in drivers if group.pool == pool],
        )
        for pool, spec in workers.items()
        for queue in spec.source.queues
    }
    by_queue = not of_queue.keys().isdisjoint({job.queue for job in jobs} if queues is None else queues)
    pooled: list[PooledJob] = []
    unfit: Counter[str] = Counter()
    not_served: Counter[str] = Counter()
    cpu_hours = covered_hours = 0.0
    for job in jobs:
        cpu_hours += job.cpu * job.duration_s
        candidates = of_queue.get(job.queue) if by_queue else (by_size, drivers)
        if candidates is None:
            choice = Unfit.QUEUE
            not_served[job.queue] += 1
        else:
            choice = _choose_any(job, *candidates, largest)
        if isinstance(choice, Unfit):
            unfit[choice.value] += 1
        else:
            covered_hours += job.cpu * job.duration_s
            pooled.append(choice)
    return Assignment(
        jobs=tuple(pooled),
        unfit=MappingProxyType({reason.value: unfit[reason.value] for reason in Unfit if unfit[reason.value]}),
        coverage=Coverage(
            jobs=len(pooled) / len(jobs) if jobs else 1.0, cpu_hours=covered_hours / cpu_hours if cpu_hours else 1.0
        ),
        by_queue=by_queue,
        queues_not_served=MappingProxyType(dict(sorted(not_served.items()))),
    )


def queue_assumption(assignment: Assignment) -> str:
    """The assumption of a replay about the pool of a job."""
    shares = "one job per worker, first in, first out; a fraction of a GPU occupies an entire GPU."
    if assignment.by_queue:
        return (
            "A job runs on the pool that serves its queue, and is left out if it is too large or too long for it: "
            f"{shares}"
        )
    return f"A job runs on the smallest pool that fits its request and length, {shares}"


def gang_assumptions(assignment: Assignment) -> Iterator[str]:
    """The assumptions of a replay about jobs over several workers, if it has any."""
    gangs = [job for job in assignment.jobs if job.members > 1]
    left_out = assignment.unfit.get(Unfit.GANG.value, 0)
    if gangs:
        most = max(job.members for job in gangs)
        yield (
            f"{several(len(gangs), 'job')} above {NODE_GPUS} GPUs run as 2 to {most} members of at most {NODE_GPUS} "
            "GPUs, one worker each: a worker with a member waits, busy, until all members have a worker; then the job "
            "starts. The queue counts members, and losing one interrupts all."
        )
    if left_out:
        yield (
            f"Left out: {several(left_out, 'job')} above {NODE_GPUS} GPUs with more members than any pool can promise "
            "to start together (its max, its node group's max, one such pool per node group)."
        )


def _choose_any(
    job: Job,
    by_size: Sequence[tuple[str, WorkerSettings]],
    drivers: Sequence[DrivenGroup],
    largest: Mapping[str, int],
) -> PooledJob | Unfit:
    """Try pools, then drivers. If none runs the job, the drivers' limit counts only for drivers or without pools."""
    choice: PooledJob | Unfit = Unfit.RAY
    if not job.tasks:
        choice = _choose_for_gang(job, by_size, largest) if is_gang(job) else _choose(job, by_size)
    if isinstance(choice, PooledJob) or not drivers:
        return choice
    driven = _choose_for_driver(job, drivers, largest)
    return choice if by_size and not job.tasks and isinstance(driven, Unfit) else driven


def _choose_for_driver(job: Job, groups: Sequence[DrivenGroup], largest: Mapping[str, int]) -> PooledJob | Unfit:
    tests: tuple[tuple[Unfit, Callable[[DrivenGroup], bool]], ...] = (
        (Unfit.GPU, lambda group: bool(group.members(job))),
        (Unfit.GANG, lambda group: group.members(job) <= max(1, largest.get(group.name, 0))),
        (Unfit.CPU, lambda group: group.takes_cpu_of(job)),
        (Unfit.MEMORY, lambda group: group.size_for(job).memory_mib <= group.size.memory_mib),
        (Unfit.LENGTH, lambda group: job.duration_s <= group.longest_job_s),
    )
    fitting = list(groups)
    for reason, fits in tests:
        fitting = [group for group in fitting if fits(group)]
        if not fitting:
            return reason
    chosen = min(fitting, key=lambda group: group.members(job))  # ties go to the first, which is the smallest
    return PooledJob(job.submitted_at, job.duration_s, chosen.pool, ray=chosen.work(job))


def _size(name: str, pool: WorkerSettings) -> tuple[int, int, int, float, str]:
    return (pool.gpu.count, pool.cpu, pool.memory, pool.longest_job.total_seconds(), name)


def _choose(job: Job, by_size: Sequence[tuple[str, WorkerSettings]]) -> PooledJob | Unfit:
    tests: tuple[tuple[Unfit, Callable[[WorkerSettings], bool]], ...] = (
        (Unfit.GPU, lambda pool: job.gpu <= pool.gpu.count + _ROUNDING),
        (Unfit.CPU, lambda pool: job.cpu * 1000 <= pool.cpu + _ROUNDING),
        (Unfit.MEMORY, lambda pool: job.memory_gib * 1024 <= pool.memory + _ROUNDING),
        (Unfit.LENGTH, lambda pool: job.duration_s <= pool.longest_job.total_seconds()),
    )
    fitting = list(by_size)
    for reason, fits in tests:
        fitting = [(name, pool) for name, pool in fitting if fits(pool)]
        if not fitting:
            return reason
    return PooledJob(job.submitted_at, job.duration_s, fitting[0][0])


def _choose_for_gang(
    job: Job, by_size: Sequence[tuple[str, WorkerSettings]], largest: Mapping[str, int]
) -> PooledJob | Unfit:
    """Choose as for any job, with the request divided by the members."""
    with_gpu = sorted(
        ((members_of(job.gpu, pool.gpu.count), name, pool) for name, pool in by_size if pool.gpu.count),
        key=lambda candidate: candidate[0],
    )
    tests: tuple[tuple[Unfit, Callable[[int, str, WorkerSettings], bool]], ...] = (
        (Unfit.GANG, lambda members, name, _: members <= largest.get(name, 0)),
        (Unfit.CPU, lambda members, _, pool: job.cpu * 1000 / members <= pool.cpu + _ROUNDING),
        (Unfit.MEMORY, lambda members, _, pool: job.memory_gib * 1024 / members <= pool.memory + _ROUNDING),
        (Unfit.LENGTH, lambda _, __, pool: job.duration_s <= pool.longest_job.total_seconds()),
    )
    if not with_gpu:
        return Unfit.GPU
    fitting = with_gpu
    for reason, fits in tests:
        fitting = [candidate for candidate in fitting if fits(*candidate)]
        if not fitting:
            return reason
    members, name, _ = fitting[0]
    return PooledJob(job.submitted_at, job.duration_s, name, members)
