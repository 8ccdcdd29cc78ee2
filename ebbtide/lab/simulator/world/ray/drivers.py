"""The tasks of a trace's job on a Ray cluster, if the job runs on a pool of drivers.

The row's CPU, memory, GPUs and duration apply to each task. `tasks` is the number of tasks, which the driver requests
at once. Without it the row is one task or, above `NODE_GPUS` GPUs, one gang with members of at most the group's GPUs. A
task that takes longer than the cluster's `longestTask` is requested in equal parts, one after the other, as by a driver
that saves in between.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.gangs import is_gang, members_of
from ebbtide.lab.simulator.world.ray.work import RayWork, Size, workload_of_group
from ebbtide.settings.capacity.placement import pod_size
from ebbtide.settings.sections.ray import RayGroup, RaySettings
from ebbtide.settings.sections.workers import WorkerSettings

LEAST_CPU_M = 1000
"""The CPU of a task that requests neither CPU nor GPU, and would fit anywhere: Ray's default."""
_ROUNDING = 1e-6


def size_of(group: RayGroup) -> Size:
    """The resources of a worker for tasks: the cores of its container, and the memory of the pod."""
    return Size(cpu_m=group.cpu, memory_mib=pod_size(group).memory, gpu=group.gpu.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrivenGroup:
    """A group of Ray workers behind a pool of drivers."""

    pool: str
    longest_job_s: float
    longest_task_s: float
    name: str
    size: Size

    def members(self, job: Job) -> int:
        """The workers of one task of the job; 0 if the group has too few GPUs."""
        if is_gang(job) and self.size.gpu:
            return members_of(job.gpu, self.size.gpu)
        return 1 if job.gpu <= self.size.gpu + _ROUNDING else 0

    def size_for(self, job: Job) -> Size:
        """The size of one member, rounded up to entire GPUs as in other pools."""
        members = self.members(job)
        gpu = math.ceil(job.gpu / members - _ROUNDING)
        cpu_m = math.ceil(job.cpu * 1000 / members - _ROUNDING)
        return Size(
            cpu_m=cpu_m if cpu_m or gpu else LEAST_CPU_M,
            memory_mib=math.ceil(job.memory_gib * 1024 / members - _ROUNDING),
            gpu=gpu,
        )

    def takes_cpu_of(self, job: Job) -> bool:
        """True if the job's CPU fits. Workers with GPUs run only tasks with GPUs, as Ray prefers."""
        return bool(job.gpu or not self.size.gpu) and self.size_for(job).cpu_m <= self.size.cpu_m

    def work(self, job: Job) -> RayWork:
        parts = max(1, math.ceil(job.duration_s / self.longest_task_s - _ROUNDING))
        at_once = max(1, job.tasks)
        return RayWork(
            group=self.name,
            size=self.size_for(job),
            task_s=job.duration_s / parts,
            tasks=at_once * parts,
            at_once=at_once,
            members=self.members(job),
        )


def driven_groups(workers: Mapping[str, WorkerSettings], ray: Mapping[str, RaySettings]) -> Sequence[DrivenGroup]:
    """The smallest group first: by GPUs, CPU, memory; then the pool with the shorter jobs."""
    groups = [
        DrivenGroup(
            pool=pool,
            longest_job_s=driver.longest_job.total_seconds(),
            longest_task_s=settings.longest_task.total_seconds(),
            name=workload_of_group(cluster, key),
            size=size_of(group),
        )
        for cluster, settings in ray.items()
        for pool, driver in workers.items()
        if driver.ray == cluster
        for key, group in settings.groups.items()
    ]
    return sorted(groups, key=_order)


def _order(group: DrivenGroup) -> tuple[int, int, int, float, str, str]:
    size = group.size
    return (size.gpu, size.cpu_m, size.memory_mib, group.longest_job_s, group.name, group.pool)
