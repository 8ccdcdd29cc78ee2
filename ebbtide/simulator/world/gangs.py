"""Which pool of a stack may run a job over several workers, and over how many at most.

A trace's job above `NODE_GPUS` GPUs ran on several nodes at once, so it becomes a *gang*: members of at most that many
GPUs, or of the pool's size, that start together. A job up to `NODE_GPUS` ran on one node and is never split.

On a real queue the members are entries put there in one go. A worker pops an entry and waits in the job for the
others, so it is busy all that time, and the controller sees as many jobs as there are members. Nobody reserves
anything. So half-started gangs could hold each other's workers for ever, and what follows is what rules that out:

- Within a pool the members of one gang lie together in the queue, so only the gang at the head is incomplete; the
  workers that other jobs hold come free. It needs its members and no more, so `max` workers suffice.
- The controller grows to jobs divided by `jobsPerWorker`, members that wait for each other included: above 1 it would
  stop short of a whole gang. So such a pool runs none.
- Pools that share a node group would compete for its nodes: only one of them runs gangs, the one with the largest
  workers. The nodes that its workers may take are the group's `max`, less one for every pod that stays there anyway (a
  service of that kind, another pool's `min`): wherever such a pod lies, it spoils one node at most. Workers that are
  kept for the morning or for planned work leave by themselves.

On Ray a gang is a task whose members start together (a placement group), so nothing is held by halves within a group of
workers. A group counts as a pool does for the rest: it has a `max`, a `min` and a node group to share.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from ebbtide.prices import instance_type, usable
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import copies, offered, pod_size, takes
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.ray import RayGroup
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.simulator.trace.traces import Job
from ebbtide.simulator.world.ray.work import workload_of_group

NODE_GPUS = 8
"""The most GPUs of one machine, in the traces as in the instance types."""

_ROUNDING = 1e-6


def is_gang(job: Job) -> bool:
    return job.gpu > NODE_GPUS + _ROUNDING


def members_of(gpus: float, of_each: int) -> int:
    """Over how many workers with so many GPUs, at least one, a gang runs."""
    return math.ceil(gpus / min(NODE_GPUS, of_each) - _ROUNDING)


def largest_gangs(settings: StackSettings) -> Mapping[str, int]:
    """The most members of a gang, by pool or group of Ray workers; 0 where none can be promised to start."""
    crowds = {
        name: _Crowd(pool, pool.longest_job, pool.jobs_per_worker == 1) for name, pool in settings.workers.items()
    }
    for cluster, ray in settings.ray.items():
        driven = [pool.longest_job for pool in settings.workers.values() if pool.ray == cluster]
        longest = max(driven, default=timedelta())
        groups = ray.groups.items()
        crowds |= {workload_of_group(cluster, key): _Crowd(group, longest, bool(driven)) for key, group in groups}
    largest = dict.fromkeys(sorted(crowds), 0)
    for group_name, group in sorted(settings.node_groups.items()):
        here = {name: crowd for name, crowd in crowds.items() if crowd.workers.node_group == group_name}
        able = {name: crowd for name, crowd in here.items() if crowd.workers.gpu.count and crowd.gathers}
        if able:
            chosen = max(able, key=lambda name: _reach(able[name], name))
            largest[chosen] = _workers_at_once(settings, group, here, chosen)
    return MappingProxyType(largest)


@dataclass(frozen=True, slots=True)
class _Crowd:
    """A pool, or a group of Ray workers with the longest job of its drivers."""

    workers: WorkerSettings | RayGroup
    longest_job: timedelta
    gathers: bool  # whether it may run gangs, as far as its own settings go


def _reach(crowd: _Crowd, name: str) -> tuple[int, float, int, str]:
    return (min(crowd.workers.gpu.count, NODE_GPUS), crowd.longest_job.total_seconds(), crowd.workers.max, name)


def _workers_at_once(settings: StackSettings, group: NodeGroupSettings, here: Mapping[str, _Crowd], chosen: str) -> int:
    services = sum(spec.replicas for spec in settings.all_workloads.values() if takes(group, spec))
    others = sum(crowd.workers.min for name, crowd in here.items() if name != chosen)
    workers = here[chosen].workers
    nodes = max(0, group.max - services - others)
    node = offered(usable(instance_type(group.instance_types[0])), group.reserved)
    return min(workers.max, nodes * copies(pod_size(workers), node))
