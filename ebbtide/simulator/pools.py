"""Which pool a job of a trace goes to: the smallest one of the stack that fits its size and its length.

"Smallest" compares GPUs, then CPU, then memory, then the longest job a pool allows. A job that no pool can run is
counted by the first thing that rules out the last pool, in the order GPU, CPU, memory, length: the customer reads it as
"what would have to grow". One job occupies one worker; a fraction of a GPU takes a whole one, as in the product.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from ebbtide.settings.workers import WorkerSettings
from ebbtide.simulator.results import Coverage
from ebbtide.simulator.traces import Job

_ROUNDING = 1e-6


class Unfit(StrEnum):
    """Why no pool runs a job."""

    GPU = "too-much-gpu"
    CPU = "too-much-cpu"
    MEMORY = "too-much-memory"
    LENGTH = "too-long"


@dataclass(frozen=True, slots=True)
class PooledJob:
    """A job that a pool runs, reduced to what the replay needs."""

    submitted_at: float
    duration_s: float
    pool: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """The jobs of the stack's pools, in the order of submission, and what was left out."""

    jobs: tuple[PooledJob, ...]
    unfit: Mapping[str, int]
    coverage: Coverage


def assign(jobs: Sequence[Job], workers: Mapping[str, WorkerSettings]) -> Assignment:
    """Give each job its pool. With no jobs at all nothing is left out, so the coverage is whole."""
    by_size = sorted(workers.items(), key=lambda item: _size(item[0], item[1]))
    pooled: list[PooledJob] = []
    unfit: Counter[str] = Counter()
    cpu_hours = covered_hours = 0.0
    for job in jobs:
        cpu_hours += job.cpu * job.duration_s
        choice = _choose(job, by_size)
        if isinstance(choice, Unfit):
            unfit[choice.value] += 1
        else:
            covered_hours += job.cpu * job.duration_s
            pooled.append(PooledJob(job.submitted_at, job.duration_s, choice))
    return Assignment(
        jobs=tuple(pooled),
        unfit=MappingProxyType({reason.value: unfit[reason.value] for reason in Unfit if unfit[reason.value]}),
        coverage=Coverage(
            jobs=len(pooled) / len(jobs) if jobs else 1.0, cpu_hours=covered_hours / cpu_hours if cpu_hours else 1.0
        ),
    )


def _size(name: str, pool: WorkerSettings) -> tuple[int, int, int, float, str]:
    return (pool.gpu, pool.cpu, pool.memory, pool.longest_job.total_seconds(), name)


def _choose(job: Job, by_size: Sequence[tuple[str, WorkerSettings]]) -> str | Unfit:
    tests: tuple[tuple[Unfit, Callable[[WorkerSettings], bool]], ...] = (
        (Unfit.GPU, lambda pool: job.gpu <= pool.gpu + _ROUNDING),
        (Unfit.CPU, lambda pool: job.cpu * 1000 <= pool.cpu + _ROUNDING),
        (Unfit.MEMORY, lambda pool: job.memory_gib * 1024 <= pool.memory + _ROUNDING),
        (Unfit.LENGTH, lambda pool: job.duration_s <= pool.longest_job.total_seconds()),
    )
    left = list(by_size)
    for reason, fits in tests:
        left = [(name, pool) for name, pool in left if fits(pool)]
        if not left:
            return reason
    return left[0][0]
