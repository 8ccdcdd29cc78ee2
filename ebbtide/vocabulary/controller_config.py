"""The scaler's config document: pools, budgets, business hours and the address of the queues.

Schema 2: pools may have floors (planned overnight work). Schema 3: growth limits, drain targets, morning floors,
Sentinels, a certificate authority, and the budgets that are never opened. Schema 4: adopted pools, and budgets of
adopted pods. These budgets are in other namespaces, may have another name than their rule and may set `minAvailable`.
Schema 5: pools with a message broker. A document without a broker has schema 4, which the previous release reads.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from shlex import quote

from ebbtide.vocabulary.documents import FORMER_KEY, KEY, OMIT_DEFAULT, SETTING, Document, UnreadableConfig
from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Planned work: at least `workers` from local time `at` (minutes) for `lasting`, every day."""

    at: int = field(metadata={SETTING: "minutes"})
    lasting: timedelta = field(metadata={SETTING: "for_"})
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Morning:
    """At least `workers` from `node_startup` before each opening until `lasting` after it."""

    lasting: timedelta = field(metadata={SETTING: "for_"})
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CeleryKeys:
    """Names of Celery's keys, with Celery's defaults. Each queue has one list per priority step."""

    prefix: str = field(default="", metadata={SETTING: "key_prefix"})  # global_keyprefix
    priorities: tuple[int, ...] = (0, 3, 6, 9)  # priority_steps; 0 is the list with the queue's plain name
    separator: str = "\x06\x16"  # sep
    unacked: str = field(default="unacked", metadata={SETTING: "unacked_key"})
    unacked_index: str = field(default="unacked_index", metadata={SETTING: "unacked_index_key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPolicy:
    """Sizing of one worker pool (one Deployment)."""

    name: str
    namespace: str
    deployment: str
    source: str = field(metadata={SETTING: "source.kind"})  # "rq", "celery", "list" or "consumer"
    queues: tuple[str, ...] = field(metadata={SETTING: "source.queues"})
    jobs_per_worker: int
    min_workers: int = field(metadata={KEY: "min", SETTING: "min"})
    max_workers: int = field(metadata={KEY: "max", SETTING: "max"})
    # Demand must be low for this time before replicas are lowered, and zero for this time before they reach zero.
    stabilization_window: timedelta = field(metadata={FORMER_KEY: "calm"})
    longest_job: timedelta
    safe_stop: bool  # declares that SIGTERM to a worker never loses a job; every scale-down requires this
    floors: tuple[Floor, ...] = ()
    morning: Morning | None = None
    growth_per_minute: int | None = None  # workers that may be added in any minute; None: no limit
    drain_within: timedelta | None = None  # source of jobs_per_worker, which counts as 1 if a job waits longer
    # None: the defaults, or another kind.
    celery: CeleryKeys | None = field(default=None, metadata={SETTING: "source.celery_keys"})
    # Others write the Deployment: the pool shrinks only while the pods' grace period is at least `longest_job`.
    adopted: bool = field(default=False, metadata=OMIT_DEFAULT)
    # Name of the broker in `brokers` that holds the queues; None: Redis holds them.
    broker: str | None = field(default=None, metadata=OMIT_DEFAULT | {SETTING: "source.broker"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """A budget that the controller opens (1) and closes (0), of a flexible workload or a pool with checkpoints."""

    name: str  # the workload's, the pool's or the rule's name, unique in the document
    namespace: str
    always: bool = False  # open in business hours, too: the pool's jobs may be interrupted at any time
    # Name of the PodDisruptionBudget; None: the same as `name`.
    object_name: str | None = field(default=None, metadata=OMIT_DEFAULT)
    # `minAvailable` of the open budget of pods without a scale; None: the budget sets `maxUnavailable`.
    open_minimum: int | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def pdb(self) -> str:
        """Return the name of the PodDisruptionBudget."""
        return self.object_name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisEndpoint:
    """Address of the queues. The document never contains the password: `password_env` names its environment variable.

    If `sentinels` ("host:port") are given, they resolve the primary named `sentinel_service`, and `host` is not used.
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
class BrokerEndpoint:
    """Address of a RabbitMQ and of its management API. `password_env` names the environment variable of the password.

    The user needs the tag `management`, and empty permissions on the virtual host.
    """

    name: str
    host: str
    port: int
    vhost: str
    tls: bool  # chain and host name are verified, as are those of `management`
    management: str  # http:// or https://, a host and a port
    username: str = field(metadata={SETTING: "controller.user"})
    password_env: str

    @property
    def reader_commands(self) -> str:
        """Return the commands that let the user look and nothing else."""
        vhost = quote(self.vhost)
        return (
            f"rabbitmqctl set_user_tags {self.username} management; "
            f'rabbitmqctl set_permissions -p {vhost} {self.username} "" "" ""'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsEndpoint:
    """SQS of one account and region. The controller's login is that of its pod."""

    name: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(Document):
    SCHEMA = 4
    EXTENDED = 5

    customer: str
    hours: BusinessHours
    closing_guard: timedelta = field(metadata={SETTING: "controller.closing_guard"})
    node_startup: timedelta = field(metadata={SETTING: "controller.node_startup"})
    resync: timedelta = field(metadata={FORMER_KEY: "sweep"})  # longest time between two readings
    redis: RedisEndpoint
    pools: tuple[PoolPolicy, ...]
    budgets: tuple[BudgetPolicy, ...]
    never_opened: tuple[BudgetPolicy, ...] = ()  # fixed pods' budgets, closed if a maintenance left them open
    brokers: tuple[BrokerEndpoint, ...] = field(default=(), metadata=OMIT_DEFAULT)
    sqs: tuple[SqsEndpoint, ...] = field(default=(), metadata=OMIT_DEFAULT)  # brokers of another kind

    @property
    def extended(self) -> bool:
        """True with a broker. The previous release ignores a pool's `broker`: it would read that pool's queues in
        Redis, find them empty and remove busy workers.
        """
        return bool(self.brokers or self.sqs)

    def check(self) -> None:
        """Refuse repeated names, and pools of unknown brokers.

        The controller, its metrics and its reports identify pools, budgets and brokers by name.
        """
        budgets = (*self.budgets, *self.never_opened)
        brokers = (*self.brokers, *self.sqs)
        for key, policies in (("pools", self.pools), ("budgets", budgets), ("brokers", brokers)):
            names = [policy.name for policy in policies]
            if repeated := sorted({name for name in names if names.count(name) > 1}):
                raise UnreadableConfig(f"{key}: named twice: {repeated}")
        known = {broker.name for broker in brokers}
        if unknown := sorted({pool.broker for pool in self.pools if pool.broker is not None} - known):
            raise UnreadableConfig(f"pools: unknown brokers: {unknown}")

    @property
    def closed_by_day(self) -> tuple[BudgetPolicy, ...]:
        """Return the budgets that the closer closes before business hours."""
        return tuple(budget for budget in self.budgets + self.never_opened if not budget.always)

    @property
    def window(self) -> DisruptionWindow:
        return DisruptionWindow(hours=self.hours, closing_guard=self.closing_guard)
