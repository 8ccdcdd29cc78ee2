"""In-memory ports, shared by tests. They refuse states that the real things could never be in.

`FakeCluster` holds what is true; `observe()` shows what was true `lag` ago, pods and objects each with a lag of their
own, as caches do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from controllers.ports import (
    Action,
    BudgetName,
    Known,
    Mark,
    ObservedBudget,
    ObservedCluster,
    ObservedPod,
    ObservedPool,
    Outcome,
    PodName,
    PodPhase,
    PoolName,
    Reading,
    ReconcileReport,
    Scale,
    SetBudget,
    Unknown,
)
from ebbtide.vocabulary.holds import Hold


class ImpossibleState(AssertionError):
    """The test asked for something that the real thing could never be in."""


class ManualClock:
    """Time that moves when told to, and only forward."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ImpossibleState("a clock without a zone")
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> None:
        if by < timedelta():
            raise ImpossibleState(f"time that goes back by {-by}")
        self._now += by


class ScriptedWaker:
    """Runs one step of the script per wait, after moving the clock by at most the step's time; stops after the last."""

    def __init__(self, clock: ManualClock, script: Iterable[tuple[timedelta, Callable[[], None]]]) -> None:
        self._clock = clock
        self._script = iter(script)
        self.waits: list[timedelta] = []

    def wait(self, timeout: timedelta) -> bool:
        self.waits.append(timeout)
        step = next(self._script, None)
        if step is None:
            return False
        after, change = step
        self._clock.advance(min(after, timeout))
        change()
        return True


@dataclass
class ListJournal:
    """Keeps what it is told."""

    actions: list[tuple[datetime, Action, Outcome]] = field(default_factory=list[tuple[datetime, Action, Outcome]])
    notes: list[tuple[datetime, str, str]] = field(default_factory=list[tuple[datetime, str, str]])
    report: ReconcileReport | None = None

    def reconciled(self, report: ReconcileReport) -> None:
        self.report = report

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None:
        self.actions.append((at, action, outcome))

    def noted(self, at: datetime, subject: str, message: str) -> None:
        self.notes.append((at, subject, message))


@dataclass
class FakeQueue:
    """A job queue and the workers at it: a job is waiting, popped by a worker, or run by one."""

    waiting: int = 0
    popped: set[PodName] = field(default_factory=set[PodName])
    running: set[PodName] = field(default_factory=set[PodName])
    workers: set[PodName] = field(default_factory=set[PodName])  # registered ones
    stale: int = 0
    due_soon: int = 0
    head_waited: timedelta | None = None
    names_idle: bool = True  # False: only that nothing at all is in flight can be told
    seen_before: bool = True
    warning: str = ""

    def enqueue(self, jobs: int = 1) -> None:
        self.waiting += jobs

    def join(self, pod: PodName) -> None:
        self.workers.add(pod)

    def leave(self, pod: PodName) -> None:
        """The worker is gone; a job that it held is lost, as after a kill."""
        self.workers.discard(pod)
        self.popped.discard(pod)
        self.running.discard(pod)

    def pop(self, pod: PodName) -> None:
        if self.waiting == 0:
            raise ImpossibleState("a job popped from an empty queue")
        if pod not in self.workers or self.is_busy(pod):
            raise ImpossibleState(f"a job popped by {pod}, which is no free worker")
        self.waiting -= 1
        self.popped.add(pod)

    def start(self, pod: PodName) -> None:
        if pod not in self.popped:
            raise ImpossibleState(f"a job started by {pod}, which popped none")
        self.popped.remove(pod)
        self.running.add(pod)

    def finish(self, pod: PodName) -> None:
        if pod not in self.running:
            raise ImpossibleState(f"a job finished by {pod}, which runs none")
        self.running.remove(pod)

    def is_busy(self, pod: PodName) -> bool:
        return pod in self.popped or pod in self.running

    def snapshot(self) -> Known:
        """As Redis shows it: a worker still says idle while its job is popped and not yet registered."""
        return Known(
            waiting=self.waiting,
            in_transit=len(self.popped),
            running=len(self.running),
            stale=self.stale,
            due_soon=self.due_soon,
            oldest_wait=self.head_waited,
            idle=frozenset(self.workers - self.running) if self.names_idle else frozenset(),
            names_idle=self.names_idle,
            seen_before=self.seen_before,
            warning=self.warning,
        )


class FakeDemand:
    """One queue per pool; `override` replaces the reading of a pool, for the times when it cannot be had."""

    def __init__(self, queues: Mapping[PoolName, FakeQueue]) -> None:
        self.queues = dict(queues)
        self.override: dict[PoolName, Reading] = {}

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        return {
            pool: self.override[pool]
            if pool in self.override
            else self.queues[pool].snapshot()
            if pool in self.queues
            else Unknown("no such pool")
            for pool in pools
        }


