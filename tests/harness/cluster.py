"""A modelled cluster: Deployments, their ReplicaSets' choice of victims, pods, and budgets; every change is dated.

Dated, because caches lag: what a controller sees is what was true some time ago, Deployments and pods apart. The
ReplicaSet controller has a cache of its own. Among victims of equal cost a busy pod goes first: how many pods share a
node ranks before their age, and nobody may rely on luck.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from controllers.ports import (
    Mark,
    ObservedBudget,
    ObservedPod,
    ObservedPool,
    Outcome,
    PodName,
    PodPhase,
    PoolName,
    Scale,
    SetBudget,
)
from tests.harness.agenda import Agenda
from tests.harness.queues import Job
from tests.harness.words import Write

_T = TypeVar("_T")


class History(Generic[_T]):
    """A value over time."""

    def __init__(self, at: float, value: _T) -> None:
        self._times = [at]
        self._values = [value]

    def put(self, at: float, value: _T) -> None:
        if self._times[-1] == at:
            self._values[-1] = value
        else:
            self._times.append(at)
            self._values.append(value)

    def at(self, instant: float) -> _T:
        if self._times[-1] <= instant:
            return self._values[-1]
        return self._values[max(0, bisect_right(self._times, instant) - 1)]


@dataclass(slots=True, eq=False)
class Pod:
    name: PodName
    pool: PoolName
    revision: int
    marks: History[bool]
    running_at: float = -1.0  # its container runs; negative: not yet
    unreachable: bool = False  # its node is silent
    silent_since: float = -1e9  # when that was last told
    ready_order: int = 0
    registered: bool = False  # its worker has told Redis of itself
    leaving: bool = False
    gone: bool = False
    safe: bool = True  # told to stop, its worker ends the job first
    late_mark_at: float = -1e9
    job: Job | None = None
    seen: ObservedPod | None = None

    @property
    def phase(self) -> PodPhase:
        if self.leaving:
            return PodPhase.TERMINATING
        if self.unreachable:
            return PodPhase.UNREACHABLE
        return PodPhase.PENDING if self.running_at < 0 else PodPhase.RUNNING

    def as_seen(self) -> ObservedPod:
        now = (self.phase, self.marks.at(float("inf")))
        if self.seen is None or (self.seen.phase, self.seen.marked) != now:
            self.seen = ObservedPod(name=self.name, phase=now[0], marked=now[1])
        return self.seen


@dataclass(slots=True, eq=False)
class Deployment:
    name: PoolName
    safe_stop: bool
    objects: History[ObservedPool | None]  # without pods
    pod_lists: History[tuple[ObservedPod, ...]]
    exists: bool = True
    replicas: int = 0
    version: int = 1
    generation: int = 1
    observed: int = 1
    revision: int = 1
    rolling: bool = False
    quota: int | None = None  # no more pods than this are created
    pods: dict[PodName, Pod] = field(default_factory=dict[PodName, Pod])
    lowered_by: Write | None = None

    def live(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if not pod.leaving]

    @property
    def refused(self) -> str:
        return "exceeded quota: pods" if self.quota is not None and len(self.live()) < self.replicas else ""

    @property
    def settled(self) -> bool:
        return self.observed == self.generation and not self.rolling


@dataclass(slots=True, eq=False)
class Budget:
    name: str
    fixed: bool
    seen: History[ObservedBudget]
    value: int = 0
    version: int = 1
    settled: bool = True


@dataclass(slots=True)
class Listeners:
    """Whom the cluster tells; each may be replaced."""

    started: Callable[[Pod], None]
    stopping: Callable[[Pod], None]
    lowering: Callable[[Deployment, Write], None]
    victim: Callable[[Pod, Write | None], None]
    changed: Callable[[], None]


class Cluster:
    def __init__(self, agenda: Agenda, random: Random) -> None:
        self._agenda = agenda
        self._random = random
        self._born = 0
        self._versions = 1
        self.pools: dict[PoolName, Deployment] = {}
        self.budgets: dict[str, Budget] = {}
        self.tell: Listeners
        self.slow_start = 0.0  # seconds more until a new pod runs
        self.kubelet_lag = 0.0  # of the ReplicaSet controller's cache of pods

    def add_pool(self, name: PoolName, *, safe_stop: bool) -> None:
        seen = ObservedPool(replicas=0, existing=0, pods=(), version="1")
        self.pools[name] = Deployment(name, safe_stop, History(0.0, seen), History(0.0, ()))

    def add_budget(self, name: str, *, fixed: bool) -> None:
        self.budgets[name] = Budget(name, fixed, History(0.0, ObservedBudget(max_unavailable=0, version="1")))

    # --- writes ---------------------------------------------------------------------------------------------------

    def carry_out(self, write: Write) -> Outcome:
        match write.action:
            case Scale() as scale:
                return self._scale(write, scale)
            case Mark() as mark:
                return self._mark(mark, late=write.late)
            case SetBudget() as change:
                return self.set_budget(change)

    def _scale(self, write: Write, action: Scale) -> Outcome:
        pool = self.pools[action.pool]
        if not pool.exists:
            return Outcome.REFUSED
        if action.version is not None and action.version != str(pool.version):
            return Outcome.STALE
        if action.replicas == pool.replicas:
            return Outcome.DONE
        if action.replicas < pool.replicas:
            self.tell.lowering(pool, write)
            pool.lowered_by = write
        self._respecify(pool, action.replicas)
        return Outcome.DONE

    def _mark(self, action: Mark, *, late: bool) -> Outcome:
        pool = self.pools[action.pool]
        pod = pool.pods.get(action.pod)
        if pod is None:
            return Outcome.REFUSED
        pod.marks.put(self._agenda.now, action.idle)
        if late:  # whichever pod it spares or exposes, another one goes or stays in its place
            for each in pool.pods.values():
                each.late_mark_at = self._agenda.now
        self._pods_changed(pool)
        return Outcome.DONE

    def set_budget(self, action: SetBudget) -> Outcome:
        budget = self.budgets[action.budget]
        if action.version is not None and action.version != str(budget.version):
            return Outcome.STALE
        if action.max_unavailable != budget.value:
            budget.value, budget.settled = action.max_unavailable, False
            self._budget_changed(budget)
            value = budget.value
            self._agenda.after(self._random.uniform(0.02, 1.5), lambda: self._settle(budget, value))
        return Outcome.DONE

    def _settle(self, budget: Budget, value: int) -> None:
        if budget.value == value and not budget.settled:
            budget.settled = True
            self._budget_changed(budget)

    def _budget_changed(self, budget: Budget) -> None:
        self._versions += 1
        budget.version = self._versions
        seen = ObservedBudget(max_unavailable=budget.value, settled=budget.settled, version=str(budget.version))
        budget.seen.put(self._agenda.now, seen)
        self.tell.changed()

    def _respecify(self, pool: Deployment, replicas: int) -> None:
        pool.replicas = replicas
        pool.generation += 1
        self.object_changed(pool)
        self._agenda.after(self._random.uniform(0.01, 0.3), lambda: self._sync(pool))

    def object_changed(self, pool: Deployment) -> None:
        self._versions += 1
        pool.version = self._versions
        seen = ObservedPool(
            replicas=pool.replicas,
            existing=len(pool.live()),
            pods=(),
            settled=pool.settled,
            refused=pool.refused,
            version=str(pool.version),
        )
        pool.objects.put(self._agenda.now, seen if pool.exists else None)
        self.tell.changed()

    def _pods_changed(self, pool: Deployment) -> None:
        pool.pod_lists.put(self._agenda.now, tuple([pod.as_seen() for pod in pool.pods.values()]))
        self.tell.changed()

    # --- the ReplicaSet controller and the kubelet ----------------------------------------------------------------

    def _sync(self, pool: Deployment) -> None:
        if not pool.exists:
            return
        live = pool.live()
        wanted = pool.replicas if pool.quota is None else min(pool.replicas, pool.quota)
        for _ in range(wanted - len(live)):
            self._create(pool)
        as_of = self._agenda.now - self.kubelet_lag
        for pod in sorted(live, key=lambda pod: self._rank(pod, as_of))[: max(0, len(live) - pool.replicas)]:
            self.tell.victim(pod, pool.lowered_by)
            self.retire(pod)
        pool.observed = pool.generation
        self.object_changed(pool)

    def _rank(self, pod: Pod, as_of: float) -> tuple[bool, bool, bool, bool, int]:
        """Not running first, then not ready, then the lowest deletion cost, a busy one, and the newest.

        A busy one, since how many share a node ranks before age, and nobody may rely on luck.
        """
        runs = 0 <= pod.running_at <= as_of
        return (runs, not pod.unreachable, not pod.marks.at(as_of), pod.job is None, -pod.ready_order)

    def _create(self, pool: Deployment) -> None:
        self._born += 1
        pod = Pod(f"{pool.name}-{self._born}", pool.name, pool.revision, History(self._agenda.now, value=False))
        pod.safe = pool.safe_stop
        pool.pods[pod.name] = pod
        self._pods_changed(pool)
        # Mostly a node is there; now and then one has to boot.
        boot = self._random.uniform(5, 20) if self._random.random() < 0.15 else 0.0
        self._agenda.after(boot + self.slow_start + self._random.uniform(0.2, 3.0), lambda: self._run(pool, pod))

    def _run(self, pool: Deployment, pod: Pod) -> None:
        if pod.gone or pod.leaving:
            return
        self._born += 1
        pod.ready_order = self._born
        pod.running_at = self._agenda.now
        self._pods_changed(pool)
        self.object_changed(pool)  # its status counts the pod as ready
        self.tell.started(pod)

    def retire(self, pod: Pod) -> None:
        """Told to stop; `remove` follows when its worker has ended."""
        pod.leaving = True
        if pod.running_at < 0:
            self.remove(pod)
        else:
            self._pods_changed(self.pools[pod.pool])
            if not pod.unreachable:
                self.tell.stopping(pod)

    def remove(self, pod: Pod) -> None:
        pool = self.pools[pod.pool]
        if pool.pods.pop(pod.name, None) is None:
            return
        pod.gone = True
        self._pods_changed(pool)
        if pool.exists:
            self.object_changed(pool)
            self._agenda.after(self._random.uniform(0.01, 0.3), lambda: self._sync(pool))

    def set_quota(self, pool: Deployment, pods: int | None) -> None:
        pool.quota = pods
        self._agenda.after(self._random.uniform(0.01, 0.3), lambda: self._sync(pool))

    def set_unreachable(self, pod: Pod, *, unreachable: bool) -> None:
        """The node controller tells of a silent node; a pod that was to leave hears of it when the node is back."""
        if pod.gone or pod.unreachable == unreachable:
            return
        pod.unreachable = unreachable
        pod.silent_since = self._agenda.now if unreachable else pod.silent_since
        self._pods_changed(self.pools[pod.pool])
        self.object_changed(self.pools[pod.pool])
        if pod.leaving and not unreachable:
            self.tell.stopping(pod)

    # --- what others do -------------------------------------------------------------------------------------------

    def roll_out(self, pool: Deployment) -> None:
        """A new pod template: the old pods are replaced one by one."""
        if not pool.exists or pool.rolling:
            return
        pool.revision += 1
        pool.generation += 1
        pool.rolling = True
        self.object_changed(pool)
        self._roll(pool)

    def _roll(self, pool: Deployment) -> None:
        if not pool.exists:
            pool.rolling = False
            return
        old = [pod for pod in pool.live() if pod.revision != pool.revision]
        if old:
            self.retire(self._random.choice(old))
            self._agenda.after(0.05, lambda: self._sync(pool))
            self._agenda.after(self._random.uniform(0.5, 3.0), lambda: self._roll(pool))
        else:
            pool.rolling = False
            pool.observed = pool.generation
            self.object_changed(pool)

    def delete(self, pool: Deployment, *, orphan: bool) -> None:
        """The object goes; its pods too, unless it was renamed and they were left behind."""
        if not pool.exists:
            return
        pool.exists, pool.rolling, pool.lowered_by = False, False, None
        self.object_changed(pool)
        for pod in pool.live():
            if not orphan:
                self.retire(pod)

    def recreate(self, pool: Deployment) -> None:
        """Back under the old name: it adopts what pods are left."""
        if pool.exists:
            return
        pool.exists = True
        self._respecify(pool, len(pool.live()))
