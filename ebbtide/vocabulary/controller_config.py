"""The scaler's config document: pools, budgets, business hours and where the queues are.

Schema 2: pools may have floors (planned overnight work). Schema 3: growth limits, drain targets, morning floors,
Sentinels, a certificate authority, and the budgets that are never opened. Schema 4: budgets of adopted pods, which are
in other namespaces, may have another name than the rule and may set `minAvailable`; adopted pools.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from ebbtide.vocabulary.documents import FORMER_KEY, KEY, OMIT_DEFAULT, Document, UnreadableConfig
from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Planned work: at least `workers` from local time `at` (minutes) for `lasting`, every day."""

    at: int
    lasting: timedelta
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Morning:
    """At least `workers` from `node_startup` before each opening until `lasting` after it."""

    lasting: timedelta
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CeleryKeys:
    """Names of Celery's keys, with Celery's defaults. Each queue has one list per priority step."""

    prefix: str = ""  # global_keyprefix
    priorities: tuple[int, ...] = (0, 3, 6, 9)  # priority_steps; 0 is the list with the queue's plain name
    separator: str = "\x06\x16"  # sep
    unacked: str = "unacked"  # unacked_key
    unacked_index: str = "unacked_index"  # unacked_index_key


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPolicy:
    """Sizing of one worker pool (one Deployment)."""

    name: str
    namespace: str
    deployment: str
    source: str  # demand source kind: "rq", "celery" or "list"
    queues: tuple[str, ...]
    jobs_per_worker: int
    min_workers: int = field(metadata={KEY: "min"})
    max_workers: int = field(metadata={KEY: "max"})
    # Demand must stay low this long before replicas fall, and be empty this long before zero.
    stabilization_window: timedelta = field(metadata={FORMER_KEY: "calm"})
    longest_job: timedelta
    safe_stop: bool  # SIGTERM to a worker never loses a job: the declared net under every scale-in
    floors: tuple[Floor, ...] = ()
    morning: Morning | None = None
    growth_per_minute: int | None = None  # workers that may be added in any minute; None: no limit
    drain_within: timedelta | None = None  # jobs_per_worker was derived from it; a head that waits longer overrules
    celery: CeleryKeys | None = None  # None: the defaults, or another kind
    # Others write the Deployment: the pool shrinks only while its pods get `longest_job` to stop.
    adopted: bool = field(default=False, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """A budget that the controller opens (1) and closes (0): of a flexible workload or of a pool with checkpoints."""

    name: str  # unique in the document: of the workload, the pool or the rule
    namespace: str
    always: bool = False  # open in business hours, too: the pool's jobs may be interrupted at any time
    # Name of the PodDisruptionBudget; None: the name.
    object_name: str | None = field(default=None, metadata=OMIT_DEFAULT)
    # `minAvailable` of the open budget of pods without a scale; None: the budget sets `maxUnavailable`.
    open_minimum: int | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def pdb(self) -> str:
        """Return the name of the PodDisruptionBudget."""
        return self.object_name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisEndpoint:
    """Address of the queues. The document never has the password: `password_env` names the variable that holds it.

    With `sentinels` ("host:port") they resolve the primary named `sentinel_service`, and `host` is not used.
    """

    host: str
    port: int = 6379
    db: int = 0
    tls: bool = False  # chain and host name are verified
    ca_file: str | None = None  # trusted in addition to the system's authorities
    username: str | None = None
    password_env: str | None = None
    sentinels: tuple[str, ...] = ()
    sentinel_service: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(Document):
    SCHEMA = 4

    customer: str
    hours: BusinessHours
    closing_guard: timedelta
    node_startup: timedelta
    resync: timedelta = field(metadata={FORMER_KEY: "sweep"})  # longest time between two readings
    redis: RedisEndpoint
    pools: tuple[PoolPolicy, ...]
    budgets: tuple[BudgetPolicy, ...]
    never_opened: tuple[BudgetPolicy, ...] = ()  # fixed ones: the closer closes what an operator's maintenance left

    def check(self) -> None:
        """The controller, its metrics and its reports identify pools and budgets by name."""
        for key, policies in (("pools", self.pools), ("budgets", (*self.budgets, *self.never_opened))):
            names = [policy.name for policy in policies]
            if repeated := sorted({name for name in names if names.count(name) > 1}):
                raise UnreadableConfig(f"{key}: named twice: {repeated}")

    @property
    def closed_by_day(self) -> tuple[BudgetPolicy, ...]:
        """Return the budgets that the closer closes before business hours."""
        return tuple(budget for budget in self.budgets + self.never_opened if not budget.always)

    @property
    def window(self) -> DisruptionWindow:
        return DisruptionWindow(hours=self.hours, closing_guard=self.closing_guard)
