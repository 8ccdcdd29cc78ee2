"""The typed stack file: one frozen model per concern, parsed once; everything after trusts the types.

Keys in the file are camelCase. Durations are `timedelta`, CPU is millicores, memory is MiB, dates are resolved. What
one section can know of itself is checked here, by the field's type or by the model's `checks`; what takes two sections
is in `crosschecks`.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from enum import StrEnum
from importlib.metadata import version
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from ebbtide.prices import PricingAssumption
from ebbtide.settings.checked import Check, Settings
from ebbtide.settings.cost_tags import CostTags
from ebbtide.settings.holiday_dates import check_country, check_subdivision, coming_years, holiday_list
from ebbtide.settings.instance_types import InstanceTypeName
from ebbtide.settings.kubernetes_versions import KUBERNETES_VERSIONS, KubernetesVersion
from ebbtide.settings.lists import each_once, whole_list
from ebbtide.settings.timezones import parse_timezone
from ebbtide.settings.types import (
    ClockText,
    Count,
    DateText,
    Duration,
    Image,
    Mebibytes,
    Millicores,
    Name,
    Positive,
    PositiveDuration,
    Queue,
    ShortName,
    WeekText,
    Word,
    Zone,
    acted_on,
)
from ebbtide.settings.wanted import wanted
from ebbtide.vocabulary.labels import Category, NodeKind, ReplicasOwner
from ebbtide.vocabulary.windows import BusinessHours

IN_CLUSTER_REDIS = "ebbtide-redis"
CONTROLLER_IMAGE = f"ghcr.io/ebbtide/controller:{version('ebbtide')}"


def _min_within_max(least: int, most: int) -> None:
    if least > most:
        raise wanted(f"at most max, which is {most}", example=str(most), at="min")


_MIN_WITHIN_MAX = Check(("min", "max"), _min_within_max)


def _each_date_once(closed: Sequence[date], opened: Sequence[date]) -> None:
    both = sorted(set(closed) & set(opened))
    if both:
        raise wanted("each date as closed or as open", found=f"{both[0]} in both", at="open")


class Holidays(Settings):
    """Days that differ from their weekday."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("country", "subdivision"), check_subdivision),
        Check(("closed", "open"), _each_date_once),
    )

    country: Annotated[str, AfterValidator(check_country)] | None = Field(
        default=None, description="ISO 3166 code; its public holidays are closed", examples=["US"]
    )
    subdivision: str | None = Field(
        default=None, description="state or province, for its own holidays too", examples=["NY"]
    )
    closed: tuple[DateText, ...] = Field(
        default=(), description="closed besides the public holidays", examples=['["2026-12-24"]']
    )
    open: tuple[DateText, ...] = Field(
        default=(), description="public holidays on which people work", examples=['["2026-10-12"]']
    )


def _within_a_day(lasting: timedelta) -> timedelta:
    if lasting > timedelta(hours=24):
        raise wanted("at most 24h, since it starts again every day", example="2h")
    return lasting


class Overnight(Settings):
    """Planned night work: capacity is there in time."""

    pool: str = Field(description="the worker pool", examples=["train"])
    at: ClockText = Field(description="local time at which the workers are wanted, every day", examples=['"02:00"'])
    for_: Annotated[PositiveDuration, AfterValidator(_within_a_day)] = Field(
        alias="for", description="how long they stay at least", examples=["2h"]
    )
    workers: Positive = Field(description="workers, at most the pool's max", examples=["6"])

    @property
    def minutes(self) -> int:
        """`at` in minutes from local midnight."""
        hours, minutes = self.at.split(":")
        return int(hours) * 60 + int(minutes)


