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
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

from ebbtide.prices import instance_type, usable
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import copies, offered, pod_size, takes
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.simulator.trace.traces import Job

NODE_GPUS = 8
"""The most GPUs of one machine, in the traces as in the instance types."""

_ROUNDING = 1e-6


def is_gang(job: Job) -> bool:
    return job.gpu > NODE_GPUS + _ROUNDING


def members_of(job: Job, pool: WorkerSettings) -> int:
    """Over how many workers of the pool the job runs; the pool has GPUs if the job is a gang."""
    return math.ceil(job.gpu / min(NODE_GPUS, pool.gpu.count) - _ROUNDING) if is_gang(job) else 1


def largest_gangs(settings: StackSettings) -> Mapping[str, int]:
    """The most members of a gang, by pool; 0 where none can be promised to start."""
    largest = dict.fromkeys(sorted(settings.workers), 0)
    for group_name, group in sorted(settings.node_groups.items()):
        here = {name: pool for name, pool in settings.workers.items() if pool.node_group == group_name}
        able = {name: pool for name, pool in here.items() if pool.gpu.count and pool.jobs_per_worker == 1}
        if able:
            chosen = max(able, key=lambda name: _reach(able[name], name))
            largest[chosen] = _workers_at_once(settings, group, here, chosen)
    return MappingProxyType(largest)


def _reach(pool: WorkerSettings, name: str) -> tuple[int, float, int, str]:
    return (min(pool.gpu.count, NODE_GPUS), pool.longest_job.total_seconds(), pool.max, name)


def _workers_at_once(
    settings: StackSettings, group: NodeGroupSettings, here: Mapping[str, WorkerSettings], chosen: str
) -> int:
    services = sum(spec.replicas for spec in settings.workloads.values() if takes(group, spec))
    others = sum(pool.min for name, pool in here.items() if name != chosen)
    nodes = max(0, group.max - services - others)
    node = offered(usable(instance_type(group.instance_types[0])), group.reserved)
    return min(here[chosen].max, nodes * copies(pod_size(here[chosen]), node))
