"""The world of one strategy in virtual time: queues fed by a trace, workers on a modelled cluster, and the view of it.

The controller never sees the world as it is. A change of the cluster is published to its cache after `cluster_lag_s`,
as it was when it happened; the queues are read `read_s` before the turn that uses the reading. So a decision acts on a
world that may have moved on, as the real one does, and a job popped in between is at stake.

Each change is an event after which the controller reconciles: at once for more work, for any other event after up to
`quiet_event_s`, with more of its kind. Reconciles are most of what a replay costs, and one that can only lower may be
as late as production would be with a lost event. Nothing is lost by it: every reading and every cache is as new then as
it would be otherwise.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import TypeVar

from controllers.ports import Known, ObservedBudget, ObservedPod, ObservedPool, PodPhase
from ebbtide.prices import GroupRate
from ebbtide.settings.process_documents import RESYNC
from ebbtide.simulator.billing import Rates
from ebbtide.simulator.cluster import ClusterModel, Pod, StopReason
from ebbtide.simulator.cluster.model import Accidents, AutoscalerFlags, GroupModel, WorkloadModel
from ebbtide.simulator.results import SeriesRecorder
from ebbtide.simulator.timeline import Timeline
from ebbtide.simulator.world.ray.clusters import RayClusters
from ebbtide.simulator.world.ray.work import RayPlan
from ebbtide.simulator.world.rollouts import Rollout, Rollouts
from ebbtide.simulator.world.runs import Runs
from ebbtide.simulator.world.saves import Saves
from ebbtide.simulator.world.schedules import JobPlan
from ebbtide.simulator.world.workers import JobRun, PoolEdges, PoolQueue, WorkerTimes

_T = TypeVar("_T")

AFTER_THE_MODEL = 9
"""Priority of what looks at the cluster: everything else of the same instant has happened."""
BEFORE_THE_MODEL = -1
"""Priority of what comes from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """What a strategy builds: groups with their prices, workloads with their replicas, one Deployment per pool, and
    the pods of jobs.
    """

    groups: tuple[GroupModel, ...]
    money: Rates
    workloads: tuple[tuple[WorkloadModel, int], ...]
    workers: Mapping[str, WorkloadModel]
    jobs: tuple[WorkloadModel, ...] = ()  # what runs to its end, no queue's
    saves: Mapping[str, Saves] = field(default_factory=dict[str, Saves])  # of pools whose workers can pause
    ray: tuple[RayPlan, ...] = ()

    @property
    def pods(self) -> tuple[WorkloadModel, ...]:
        """Of every kind."""
        of_ray = (pod for cluster in self.ray for pod in cluster.pods)
        return (*(workload for workload, _ in self.workloads), *self.workers.values(), *self.jobs, *of_ray)

    @property
    def rates(self) -> Mapping[str, GroupRate]:
        """As the stack file assumes."""
        return self.money.assumed


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSetup:
    """How a world runs. Lags in seconds."""

    start: datetime  # where second 0 lies
    end_s: float
    seed: int = 0
    flags: AutoscalerFlags = field(default_factory=AutoscalerFlags)
    safe_stop: bool = True
    times: WorkerTimes = field(default_factory=WorkerTimes)
    demand_lag_s: float = 0.005  # from new work to the turn that knows of it: event, coalescing and one read
    read_s: float = 0.002  # of that the reading: what happens in it is not known yet when the turn decides
    quiet_event_s: float = RESYNC.total_seconds()  # from any other news to the turn: as late as a resync
    cluster_lag_s: float = 0.1  # watch event to cache
    budget_lag_s: float = 0.5  # a budget's status after its spec
    rollouts: tuple[Rollout, ...] = ()
    jobs: tuple[JobPlan, ...] = ()
    accidents: Accidents | None = None
    open_spans: tuple[tuple[float, float], ...] = ()  # business hours, for what sleeps outside them


@dataclass(slots=True)
class Views:
    """What was published last."""

    demand: dict[str, Known] = field(default_factory=dict[str, Known])
    pools: dict[str, ObservedPool] = field(default_factory=dict[str, ObservedPool])
    budgets: dict[str, ObservedBudget] = field(default_factory=dict[str, ObservedBudget])