class BusinessHoursSettings(Settings):
    """When people work. Outside these hours flexible workloads may be moved."""

    timezone: Annotated[str, BeforeValidator(parse_timezone)] = Field(
        description="IANA name", examples=["America/New_York"]
    )
    week: WeekText = Field(
        description="intervals of local time by day; a day that is not named is closed",
        examples=['{ mon-thu: "08:00-19:00", fri: "08:00-17:00" }'],
    )
    holidays: Holidays = Field(default=Holidays(), description="days that differ from their weekday")
    overnight: tuple[Overnight, ...] = Field(default=(), description="planned night work")

    def hours(self, years: Sequence[int] | None = None) -> BusinessHours:
        """The hours with holidays resolved for `years`; by default this year and the next two."""
        calendar = self.holidays
        closed = frozenset(calendar.closed)
        if calendar.country is None:
            return BusinessHours(timezone=self.timezone, week=self.week, closed_dates=closed - set(calendar.open))
        listed = holiday_list(calendar.country, calendar.subdivision, tuple(years or coming_years()))
        return BusinessHours(
            timezone=self.timezone,
            week=self.week,
            closed_dates=(listed.dates | closed) - set(calendar.open),
            holidays_known_until=listed.known_until,
        )


class ClusterKind(StrEnum):
    EKS = "eks"
    EXISTING = "existing"


def _two_at_least(zones: Sequence[object]) -> None:
    if len(zones) < 2:
        raise wanted("at least two zones, since EKS asks for two", example="[a, b]")


class ClusterSettings(Settings):
    """The cluster itself."""

    instead_of: ClassVar[dict[str, str]] = {"context": "an existing cluster is planned and not acted on yet"}

    kind: Annotated[
        ClusterKind, *acted_on("eks", planned={"existing": "an existing cluster is planned and not acted on yet"})
    ] = Field(default=ClusterKind.EKS, description="who makes the cluster", examples=["eks"])
    version: KubernetesVersion = Field(
        default=KUBERNETES_VERSIONS[-1],
        description="Kubernetes version; text, since 1.30 as a number is 1.3",
        examples=['"1.35"'],
    )
    zones: Annotated[tuple[Zone, ...], each_once("zone", "[a, b]"), whole_list(_two_at_least)] = Field(
        default=("a", "b"),
        description="letters of the availability zones; EKS wants two at least for its own network interfaces",
        examples=["[a, b]"],
    )


def _fixed_nodes_stay(kind: NodeKind, least: int) -> None:
    if kind is NodeKind.FIXED and least < 1:
        raise wanted("at least 1: fixed pods and the controller need a node", example="2", at="min")


class NodeGroupSettings(Settings):
    """Nodes of one shape. `min` and `max` are totals, split over the zones."""

    checks: ClassVar[tuple[Check, ...]] = (_MIN_WITHIN_MAX, Check(("kind", "min"), _fixed_nodes_stay))

    kind: NodeKind = Field(
        description="fixed, flexible, gpu or spot; default: the group's own name, where that is a kind",
        examples=["gpu"],
    )
    instance_types: Annotated[
        tuple[InstanceTypeName, ...],
        Field(min_length=1),
        each_once("instance type", "[m7i.4xlarge, m6i.4xlarge]"),
    ] = Field(
        description="interchangeable types of one CPU, memory and GPU shape; default by kind",
        examples=["[m7i.4xlarge, m6i.4xlarge]"],
    )
    min: Count = Field(default=0, description="nodes at least; 0, so that the group can vanish", examples=["0"])
    max: Positive = Field(description="nodes at most, no fewer than the zones", examples=["20"])


class RedisKind(StrEnum):
    IN_CLUSTER = "in-cluster"
    ELASTICACHE = "elasticache"
    URL = "url"


_PASSWORD_ELSEWHERE = "the password is a secret of its own: pulumi config set --secret ebbtide:redisPassword"


_REDIS_EXAMPLE = "rediss://redis.example.com:6379/0"


