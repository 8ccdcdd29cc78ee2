"""What the controller sees and does, as values and protocols; adapters and the simulator implement them.

Shapes: a *reading* says what is known of one pool's queues; `ObservedCluster` is what the cluster holds; an
*action* is one change with the reason for it; an *outcome* is what became of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias

from ebbtide.vocabulary.holds import Hold

PoolName: TypeAlias = str
PodName: TypeAlias = str
BudgetName: TypeAlias = str
NO_LONGER = "no longer: "  # how a note begins that tells the end of what was noted before


# --- demand -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One atomic snapshot of a pool's queues. Counts are jobs."""

    waiting: int
    in_transit: int  # popped, not yet registered as running
    running: int
    stale: int = 0  # dead workers' entries and overdue jobs: only a worker without a job clears or moves them
    due_soon: int = 0  # scheduled jobs due by the look-ahead, and not overdue
    oldest_wait: timedelta | None = None
    idle: frozenset[PodName] = frozenset()  # pods whose workers all say idle; every other pod counts as busy
    names_idle: bool = True  # False: this source cannot tell pod from pod, only that nothing at all is in flight
    seen_before: bool = True  # False: no worker and no job ever used these queues; is the name right?
    warning: str = ""  # what workers report of their settings that an operator should change; the counts are right
    kind: Literal["known"] = "known"

    @property
    def in_flight(self) -> int:
        return self.waiting + self.in_transit + self.running


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing could be read: hold the last decision. `why` is shown to the operator."""

    why: str
    kind: Literal["unknown"] = "unknown"


@dataclass(frozen=True, slots=True)
class Untrusted:
    """The source answers, but its "empty" proves nothing yet (a restart, another primary): may raise, never lower."""

    why: str
    seen: Known
    kind: Literal["untrusted"] = "untrusted"


Reading: TypeAlias = Known | Unknown | Untrusted


class DemandSource(Protocol):
    """One consistent reading per pool; how demand is kept (lists, streams, an API) is the adapter's business."""

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]: ...


# --- the cluster ------------------------------------------------------------------------------------------------------


class PodPhase(StrEnum):
    PENDING = "pending"  # asked for, not yet running: capacity that is on its way
    RUNNING = "running"
    FAILING = "failing"  # crashes in a loop or cannot get its image: no capacity, and none of its containers runs
    UNREACHABLE = "unreachable"  # its node is silent: no capacity, but its job may still run
    TERMINATING = "terminating"  # ends by itself; neither capacity nor a candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    name: PodName
    phase: PodPhase
    marked: bool = False  # carries the deletion cost of a pod that may go first


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPool:
    """`replicas` is what is asked for; `version` the resourceVersion that a lowering write is bound to."""

    replicas: int
    existing: int  # pods by the cluster's own count, neither ended nor terminating; `pods` may be older than this
    pods: tuple[ObservedPod, ...]
    settled: bool = True  # False while a rollout has two active ReplicaSets or the status lags the spec
    version: str = ""
    refused: str = ""  # why the cluster creates no more pods (a quota, an admission rule), in its own words
    conflicting_manager: str = ""  # who else writes the replicas: an autoscaler or a GitOps tool
    hold: Hold | None = None

    @property
    def running(self) -> int:
        return sum(pod.phase is PodPhase.RUNNING for pod in self.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBudget:
    max_unavailable: int
    settled: bool = True  # False until the budget's status has caught up with its spec
    version: str = ""
    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """What the caches hold now; an object that does not exist is missing."""

    pools: Mapping[PoolName, ObservedPool] = field(default_factory=dict[PoolName, ObservedPool])
    budgets: Mapping[BudgetName, ObservedBudget] = field(default_factory=dict[BudgetName, ObservedBudget])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Set a pool's replicas. `version` is the one seen: the write must fail if the object has changed since.

    Raises carry it too: decided on a cache that lags, a raise from 2 to 4 may cut 7 workers to 4.
    """

    pool: PoolName
    replicas: int
    version: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Rank a pod first (`idle` true) or last again for removal; must be seen in the cluster before replicas fall."""

    pool: PoolName
    pod: PodName
    idle: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBudget:
    """Set a budget's maxUnavailable, 0 or 1. `version` is given when this opens."""

    budget: BudgetName
    max_unavailable: int
    version: str | None
    reason: str


Action: TypeAlias = Scale | Mark | SetBudget


class Outcome(StrEnum):
    DONE = "done"
    STALE = "stale"  # the object changed since it was seen: the next reconcile decides anew
    REFUSED = "refused"  # not allowed, or gone
    FAILED = "failed"  # the cluster could not be reached
    FENCED = "fenced"  # not sent: this process may no longer be the one that acts


class Cluster(Protocol):
    """`observe` tells what the caches hold, without a call over the network; `act` raises for nothing that a cluster
    can answer."""

    def observe(self) -> ObservedCluster | Unknown: ...
    def act(self, action: Action) -> Outcome: ...


# --- time, waking, telling --------------------------------------------------------------------------------------------


class Clock(Protocol):
    def now(self) -> datetime: ...  # wall time, aware, UTC


class Waker(Protocol):
    """Returns after `timeout` or sooner on an event, when something changed; False when it is time to stop.

    An event is a reason to read sooner, never a fact.
    """

    def wait(self, timeout: timedelta) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """What one reconcile observed of a pool and wants for it."""

    name: PoolName
    reading: Reading
    workers: int | None  # replicas asked for as seen; None: its Deployment is not in the cluster
    wanted: int | None  # None: nothing could be decided
    reason: str
    pending: int = 0
    running: int = 0
    terminating: int = 0
    failing: int = 0
    unreachable: int = 0
    idle: int = 0  # of the running ones, for the pop window
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
    trouble: tuple[str, ...] = ()  # what concerns no single object: cluster, clocks, calendar, config
    pools: tuple[PoolReport, ...] = ()
    budgets: tuple[BudgetReport, ...] = ()


class Journal(Protocol):
    def reconciled(self, report: ReconcileReport) -> None:
        """Called at the end of every reconcile; cheap."""

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None: ...

    def noted(self, at: datetime, subject: str, message: str) -> None:
        """Something an operator should know, noted when it changes and not in every reconcile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """All the edges of the controller. The simulator gives its own."""

    demand: DemandSource
    cluster: Cluster
    clock: Clock
    waker: Waker
    journal: Journal
    doubt: Callable[[], str] = lambda: ""
    """Why the edges distrust clock or config now (empty: they do not): then nothing is opened and nothing lowered."""
