"""The world of one strategy in virtual time: queues filled from a trace, workers on a modelled cluster, and the
controller's view of them.

The controller never sees the current state. A change of the cluster reaches its cache after `cluster_lag_s`; the queues
are read `read_s` before the turn that uses the reading. So a decision may act on outdated state, as in production, and
a job popped in between is at risk.

After each change the controller reconciles: at once for more work, after up to `quiet_event_s` for any other event,
together with more events. Reconciles are most of the cost of a replay, so one that can only scale down is as late as
production would be after a lost event. Its readings and caches are still current.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from random import Random
from typing import TypeVar

from controllers.ports import Known, ObservedBudget, ObservedPod, ObservedPool, PodPhase
from ebbtide.lab.simulator.billing import GroupRates
from ebbtide.lab.simulator.cluster import ClusterModel, Pod, StopReason
from ebbtide.lab.simulator.cluster.karpenter import NodePoolModel
from ebbtide.lab.simulator.cluster.model import Accidents, AutoscalerFlags, GroupModel, WorkloadModel
from ebbtide.lab.simulator.results import SeriesRecorder
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.world.ray.clusters import RayClusters
from ebbtide.lab.simulator.world.ray.work import RayPlan
from ebbtide.lab.simulator.world.rollouts import Rollout, Rollouts
from ebbtide.lab.simulator.world.runs import Runs
from ebbtide.lab.simulator.world.saves import Saves
from ebbtide.lab.simulator.world.schedules import JobPlan
from ebbtide.lab.simulator.world.sleep import Asleep
from ebbtide.lab.simulator.world.workers import JobRun, PoolEdges, PoolQueue, WorkerTimes
from ebbtide.prices import GroupRate
from ebbtide.settings.capacity.process_documents import RESYNC

_T = TypeVar("_T")

AFTER_THE_MODEL = 9
"""The priority of events that read the cluster: all other events of the instant have run."""
BEFORE_THE_MODEL = -1
"""The priority of events from outside."""
_AFTER_ROLLOUTS = 1
"""The priority of sleep: a rollout that ends with business hours has written its last replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """The cluster of a strategy: groups with their prices, workloads with their replicas, one Deployment per pool, and
    the pods of jobs.
    """

    groups: tuple[GroupModel, ...]
    money: GroupRates
    workloads: tuple[tuple[WorkloadModel, int], ...]
    workers: Mapping[str, WorkloadModel]
    jobs: tuple[WorkloadModel, ...] = ()  # jobs and cron jobs of the stack file
    saves: Mapping[str, Saves] = field(default_factory=dict[str, Saves])  # by pool with checkpoints
    ray: tuple[RayPlan, ...] = ()
    node_pools: tuple[NodePoolModel, ...] = ()  # of Karpenter
    job_pods: bool = False  # a worker ends with its first job

    @property
    def shapes(self) -> tuple[GroupModel, ...]:
        """The nodes of groups, and of NodePools by type."""
        return (*self.groups, *(kind.shape for pool in self.node_pools for kind in pool.types))

    @property
    def pods(self) -> tuple[WorkloadModel, ...]:
        """The pods of every kind."""
        of_ray = (pod for cluster in self.ray for pod in cluster.pods)
        return (*(workload for workload, _ in self.workloads), *self.workers.values(), *self.jobs, *of_ray)

    @property
    def rates(self) -> Mapping[str, GroupRate]:
        """The rates under the pricing assumption of the stack file."""
        return self.money.assumed


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSetup:
    """The inputs of a world. Lags in seconds."""

    start: datetime  # second 0
    end_s: float
    seed: int = 0
    flags: AutoscalerFlags = field(default_factory=AutoscalerFlags)
    safe_stop: bool = True
    times: WorkerTimes = field(default_factory=WorkerTimes)
    demand_lag_s: float = 0.005  # from new work to the turn that reads it: event, coalescing and one read
    read_s: float = 0.002  # of which the reading takes this part: the turn does not see changes in it
    quiet_event_s: float = RESYNC.total_seconds()  # from any other event to the turn: as late as a resync
    cluster_lag_s: float = 0.1  # watch event to cache
    budget_lag_s: float = 0.5  # a budget's status after its spec
    rollouts: tuple[Rollout, ...] = ()
    jobs: tuple[JobPlan, ...] = ()
    asleep: tuple[Asleep, ...] = ()
    accidents: Accidents | None = None
    open_spans: tuple[tuple[float, float], ...] = ()  # business hours, for Ray clusters that sleep outside them


@dataclass(slots=True)
class Views:
    """The caches as last published."""

    demand: dict[str, Known] = field(default_factory=dict[str, Known])
    pools: dict[str, ObservedPool] = field(default_factory=dict[str, ObservedPool])
    budgets: dict[str, ObservedBudget] = field(default_factory=dict[str, ObservedBudget])