def _check_redis_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wanted("a Redis address", example=_REDIS_EXAMPLE) from None
    if parts.password is not None:
        raise wanted("an address without a password", example=_REDIS_EXAMPLE, hint=_PASSWORD_ELSEWHERE)
    sound = parts.scheme in ("redis", "rediss") and parts.hostname and (port is None or port > 0)
    database = parts.path.strip("/")
    if not sound or (database and not database.isdecimal()) or parts.query or parts.fragment:
        what = "redis:// or rediss://, a host, and a port and database if need be"
        raise wanted(what, example=_REDIS_EXAMPLE)
    return url


def _url_belongs_to_its_kind(kind: RedisKind, url: str | None) -> None:
    if kind is RedisKind.URL and url is None:
        raise wanted("the address of Redis", example=_REDIS_EXAMPLE, at="url")
    if kind is not RedisKind.URL and url is not None:
        raise wanted("no url with this kind", example="kind: url", at="url")


class RedisSettings(Settings):
    """Where the queues live."""

    instead_of: ClassVar[dict[str, str]] = {"password": _PASSWORD_ELSEWHERE}
    checks: ClassVar[tuple[Check, ...]] = (Check(("kind", "url"), _url_belongs_to_its_kind),)

    kind: Annotated[
        RedisKind,
        *acted_on("in-cluster", "url", planned={"elasticache": "ElastiCache is planned; give its endpoint as a url"}),
    ] = Field(default=RedisKind.IN_CLUSTER, description="a small Redis of its own, or one that is there already")
    url: Annotated[str, AfterValidator(_check_redis_url)] | None = Field(
        default=None, description="for kind url, without a password", examples=[_REDIS_EXAMPLE]
    )


class ControllerSettings(Settings):
    """The bundled controller."""

    image: Image = Field(
        default=CONTROLLER_IMAGE,
        description="its image; default: this release's. Only a digest never changes",
        examples=["registry.example.com/ebbtide/controller:1.0.0"],
    )
    closing_guard: PositiveDuration = Field(
        default=timedelta(minutes=15),
        description="budgets close this long before opening time: a drain and a start must fit",
        examples=["15m"],
    )
    node_startup: PositiveDuration = Field(
        default=timedelta(minutes=5),
        description="from asking for a node to a ready pod on it; planned work is started this much earlier",
        examples=["5m"],
    )
    replicas: Annotated[Positive, Field(le=2)] = Field(
        default=1,
        description="pods; one acts. A second takes over at once when the first one's node dies",
        examples=["1"],
    )


class WorkloadKind(StrEnum):
    DEPLOYMENT = "deployment"
    STATEFUL_SET = "stateful-set"


def _owner_suits_category(category: Category, owner: ReplicasOwner) -> None:
    if category is Category.FIXED and owner is ReplicasOwner.HPA:
        what = "pulumi, since an autoscaler removes pods and a fixed one is never removed"
        raise wanted(what, example="pulumi", at="replicasOwner")


