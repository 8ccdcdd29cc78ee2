"""The controllers' inputs and outputs as values and protocols; adapters and the simulator implement them.

A *reading* is what is known about one pool's queues; `ObservedCluster` is the state of the cluster; an *action* is one
change with a reason; an *outcome* is the result of an action.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias

from controllers.doubt import TRUST, Doubt
from ebbtide.vocabulary.holds import Hold

PoolName: TypeAlias = str
PodName: TypeAlias = str
BudgetName: TypeAlias = str
NO_LONGER = "no longer: "  # prefix of the note that a condition has ended


# --- demand -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One atomic snapshot of a pool's queues. Counts are jobs."""

    waiting: int
    in_transit: int  # popped, not yet registered as running
    running: int
    stale: int = 0  # dead workers' entries and overdue jobs: only a worker without a job clears them
    due_soon: int = 0  # scheduled jobs that are due within the look-ahead, and not overdue
    oldest_wait: timedelta | None = None
    idle: frozenset[PodName] = frozenset()  # pods whose workers all report idle; every other pod counts as busy
    names_idle: bool = True  # False: the source does not distinguish pods, and only shows whether anything is in flight
    seen_before: bool = True  # False: no worker and no job ever used these queues; is the name right?
    warning: str = ""  # settings reported by workers that an operator should change; the counts are right
    kind: Literal["known"] = "known"

    @property
    def in_flight(self) -> int:
        return self.waiting + self.in_transit + self.running


@dataclass(frozen=True, slots=True)
class Unknown:
    """No reading: hold the last decision. `why` is shown to the operator."""

    why: str
    kind: Literal["unknown"] = "unknown"


@dataclass(frozen=True, slots=True)
class Untrusted:
    """The source answers, but its "empty" proves nothing yet (a restart, a new primary): may scale up, never down."""

    why: str
    seen: Known
    kind: Literal["untrusted"] = "untrusted"


Reading: TypeAlias = Known | Unknown | Untrusted


class DemandSource(Protocol):
    """Returns one consistent reading per pool; the adapter knows how demand is stored (lists, streams, an API)."""

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]: ...


# --- the cluster ------------------------------------------------------------------------------------------------------


class PodPhase(StrEnum):
    PENDING = "pending"  # requested, not yet running: coming capacity
    RUNNING = "running"
    FAILING = "failing"  # crashes in a loop or cannot pull its image: no capacity, and none of its containers runs
    UNREACHABLE = "unreachable"  # its node is silent: no capacity, but its job may still run
    TERMINATING = "terminating"  # neither capacity nor a candidate for removal


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    name: PodName
    phase: PodPhase
    marked: bool = False  # has the deletion cost of a pod that may be removed first
    grace: int = 0  # grace period in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPool:
    """`replicas` is the requested number; `version` is the resourceVersion to which a write is bound."""

    replicas: int
    existing: int  # the Deployment's own count of pods that neither ended nor terminate; `pods` may be older
    pods: tuple[ObservedPod, ...]
    settled: bool = True  # False while a rollout has two active ReplicaSets or the status lags the spec
    version: str = ""
    refused: str = ""  # the cluster's message on why it creates no more pods (a quota, an admission rule)
    conflicting_manager: str = ""  # another writer of replicas, which sets another number: an autoscaler, a GitOps tool
    hold: Hold | None = None
    grace: int = 0  # grace period of a new pod in seconds

    @property
    def running(self) -> int:
        return sum(pod.phase is PodPhase.RUNNING for pod in self.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBudget:
    max_unavailable: int  # for a budget with a minimum: 0 if closed, 1 if open as intended
    minimum: int | None = None  # `minAvailable`, if it is a number
    settled: bool = True  # False until the budget's status has caught up with its spec
    version: str = ""
    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """The content of the caches; objects that do not exist are missing.

    `unknown`: by name, why a pool or budget in a team's namespace cannot be read. All others are decided as usual.
    """

    pools: Mapping[PoolName, ObservedPool] = field(default_factory=dict[PoolName, ObservedPool])
    budgets: Mapping[BudgetName, ObservedBudget] = field(default_factory=dict[BudgetName, ObservedBudget])
    unknown: Mapping[PoolName | BudgetName, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Set a pool's replicas. `version` is the observed version: the write must fail if the object has changed since.

    A scale-up also needs the version: based on a lagging cache, a change from 2 to 4 may cut 7 workers to 4.
    """

    pool: PoolName
    replicas: int
    version: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Rank a pod first for removal (`idle`), or undo this. The cluster must show marks before replicas are lowered."""

    pool: PoolName
    pod: PodName
    idle: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBudget:
    """Set a budget's maxUnavailable to 0 or 1, or the equivalent minimum. Opening a budget needs a `version`."""

    budget: BudgetName
    max_unavailable: int
    version: str | None
    reason: str


Action: TypeAlias = Scale | Mark | SetBudget


class Outcome(StrEnum):
    DONE = "done"
    STALE = "stale"  # the object changed since it was observed: the next reconcile decides again
    REFUSED = "refused"  # not allowed, or gone
    FAILED = "failed"  # the cluster could not be reached
    FENCED = "fenced"  # not sent: this process may no longer hold the Lease


class Cluster(Protocol):
    """`observe` returns the caches' content without a network call. `act` returns an outcome for every answer."""

    def observe(self) -> ObservedCluster | Unknown: ...
    def act(self, action: Action) -> Outcome: ...


# --- time, waking, reports --------------------------------------------------------------------------------------------


class Clock(Protocol):
    def now(self) -> datetime: ...  # wall time, aware, UTC


class Waker(Protocol):
    """`wait` returns after `timeout`, or sooner on an event; False if the process must stop.

    An event is only a reason to read sooner.
    """

    def wait(self, timeout: timedelta) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """Observations and decision of one reconcile for a pool."""

    name: PoolName
    reading: Reading
    workers: int | None  # observed requested replicas; None: the Deployment is not in the cluster
    wanted: int | None  # None: no decision was possible
    reason: str
    pending: int = 0
    running: int = 0
    terminating: int = 0
    failing: int = 0
    unreachable: int = 0
    idle: int = 0  # running pods that have been idle for the pop window
    floor: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    name: BudgetName
    max_unavailable: int | None  # None: not in the cluster
    wanted: int
    reason: str
    settled: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileReport:
    """One reconcile, for `/status` and the metrics."""

    at: datetime
    window_open: bool
    window_reason: str
    window_until: datetime | None
    trouble: tuple[str, ...] = ()  # conditions that concern no single object: cluster, clocks, calendar, config
    pools: tuple[PoolReport, ...] = ()
    budgets: tuple[BudgetReport, ...] = ()


class Journal(Protocol):
    def reconciled(self, report: ReconcileReport) -> None:
        """Receive a report at the end of every reconcile. Must be cheap."""

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None: ...

    def noted(self, at: datetime, subject: str, message: str) -> None:
        """Report a condition that an operator should know, only when it changes, not in every reconcile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """All inputs and outputs of the scaler. The simulator supplies its own."""

    demand: DemandSource
    cluster: Cluster
    clock: Clock
    waker: Waker
    journal: Journal
    doubt: Callable[[], Doubt] = lambda: TRUST
    """Returns why the clock or the config is distrusted; while it is, nothing is opened or lowered."""
