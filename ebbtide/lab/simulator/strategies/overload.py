"""Demand above what a stack can run: waits grow until the end of the replay, so no saving is stated.

A pool is overloaded if its jobs, each started when it is submitted, would occupy more workers on average over the
replayed time than the stack can run: the pool's `max`, or what the `max` of its node group holds if that is fewer. The
same holds for a group of Ray workers and its tasks. A queue that is long at times but drains is no overload.

The pool needs at least that average, and enough workers that 95 % of its jobs, first in, first out, wait no longer than
a day.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ebbtide.lab.simulator.results import Overload, PoolResult
from ebbtide.lab.simulator.setup import ReplaySetup
from ebbtide.lab.simulator.strategies.fleet import fewest_workers, most_at_once
from ebbtide.lab.simulator.strategies.ray_fleet import share_of_worker
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.lab.simulator.world.ray.work import RayPlan, workload_of_group
from ebbtide.settings.capacity.placement import copies, node_of, pod_size
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import RayGroup
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.text.durations import DAY_S

_A_DAY = PoolResult(jobs=0, wait_p95_s=DAY_S, wait_p99_s=math.inf, jobs_unfinished=sys.maxsize)


def overloads_of(setup: ReplaySetup, ray: Sequence[RayPlan]) -> Iterator[Overload]:
    """Return the overloaded pools, then the overloaded groups of Ray workers."""
    settings = setup.settings
    groups = {group.worker.name: group for cluster in ray for group in cluster.groups}
    jobs: defaultdict[str, list[PooledJob]] = defaultdict(list)
    worker_s: defaultdict[str, float] = defaultdict(float)
    for job in setup.jobs:
        runs_s = min(setup.end_s, job.submitted_at + job.duration_s) - job.submitted_at
        jobs[job.pool].append(job)
        worker_s[job.pool] += job.members * runs_s
        if job.ray is not None:
            share = share_of_worker(job.ray, groups[job.ray.group])
            worker_s[job.ray.group] += job.ray.at_once * job.ray.members * share * runs_s
    workers: dict[str, WorkerSettings | RayGroup] = {**settings.workers}
    for cluster, spec in settings.ray.items():
        workers |= {workload_of_group(cluster, key): group for key, group in spec.groups.items()}
    for name, pods in workers.items():
        on_average, held = worker_s[name] / setup.end_s, _held(settings, pods)
        if on_average > min(pods.max, held):
            of_pool = jobs.get(name, [])
            for_a_day = fewest_workers(of_pool, most_at_once(of_pool), _A_DAY, setup.end_s) if of_pool else 0
            yield Overload(
                name=name,
                max=min(pods.max, held),
                node_group=" + ".join(_groups(settings, pods)) if held < pods.max else None,
                needed=max(math.ceil(on_average), for_a_day),
            )


def _held(settings: StackSettings, pods: WorkerSettings | RayGroup) -> int:
    """Return the workers that all nodes of the group hold, and those of its fallback."""
    groups = [settings.node_groups[name] for name in _groups(settings, pods)]
    return sum(group.max * copies(pod_size(pods), node_of(group)) for group in groups)


def _groups(settings: StackSettings, pods: WorkerSettings | RayGroup) -> tuple[str, ...]:
    return settings.groups_of(pods) if isinstance(pods, WorkerSettings) else (pods.node_group,)