@dataclass
class _Pool:
    replicas: int
    pods: dict[PodName, ObservedPod] = field(default_factory=dict[PodName, ObservedPod])
    started: dict[PodName, int] = field(default_factory=dict[PodName, int])  # order of becoming ready
    version: int = 1
    settled: bool = True
    quota: int | None = None  # no more pods than this are created
    complaint: str = ""  # what the cluster says when it creates no more
    conflicting_manager: str = ""
    hold: Hold | None = None

    @property
    def live(self) -> list[ObservedPod]:
        return [pod for pod in self.pods.values() if pod.phase is not PodPhase.TERMINATING]


class FakeCluster:
    """Pools and budgets; removes pods as a ReplicaSet does: pending first, then marked, then the others by bad luck."""

    def __init__(self, clock: ManualClock, *, is_busy: Callable[[PodName], bool] = lambda _: False) -> None:
        self._clock = clock
        self._is_busy = is_busy
        self._pools: dict[PoolName, _Pool] = {}
        self._budgets: dict[BudgetName, ObservedBudget] = {}
        self._born = 0
        self._history: list[tuple[datetime, ObservedCluster]] = []
        self.pods_lag = self.objects_lag = timedelta()
        self.pods_stand_still_at: datetime | None = None  # their watch is silent since then
        self.status_lags = False  # a budget that is written stays unsettled until `settle_budget`
        self.down: str | None = None
        self.unknown: dict[str, str] = {}  # pools and budgets of namespaces that cannot be read
        self.refuse: Outcome | None = None  # what every action answers instead of being done
        self.fenced = False  # another process acts by now: nothing is sent
        self.removed_busy: list[PodName] = []
        self.removed: list[PodName] = []  # pods that a lowering took, the pending ones too
        self.writes: list[Action] = []

    # --- setting the scene ----------------------------------------------------------------------------------------

    def add_pool(self, name: PoolName, replicas: int = 0) -> None:
        self._pools[name] = _Pool(0)
        self._resize(name, replicas)

    def add_budget(self, name: BudgetName, max_unavailable: int = 0, *, settled: bool = True) -> None:
        self._budgets[name] = ObservedBudget(max_unavailable=max_unavailable, settled=settled, version="1")
        self._remember()

    def set_settled(self, name: PoolName, *, settled: bool) -> None:
        self._pools[name].settled = settled
        self._changed(name)

    def set_quota(self, name: PoolName, pods: int | None, why: str = "exceeded quota: pods") -> None:
        """No more than `pods` pods are created, those that exist stay; None lets the ReplicaSet go on."""
        pool = self._pools[name]
        pool.quota, pool.complaint = pods, why
        self._resize(name, pool.replicas)

    def set_conflicting_manager(self, name: PoolName, who: str = "") -> None:
        self._pools[name].conflicting_manager = who
        self._changed(name)

    def hold_pool(self, name: PoolName, hold: Hold | None) -> None:
        self._pools[name].hold = hold
        self._changed(name)

    def hold_budget(self, name: BudgetName, hold: Hold | None) -> None:
        self._replace_budget(name, hold=hold)

    def settle_budget(self, name: BudgetName) -> None:
        """Its status catches up."""
        self._replace_budget(name, settled=True)

    def start(self, name: PoolName, pod: PodName) -> None:
        pool = self._pools[name]
        if pod not in pool.pods or pool.pods[pod].phase is not PodPhase.PENDING:
            raise ImpossibleState(f"pod {pod} started while not pending")
        self._born += 1
        pool.started[pod] = self._born
        pool.pods[pod] = replace(pool.pods[pod], phase=PodPhase.RUNNING)
        self._changed(name)

    def start_all(self, name: PoolName) -> list[PodName]:
        pending = self.pods(name, PodPhase.PENDING)
        for pod in pending:
            self.start(name, pod)
        return pending

    def end(self, name: PoolName, pod: PodName) -> None:
        """A terminating pod is gone."""
        pool = self._pools[name]
        if pod not in pool.pods or pool.pods[pod].phase is not PodPhase.TERMINATING:
            raise ImpossibleState(f"pod {pod} ended while not terminating")
        del pool.pods[pod]
        self._changed(name)

    def set_phase(self, name: PoolName, pod: PodName, phase: PodPhase) -> None:
        """It fails to start, its node falls silent, or either is over."""
        pool = self._pools[name]
        if pod not in pool.pods or PodPhase.TERMINATING in (phase, pool.pods[pod].phase):
            raise ImpossibleState(f"pod {pod} made {phase}")
        pool.pods[pod] = replace(pool.pods[pod], phase=phase)
        self._changed(name)

    def lose(self, name: PoolName, pod: PodName) -> None:
        """The pod vanishes with its node; the ReplicaSet replaces it."""
        pool = self._pools[name]
        if pod not in pool.pods:
            raise ImpossibleState(f"pod {pod} lost while not there")
        del pool.pods[pod]
        self._resize(name, pool.replicas)

    # --- what is true ---------------------------------------------------------------------------------------------

    def replicas(self, name: PoolName) -> int:
        return self._pools[name].replicas

    def pods(self, name: PoolName, phase: PodPhase) -> list[PodName]:
        return [pod.name for pod in self._pools[name].pods.values() if pod.phase is phase]

    def marked(self, name: PoolName) -> set[PodName]:
        return {pod.name for pod in self._pools[name].pods.values() if pod.marked}

    def budget(self, name: BudgetName) -> int:
        return self._budgets[name].max_unavailable

    # --- the port -------------------------------------------------------------------------------------------------

    def observe(self) -> ObservedCluster | Unknown:
        if self.down is not None:
            return Unknown(self.down)
        still, now = self.pods_stand_still_at, self._clock.now()
        objects, pods = self._as_of(self.objects_lag), self._as_of(self.pods_lag if still is None else now - still)
        if pods is objects and not self.unknown:
            return ObservedCluster(objects.pools, objects.budgets, self.unknown)
        pools = {
            name: replace(pool, pods=pods.pools[name].pods if name in pods.pools else ())
            for name, pool in objects.pools.items()
            if name not in self.unknown
        }
        budgets = {name: budget for name, budget in objects.budgets.items() if name not in self.unknown}
        return ObservedCluster(pools, budgets, self.unknown)

    def act(self, action: Action) -> Outcome:
        if self.fenced:
            return Outcome.FENCED
        if self.refuse is not None:
            return self.refuse
        outcome = self._carry_out(action)
        if outcome is Outcome.DONE:
            self.writes.append(action)
        return outcome

    def _carry_out(self, action: Action) -> Outcome:
        match action:
            case Scale():
                return self._scale(action)
            case Mark():
                return self._mark(action)
            case SetBudget():
                return self._set_budget(action)

    def _scale(self, action: Scale) -> Outcome:
        pool = self._pools.get(action.pool)
        if pool is None:
            return Outcome.REFUSED
        if action.replicas < 0:
            raise ImpossibleState(f"{action.replicas} replicas")
        if action.version is not None and action.version != str(pool.version):
            return Outcome.STALE
        self._resize(action.pool, action.replicas)
        return Outcome.DONE

    def _mark(self, action: Mark) -> Outcome:
        pool = self._pools.get(action.pool)
        if pool is None or action.pod not in pool.pods:
            return Outcome.REFUSED
        pool.pods[action.pod] = replace(pool.pods[action.pod], marked=action.idle)
        self._remember()  # a pod's annotation does not change its Deployment
        return Outcome.DONE

    def _set_budget(self, action: SetBudget) -> Outcome:
        seen = self._budgets.get(action.budget)
        if seen is None:
            return Outcome.REFUSED
        if action.version is not None and action.version != seen.version:
            return Outcome.STALE
        settled = not self.status_lags and seen.settled
        self._replace_budget(action.budget, max_unavailable=action.max_unavailable, settled=settled)
        return Outcome.DONE

    def _replace_budget(self, name: BudgetName, **changes: Any) -> None:
        seen = self._budgets[name]
        self._budgets[name] = replace(seen, version=str(int(seen.version) + 1), **changes)
        self._remember()

    # --- the ReplicaSet -------------------------------------------------------------------------------------------

    def _resize(self, name: PoolName, replicas: int) -> None:
        pool = self._pools[name]
        pool.replicas = replicas
        live = pool.live
        wanted = replicas if pool.quota is None else min(replicas, max(pool.quota, len(live)))
        for _ in range(wanted - len(live)):
            self._born += 1
            pod = f"{name}-{self._born}"
            pool.pods[pod] = ObservedPod(name=pod, phase=PodPhase.PENDING)
        victims = sorted(live, key=lambda pod: self._rank(pool, pod))[: max(0, len(live) - replicas)]
        for pod in victims:
            self.removed.append(pod.name)
            if pod.phase is PodPhase.PENDING:
                del pool.pods[pod.name]
                continue
            if self._is_busy(pod.name):
                self.removed_busy.append(pod.name)
            pool.pods[pod.name] = replace(pod, phase=PodPhase.TERMINATING)
        self._changed(name)

    def _rank(self, pool: _Pool, pod: ObservedPod) -> tuple[bool, bool, bool, bool, int]:
        free = not self._is_busy(pod.name)  # among equals a busy pod goes first: nobody may rely on luck
        pending, ready = pod.phase is PodPhase.PENDING, pod.phase is PodPhase.RUNNING
        return (not pending, ready, not pod.marked, free, -pool.started.get(pod.name, 0))

    def _changed(self, name: PoolName) -> None:
        self._pools[name].version += 1
        self._remember()

    # --- the caches -----------------------------------------------------------------------------------------------

    def _remember(self) -> None:
        pools = {
            name: ObservedPool(
                replicas=pool.replicas,
                existing=len(pool.live),
                pods=tuple(pool.pods.values()),
                settled=pool.settled,
                version=str(pool.version),
                refused=pool.complaint if len(pool.live) < pool.replicas else "",
                conflicting_manager=pool.conflicting_manager,
                hold=pool.hold,
            )
            for name, pool in self._pools.items()
        }
        self._history.append((self._clock.now(), ObservedCluster(pools, dict(self._budgets))))

    def _as_of(self, lag: timedelta) -> ObservedCluster:
        then = self._clock.now() - lag
        for at, seen in reversed(self._history):
            if at <= then:
                return seen
        return self._history[0][1] if self._history else ObservedCluster()
