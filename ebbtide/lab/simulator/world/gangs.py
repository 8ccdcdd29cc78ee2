"""The pools of a stack that may run a job over several workers, and the largest number of workers.

A trace's job above `NODE_GPUS` GPUs ran on several nodes at once, so it becomes a *gang*: members that start together,
each with at most `NODE_GPUS` GPUs and no larger than a worker. A job up to `NODE_GPUS` ran on one node and is never
split.

On a real queue the members are entries enqueued together. A worker pops an entry and waits in the job for the others.
Meanwhile it is busy, and the controller counts each member as a job. Nothing is reserved, so half-started gangs could
hold each other's workers forever. Three rules prevent that:

- The members of a gang are adjacent in the queue, so only the gang at the head is incomplete, and workers with other
  jobs become free. A gang needs no more workers than members, so `max` workers suffice.
- The controller scales to jobs divided by `jobsPerWorker`, waiting members included. Above 1 it would stop below a
  complete gang, so such a pool runs none.
- Pools that share a node group would compete for its nodes, so only the pool with the largest workers runs gangs. Its
  workers may use the group's `max` nodes, less one for every pod that stays there (a service of that kind, another
  pool's `min`): such a pod blocks at most one node. Workers retained for the morning or for planned work leave by
  themselves.

On Ray a gang is a task whose members start together (a placement group), so no group of workers holds half a gang. The
other rules apply to a group as to a pool: it has a `max`, a `min` and a node group.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.ray.work import workload_of_group
from ebbtide.settings.capacity.placed import resident_pods
from ebbtide.settings.capacity.placement import copies, node_of, pod_size
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import RayGroup
from ebbtide.settings.sections.workers import WorkerSettings

NODE_GPUS = 8
"""The most GPUs of a machine, in the traces and in the instance types."""

_ROUNDING = 1e-6


def is_gang(job: Job) -> bool:
    return job.gpu > NODE_GPUS + _ROUNDING


def members_of(gpus: float, worker_gpus: int) -> int:
    """The members of a gang on workers with `worker_gpus` GPUs, at least 1."""
    return math.ceil(gpus / min(NODE_GPUS, worker_gpus) - _ROUNDING)


def largest_gangs(settings: StackSettings) -> Mapping[str, int]:
    """The most members of a gang, by pool or group of Ray workers; 0 if no gang is certain to start."""
    crowds = {
        name: _Crowd(pool, pool.longest_job, pool.jobs_per_worker == 1) for name, pool in settings.workers.items()
    }
    for cluster, ray in settings.ray.items():
        driven = [pool.longest_job for pool in settings.workers.values() if pool.ray == cluster]
        longest = max(driven, default=timedelta())
        groups = ray.groups.items()
        crowds |= {workload_of_group(cluster, key): _Crowd(group, longest, bool(driven)) for key, group in groups}
    largest = dict.fromkeys(sorted(crowds), 0)
    for group_name in sorted(settings.node_groups):
        sharing = {name: crowd for name, crowd in crowds.items() if crowd.workers.node_group == group_name}
        able = {name: crowd for name, crowd in sharing.items() if crowd.workers.gpu.count and crowd.gathers}
        if able:
            chosen = max(able, key=lambda name: _reach(able[name], name))
            largest[chosen] = _workers_at_once(settings, group_name, sharing, chosen)
    return MappingProxyType(largest)


@dataclass(frozen=True, slots=True)
class _Crowd:
    """A pool, or a group of Ray workers with the longest job of its drivers."""

    workers: WorkerSettings | RayGroup
    longest_job: timedelta
    gathers: bool  # its settings allow gangs


def _reach(crowd: _Crowd, name: str) -> tuple[int, float, int, str]:
    return (min(crowd.workers.gpu.count, NODE_GPUS), crowd.longest_job.total_seconds(), crowd.workers.max, name)


def _workers_at_once(settings: StackSettings, group_name: str, sharing: Mapping[str, _Crowd], chosen: str) -> int:
    group = settings.node_groups[group_name]
    services = sum(pod.initial for pod in resident_pods(settings) if group_name in pod.groups(settings.node_groups))
    others = sum(crowd.workers.min for name, crowd in sharing.items() if name != chosen)
    workers = sharing[chosen].workers
    nodes = max(0, group.max - services - others)
    return min(workers.max, nodes * copies(pod_size(workers), node_of(group)))