class World:
    """The world of one strategy. `notify_at`: the time of the next notification of the controller."""

    def __init__(self, plan: ClusterPlan, jobs: Sequence[JobRun], setup: WorldSetup) -> None:
        self.setup = setup
        self.timeline = Timeline()
        self.views = Views()
        self.notify_at = math.inf
        self._arriving = sorted(jobs, key=lambda job: job.submitted_at)[::-1]  # the next one is last
        self.recorder = SeriesRecorder(tuple(shape.name for shape in plan.shapes))
        self._versions: dict[str, int] = {}
        self._budget_versions: Counter[str] = Counter()
        self._budgets = dict.fromkeys((*(workload.name for workload, _ in plan.workloads), *plan.saves), 0)
        self._rng = Random(setup.seed)
        self._job_pods = plan.job_pods
        self._queues = {name: self._queue(name, plan.saves.get(name)) for name in plan.workers}
        self._unread = dict.fromkeys(self._queues)  # a set that keeps its order
        self._read_holds_until = -math.inf
        self._observed_pods = {name: dict[str, ObservedPod]() for name in plan.workers}
        self._looking: set[str] = set()
        self._sampling = False
        self.cluster = ClusterModel(
            self.timeline,
            plan.groups,
            setup.flags,
            seed=setup.seed,
            listener=self,
            cache_lag_s=setup.cluster_lag_s / 2,
            accidents=setup.accidents,
            node_pools=plan.node_pools,
        )
        self._rollouts = Rollouts(self.timeline, self.cluster, setup.rollouts, cost_lag_s=setup.cluster_lag_s)
        for nap in setup.asleep:  # planned before any pod, so that what sleeps at second 0 never has one
            self.timeline.at(nap.begin, partial(self.cluster.scale, nap.workload, nap.pods), _AFTER_ROLLOUTS)
            self.timeline.at(nap.end, partial(self.cluster.scale, nap.workload, nap.awake), _AFTER_ROLLOUTS)
        for workload, replicas in plan.workloads:
            self.cluster.deploy(workload, replicas)
        for name, worker in plan.workers.items():
            self.cluster.deploy(worker, 0)
            self.views.pools[name] = self._observed_pool(name)
        for name in self._budgets:
            self.views.budgets[name] = ObservedBudget(max_unavailable=0, version=self.budget_version(name))
        for job in plan.jobs:
            self.cluster.deploy(job, 0)
        self.runs = Runs(self.timeline, self.cluster, setup.jobs)
        self.ray = RayClusters(self.timeline, self.cluster, plan.ray)
        self.ray.begin(setup.open_spans)
        self._await_jobs()
        self._sample_soon()

    # --- called by the controller's edges ---------------------------------------------------------------------------

    def read_queues(self) -> float:
        """Read the queues for the next turn, and return the time at which it may begin."""
        for name in list(self._unread):
            reading = self.views.demand[name] = self._queues[name].reading()
            if not reading.waiting:  # otherwise the age of its head changes
                del self._unread[name]
        self._read_holds_until = self.timeline.now + self.setup.read_s
        return self._read_holds_until

    def readings(self) -> Mapping[str, Known]:
        """The last readings if they are current, or else new ones."""
        if self.timeline.now > self._read_holds_until:
            self.read_queues()
        return self.views.demand

    def settle(self) -> None:
        """The replay is over: count the work of running jobs up to now."""
        for queue in self._queues.values():
            queue.settle()

    def version(self, name: str) -> str:
        """The current resourceVersion of a pool's Deployment."""
        return str(self._versions.get(name, 0))

    def budget_version(self, name: str) -> str:
        return str(self._budget_versions[name])

    def scale(self, pool: str, replicas: int) -> None:
        self.cluster.scale(pool, replicas)
        self.ray.pool_scaled(pool)
        self._changed(pool)

    def annotate(self, pool: str, pod: str, cost: int) -> None:
        self.cluster.annotate(pod, cost)
        self._look_soon(pool)

    def budget(self, name: str) -> int:
        return self._budgets[name]

    def set_budget(self, name: str, max_unavailable: int) -> None:
        self._budgets[name] = max_unavailable
        self.cluster.set_budget(name, max_unavailable)
        self._budget_versions[name] += 1
        version = self.budget_version(name)
        lag, status = self.setup.cluster_lag_s, self.setup.budget_lag_s
        written = ObservedBudget(max_unavailable=max_unavailable, settled=False, version=version)
        self._publish(lag, self.views.budgets, name, written)
        self._publish(lag + status, self.views.budgets, name, replace(written, settled=True))

    # --- called by the modelled cluster ----------------------------------------------------------------------------

    def pod_running(self, pod: Pod) -> None:
        if pod.workload in self._queues:
            self._queues[pod.workload].started(pod.name)
            self._changed(pod.workload)
        elif pod.workload in self.runs:
            self.runs.pod_running(pod)
        elif pod.workload in self.ray:
            self.ray.pod_running(pod)
        else:
            self._rollouts.pod_running(pod.workload)

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:  # noqa: ARG002 - all reasons stop a worker alike
        if pod.workload in self.runs:
            self.runs.pod_stopping(pod)
        if pod.workload in self.ray:
            return self.ray.pod_stopping(pod)
        if pod.workload not in self._queues:
            return 1.0  # a service that handles SIGTERM
        self._changed(pod.workload)
        return self._queues[pod.workload].stop(pod.name)

    def pod_gone(self, pod: Pod, killed: bool) -> None:  # noqa: ARG002, FBT001 - a pod that still has a job was killed
        if pod.workload in self.runs:
            self.runs.pod_stopping(pod)  # a pod whose machine failed received no SIGTERM
        if pod.workload in self.ray:
            self.ray.pod_gone(pod)
        if pod.workload in self._queues:
            self._queues[pod.workload].gone(pod.name)
            self._changed(pod.workload)

    def nodes_changed(self) -> None:
        self._sample_soon()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _queue(self, name: str, saves: Saves | None) -> PoolQueue:
        return PoolQueue(
            self.timeline,
            Random(self._rng.random()),
            PoolEdges(
                changed=lambda: self._demand_changed(name),
                exited=lambda pod: self._exited(name, pod),
                drive=lambda work, tasks_done, edges: self.ray.drive(name, work, tasks_done, edges),
            ),
            self.setup.safe_stop,
            self.setup.times,
            saves,
            one_job=self._job_pods,
        )

    def _await_jobs(self) -> None:
        if self._arriving:
            self.timeline.at(max(self._arriving[-1].submitted_at, self.timeline.now), self._arrive, BEFORE_THE_MODEL)

    def _arrive(self) -> None:
        """One event for all jobs of an instant; later jobs are not planned yet."""
        now = self.timeline.now
        while self._arriving and self._arriving[-1].submitted_at <= now:
            job = self._arriving.pop()
            self._queues[job.pool].enqueue(job)
        self._notify(self.setup.demand_lag_s)
        self._await_jobs()

    def _notify(self, within_s: float) -> None:
        self.notify_at = min(self.notify_at, self.timeline.now + within_s)

    def _exited(self, pool: str, name: str) -> None:
        pod = self.cluster.pod(pool, name)
        if pod is not None and self._job_pods and not pod.stopping:
            self.cluster.complete(pod)
        elif pod is not None:
            self.cluster.pod_exited(pod)

    def _demand_changed(self, pool: str) -> None:
        self._unread[pool] = None
        self._notify(self.setup.quiet_event_s)
        self._sample_soon()

    def _changed(self, pool: str) -> None:
        """The Deployment or its pods changed, and with them its resourceVersion."""
        self._versions[pool] = self._versions.get(pool, 0) + 1
        self._look_soon(pool)

    def _look_soon(self, pool: str) -> None:
        if pool not in self._looking:
            self._looking.add(pool)
            self.timeline.after(0.0, lambda: self._look(pool), AFTER_THE_MODEL)

    def _look(self, pool: str) -> None:
        self._looking.discard(pool)
        self._publish(self.setup.cluster_lag_s, self.views.pools, pool, self._observed_pool(pool))

    def _observed_pool(self, pool: str) -> ObservedPool:
        observed = self._observed_pods[pool]
        for name, pod in self.cluster.changed_pods(pool).items():
            if pod is None:
                observed.pop(name, None)
            else:
                observed[name] = ObservedPod(name=name, phase=_phase(pod), marked=pod.deletion_cost < 0)
        pods, replicas = tuple(observed.values()), self.cluster.replicas(pool)
        existing = sum([pod.phase is not PodPhase.TERMINATING for pod in pods])
        return ObservedPool(replicas=replicas, existing=existing, pods=pods, version=self.version(pool))

    def _publish(self, lag_s: float, view: dict[str, _T], name: str, value: _T) -> None:
        def arrive() -> None:
            view[name] = value
            self._notify(self.setup.quiet_event_s)

        self.timeline.after(lag_s, arrive)

    def _sample_soon(self) -> None:
        if not self._sampling:
            self._sampling = True
            self.timeline.after(0.0, self._sample, AFTER_THE_MODEL)

    def _sample(self) -> None:
        self._sampling = False
        queues = self._queues.values()
        self.recorder.sample(
            self.timeline.now,
            self.cluster.node_counts(),
            sum(queue.waiting for queue in queues),
            sum(queue.running for queue in queues),
        )


def _phase(pod: Pod) -> PodPhase:
    if pod.stopping:
        return PodPhase.TERMINATING
    return PodPhase.PENDING if pod.running_since is None else PodPhase.RUNNING