class WorkloadSettings(Settings):
    """A service that stays: not a queue worker."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("category", "replicas_owner"), _owner_suits_category),)

    category: Annotated[
        Category,
        *acted_on("fixed", "flexible", planned={"worker": "queue workers belong under ebbtide:workers"}),
    ] = Field(description="fixed is never moved, flexible only outside business hours", examples=["flexible"])
    image: Image = Field(description="container image", examples=["registry.example.com/ml/api:1.4.2"])
    kind: WorkloadKind = Field(default=WorkloadKind.DEPLOYMENT, description="what runs it", examples=["deployment"])
    replicas: Positive = Field(default=1, description="pods", examples=["3"])
    replicas_owner: Annotated[
        ReplicasOwner,
        *acted_on("pulumi", "hpa", planned={"controller": "the controller sizes worker pools only, so far"}),
    ] = Field(
        default=ReplicasOwner.PULUMI,
        description="who writes the number of replicas; hpa: your own autoscaler, and `replicas` is its start",
        examples=["pulumi"],
    )
    cpu: Millicores = Field(description="CPU request per pod, in cores or millicores", examples=["2", "500m"])
    memory: Mebibytes = Field(description="memory request and limit per pod", examples=["8Gi"])
    gpu: Count = Field(default=0, description="GPUs per pod", examples=["1"])


class SourceKind(StrEnum):
    RQ = "rq"
    CELERY = "celery"
    LIST = "list"


class Acks(StrEnum):
    LATE = "late"


_SOURCES_REFUSED: dict[str, str] = {
    "huey": "Huey keeps no record of running tasks, so an empty queue would not mean that nothing runs",
    "arq": "ARQ cancels running jobs when a worker is told to stop",
    **dict.fromkeys(("dramatiq", "ray", "prometheus"), "this demand source is planned and not acted on yet"),
}


_EARLY = "a task that is acknowledged early is in no key of Redis while it runs, so it cannot be seen"


def _acks_suit_kind(kind: SourceKind, acks: Acks | None) -> None:
    if kind is not SourceKind.CELERY and acks is not None:
        raise wanted("acks with kind celery only", example="kind: celery", at="acks")
    if kind is SourceKind.CELERY and acks is not Acks.LATE:
        what = "late, for celery, and task_acks_late in the application"
        raise wanted(what, example="late", hint=_EARLY, at="acks")


class Source(Settings):
    """Where a pool's jobs wait."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("kind", "acks"), _acks_suit_kind),)

    kind: Annotated[SourceKind, *acted_on("rq", "celery", "list", planned=_SOURCES_REFUSED)] = Field(
        default=SourceKind.RQ,
        description="the job framework; list: a Redis list and a processing list that workers move jobs to",
        examples=["rq"],
    )
    queues: Annotated[tuple[Queue, ...], Field(min_length=1), each_once("queue", "[train]")] = Field(
        description="one queue, as a rule: between two queues a job can be in neither",
        examples=["[train]"],
    )
    acks: Annotated[Acks, *acted_on("late", planned={"early": _EARLY})] | None = Field(
        default=None,
        description="when celery acknowledges a task: late, or running tasks cannot be seen",
        examples=["late"],
    )


class Morning(Settings):
    """Workers that are there when people come."""

    workers: Positive = Field(description="workers, at most the pool's max", examples=["2"])
    for_: Annotated[PositiveDuration, AfterValidator(_within_a_day)] = Field(
        alias="for", description="how long they stay at least, from each opening", examples=["30m"]
    )


def _both_or_neither(within: timedelta | None, takes: timedelta | None) -> None:
    if (within is None) != (takes is None):
        missing = "drainWithin" if within is None else "jobTakes"
        what = "drainWithin and jobTakes together: jobs per worker is the one divided by the other"
        raise wanted(what, found=f"no {missing}", example="10m", at=missing)


def _morning_within_max(morning: Morning | None, most: int) -> None:
    if morning is not None and morning.workers > most:
        what = f"morning workers of at most max, which is {most}"
        raise wanted(what, found=str(morning.workers), example=f"{{ workers: {most}, for: 30m }}", at="morning")