class World:
    """Everything that exists, for one strategy. `notify_at` is when the controller is told to look again."""

    def __init__(self, plan: ClusterPlan, jobs: Sequence[JobRun], setup: WorldSetup) -> None:
        self.setup = setup
        self.timeline = Timeline()
        self.views = Views()
        self.notify_at = math.inf
        self._to_come = sorted(jobs, key=lambda job: job.submitted_at)[::-1]  # the next one last
        self.recorder = SeriesRecorder(tuple(group.name for group in plan.groups))
        self._versions: dict[str, int] = {}
        self._budget_versions: Counter[str] = Counter()
        self._budgets = dict.fromkeys((*(workload.name for workload, _ in plan.workloads), *plan.saves), 0)
        self._rng = Random(setup.seed)
        self._queues = {name: self._queue(name, plan.saves.get(name)) for name in plan.workers}
        self._unread = dict.fromkeys(self._queues)  # a set that keeps its order
        self._read_holds_until = -math.inf
        self._pods_seen = {name: dict[str, ObservedPod]() for name in plan.workers}
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
        )
        self._rollouts = Rollouts(self.timeline, self.cluster, setup.rollouts, cost_lag_s=setup.cluster_lag_s)
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

    # --- what the controller's edges call ---------------------------------------------------------------------------

    def read_queues(self) -> float:
        """Take the readings of the next turn; returns when it may begin."""
        for name in list(self._unread):
            reading = self.views.demand[name] = self._queues[name].reading()
            if not reading.waiting:  # else its head grows older
                del self._unread[name]
        self._read_holds_until = self.timeline.now + self.setup.read_s
        return self._read_holds_until

    def readings(self) -> Mapping[str, Known]:
        """What the queues hold: as read just before, or else as it is now."""
        if self.timeline.now > self._read_holds_until:
            self.read_queues()
        return self.views.demand

    def settle(self) -> None:
        """The replay is over: what runs is counted as far as it came."""
        for queue in self._queues.values():
            queue.settle()

    def version(self, name: str) -> str:
        """The resourceVersion of a pool's Deployment, as the API server has it now."""
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

    # --- what the modelled cluster tells ----------------------------------------------------------------------------

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

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:  # noqa: ARG002 - a worker stops alike for both
        if pod.workload in self.runs:
            self.runs.pod_stopping(pod)
        if pod.workload in self.ray:
            return self.ray.pod_stopping(pod)
        if pod.workload not in self._queues:
            return 1.0  # what handles SIGTERM
        self._changed(pod.workload)
        return self._queues[pod.workload].stop(pod.name)

    def pod_gone(self, pod: Pod, killed: bool) -> None:  # noqa: ARG002, FBT001 - the job a pod still holds tells as much
        if pod.workload in self.runs:
            self.runs.pod_stopping(pod)  # of one whose machine was cut off: nobody asked it
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
                drive=lambda work, kept, edges: self.ray.drive(name, work, kept, edges),
            ),
            self.setup.safe_stop,
            self.setup.times,
            saves,
        )

    def _await_jobs(self) -> None:
        if self._to_come:
            self.timeline.at(max(self._to_come[-1].submitted_at, self.timeline.now), self._arrive, BEFORE_THE_MODEL)

    def _arrive(self) -> None:
        """One event for all jobs of an instant, and none for those that are far away."""
        now = self.timeline.now
        while self._to_come and self._to_come[-1].submitted_at <= now:
            job = self._to_come.pop()
            self._queues[job.pool].enqueue(job)
        self._notify(self.setup.demand_lag_s)
        self._await_jobs()

    def _notify(self, within_s: float) -> None:
        self.notify_at = min(self.notify_at, self.timeline.now + within_s)

    def _exited(self, pool: str, name: str) -> None:
        pod = self.cluster.pod(pool, name)
        if pod is not None:
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
        seen = self._pods_seen[pool]
        for name, pod in self.cluster.changed_pods(pool).items():
            if pod is None:
                seen.pop(name, None)
            else:
                seen[name] = ObservedPod(name=name, phase=_phase(pod), marked=pod.deletion_cost < 0)
        pods, replicas = tuple(seen.values()), self.cluster.replicas(pool)
        existing = sum([pod.phase is not PodPhase.TERMINATING for pod in pods])
        return ObservedPool(replicas=replicas, existing=existing, pods=pods, version=self.version(pool))

    def _publish(self, lag_s: float, view: dict[str, _T], name: str, seen: _T) -> None:
        def arrive() -> None:
            view[name] = seen
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