def _jobs_per_worker(given: Mapping[str, Any]) -> int:
    """As many jobs as one worker ends in the time that a job may wait."""
    within, takes = given.get("drain_within"), given.get("job_takes")
    return max(1, within // takes) if within and takes else 1


def _stops_safely(given: Mapping[str, Any]) -> bool:
    """Only where the worker's command is ours; what other images do on SIGTERM, their owner must say."""
    source = given.get("source")
    return source is None or (source.kind is SourceKind.RQ and not given.get("command"))


class WorkerSettings(Settings):
    """A worker pool: one Deployment that grows with its queue and goes to zero with it."""

    checks: ClassVar[tuple[Check, ...]] = (
        _MIN_WITHIN_MAX,
        Check(("drain_within", "job_takes"), _both_or_neither),
        Check(("morning", "max"), _morning_within_max),
    )
    one_of: ClassVar[tuple[tuple[str, str], ...]] = (("jobsPerWorker", "drainWithin"), ("jobsPerWorker", "jobTakes"))

    source: Source = Field(description="where its jobs wait", examples=["{ kind: rq, queues: [train] }"])
    image: Image = Field(description="container image of the worker", examples=["registry.example.com/ml/train:1.4.2"])
    command: tuple[Word, ...] = Field(
        default=(),
        description="what the image runs; default: rq with the safe worker class, for other kinds the image's own",
        examples=["[celery, -A, app, worker, -Q, train]"],
    )
    min: Count = Field(default=0, description="workers at least; above 0 nodes stay all night", examples=["0"])
    max: Positive = Field(description="workers at most", examples=["30"])
    cpu: Millicores = Field(description="CPU request per worker, in cores or millicores", examples=["4", "500m"])
    memory: Mebibytes = Field(description="memory request and limit per worker", examples=["16Gi"])
    gpu: Count = Field(default=0, description="GPUs per worker", examples=["1"])
    longest_job: PositiveDuration = Field(
        description="no job runs longer; a worker told to stop is given this long, so a short guess kills jobs",
        examples=["12h"],
    )
    drain_within: PositiveDuration | None = Field(
        default=None,
        description="no job should wait longer; with jobTakes, instead of jobsPerWorker",
        examples=["10m"],
    )
    job_takes: PositiveDuration | None = Field(
        default=None, description="what a job takes, as a rule; with drainWithin", examples=["90s"]
    )
    jobs_per_worker: Positive = Field(
        default_factory=_jobs_per_worker,
        description="jobs that one worker should have to itself; 1, or drainWithin divided by jobTakes",
        examples=["1"],
    )
    growth_per_minute: Positive | None = Field(
        default=None, description="workers added in any minute at most; default: no limit", examples=["10"]
    )
    morning: Morning | None = Field(
        default=None,
        description="workers that are ready at each opening, whether or not jobs wait",
        examples=["{ workers: 2, for: 30m }"],
    )
    calm: Duration = Field(
        default=timedelta(minutes=2),
        description="demand must stay low this long before workers leave: a worker costs more to start than to keep",
        examples=["2m"],
    )
    safe_stop: Annotated[bool, Strict()] = Field(
        default_factory=_stops_safely,
        description="a worker told to stop never loses a job: true for rq with our own command, else false until said. "
        "With false the pool shrinks only where nothing can be lost",
        examples=["true"],
    )
    node_group: str = Field(
        default="",
        description="the group its workers run on; default: the cheapest that fits",
        examples=["flexible"],
    )


Hours = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]


class CostSettings(Settings):
    """What estimates assume, and how bills are told apart."""

    tags: CostTags = Field(default={}, description="tags on every AWS resource", examples=["{ cost-center: acme }"])
    pricing_assumption: PricingAssumption = Field(
        default=PricingAssumption.ON_DEMAND,
        description="how hours are thought to be bought: for estimates, never a purchase",
        examples=["compute-1y-no-upfront"],
    )
    expected_node_hours: dict[str, Hours] = Field(
        default={}, description="node-hours per month by node group, for the estimate", examples=["{ flexible: 2000 }"]
    )


class StackSettings(Settings):
    """One customer's stack, whole."""

    stack: str
    region: str
    customer: ShortName = Field(
        description="the customer's short name; part of every resource's name", examples=["acme"]
    )
    business_hours: BusinessHoursSettings
    cluster: ClusterSettings = ClusterSettings()
    node_groups: dict[ShortName, NodeGroupSettings]
    redis: RedisSettings = RedisSettings()
    controller: ControllerSettings = ControllerSettings()
    workloads: dict[Name, WorkloadSettings] = Field(default={})
    workers: dict[Name, WorkerSettings]
    costs: CostSettings = CostSettings()
    redis_password_set: bool = False  # whether ebbtide:redisPassword is there; its value is never read here
