"""The section of worker pools: pods that run while there are jobs."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, Strict, WithJsonSchema
from pydantic.alias_generators import to_camel

from ebbtide.settings.file.not_here import page_section
from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.brokers import OWN_QUEUES
from ebbtide.settings.sections.business_hours import within_a_day
from ebbtide.settings.sections.checked import MIN_WITHIN_MAX, Check, Settings, each_once
from ebbtide.settings.sections.checkpoints import CHECKPOINTS_ENV, CHECKPOINTS_PATH, CheckpointSettings
from ebbtide.settings.sections.grammar import choice, needed_with, only_with
from ebbtide.settings.sections.pods.env import EnvVariable
from ebbtide.settings.sections.pods.group import NODE_GROUP, GroupPodSettings
from ebbtide.settings.sections.pods.pod import ScrapedPodSettings
from ebbtide.settings.sections.pods.probes import Probes
from ebbtide.settings.sections.pods.volumes import Volume, no_claims
from ebbtide.settings.sections.ray import RAY_ENV, RAY_TOKEN_VARIABLES
from ebbtide.settings.sections.types import Count, Duration, Positive, PositiveDuration, Queue, ShortName, Word
from ebbtide.text.durations import format_duration
from ebbtide.text.pages import page_command
from ebbtide.vocabulary.controller_config import CeleryKeys
from ebbtide.vocabulary.documents import from_settings

STOP_MARGIN = timedelta(minutes=2)
"""Time after the longest job or save: to report its result, leave the queue's registries and exit."""


WORKER_CONTAINER = "worker"
"""Name of the container of a pool's pods."""


class SourceKind(StrEnum):
    RQ = "rq"
    CELERY = "celery"
    LIST = "list"
    CONSUMER = "consumer"


BROKER_KINDS = (SourceKind.CELERY, SourceKind.CONSUMER)
"""Kinds whose queues a broker can hold."""


class Acks(StrEnum):
    LATE = "late"


_SOURCES_REFUSED: dict[str, str] = {
    kind: f"{reason}; {page_section('queues')}"
    for kind, reason in {
        "huey": "Huey keeps no record of running tasks, so an empty queue would not mean that nothing runs",
        "arq": "ARQ cancels running jobs when a worker stops",
        **dict.fromkeys(("dramatiq", "ray", "prometheus"), "this demand source is planned and not acted on yet"),
    }.items()
}

_IN_A_BROKER = dict.fromkeys(
    ("amqp", "rabbitmq", "sqs"),
    "it is where the queues are: write kind: celery or kind: consumer, with broker: the name of a broker in "
    "ebbtide:brokers",
)

_EARLY = "a task that is acknowledged early is nowhere in Redis or the broker while it runs, so it cannot be seen"


def _parse_key(value: object) -> str:
    """Accept part of a Redis key. White space is allowed: Celery's own separator consists of control characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= 200:
        raise wanted("key-part.form", "text of 1 to 200 characters, as the application has it", example='"ml:"')
    return value


def _parse_key_prefix(value: object) -> str:
    return "" if value == "" else _parse_key(value)


KeyPart: TypeAlias = Annotated[
    str, BeforeValidator(_parse_key), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200})
]
KeyPrefix: TypeAlias = Annotated[
    str, BeforeValidator(_parse_key_prefix), WithJsonSchema({"type": "string", "maxLength": 200})
]
Priority: TypeAlias = Annotated[int, Strict(), Field(ge=0, le=255)]

_CELERY = CeleryKeys()
_CELERY_FIELDS = ("key_prefix", "priorities", "separator", "unacked_key", "unacked_index_key")

_CELERY_DEFAULTS = (_CELERY.prefix, _CELERY.priorities, _CELERY.separator, _CELERY.unacked, _CELERY.unacked_index)

CELERY_KEYS = tuple(to_camel(name) for name in _CELERY_FIELDS)
"""Keys of a source that have an effect with kind celery only."""


def _keys_suit_kind(kind: SourceKind, *keys: object) -> None:
    for name, key, default in zip(_CELERY_FIELDS, keys, _CELERY_DEFAULTS, strict=True):
        if kind not in BROKER_KINDS and key != default:
            at = to_camel(name)
            raise wanted("source.other-kind", f"{at} with kind celery only", example="kind: celery", at=at)


def _broker_suits_kind(kind: SourceKind, broker: str | None) -> None:
    if broker is not None and kind not in BROKER_KINDS:
        expected = "no broker with this kind, whose queues are in Redis"
        raise wanted("source.broker-kind", expected, example="kind: celery", at="broker")


def _no_key_beside_a_broker(at: str, default: object, broker: str | None, key: object) -> None:
    if broker is not None and key != default:
        raise wanted(
            "source.key-beside-broker", f"no {at} with a broker: it is about keys of Redis", example=f"no {at}", at=at
        )


def _queues_of_jobs(broker: str | None, queues: Sequence[str]) -> None:
    for index, queue in enumerate(queues):
        if broker is not None and OWN_QUEUES.fullmatch(queue):
            raise wanted(
                "source.own-queue",
                "a queue of jobs: Celery or RabbitMQ create this one for replies, remote control, events or delays",
                example="etl",
                at=("queues", index),
            )


class Source(Settings):
    """Queues of a pool's jobs."""

    checks: ClassVar[tuple[Check, ...]] = (
        only_with("acks", "kind", SourceKind.CELERY, code="acks.other-kind", expected="acks with kind celery only"),
        needed_with(
            "acks",
            "kind",
            SourceKind.CELERY,
            "acks.not-late",
            "late, for celery, and task_acks_late in the application",
            "late",
            hint=_EARLY,
        ),
        Check(("kind", *_CELERY_FIELDS), _keys_suit_kind),
        Check(("kind", "broker"), _broker_suits_kind),
        *(
            Check(("broker", name), partial(_no_key_beside_a_broker, to_camel(name), default))
            for name, default in zip(_CELERY_FIELDS, _CELERY_DEFAULTS, strict=True)
        ),
        Check(("broker", "queues"), _queues_of_jobs),
    )

    kind: Annotated[
        SourceKind, *choice("rq", "celery", "list", "consumer", planned=_SOURCES_REFUSED | _IN_A_BROKER)
    ] = Field(
        default=SourceKind.RQ,
        description="the job framework; list: a Redis list and a processing list for running jobs; consumer: a plain "
        "consumer of a broker",
        examples=["rq"],
    )
    queues: Annotated[tuple[Queue, ...], Field(min_length=1), each_once("queue", "[train]")] = Field(
        description="usually one queue, since a job that moves between two queues can be missing from both",
        examples=["[train]"],
    )
    acks: Annotated[Acks, *choice("late", planned={"early": _EARLY})] | None = Field(
        default=None,
        description="acknowledgement of celery tasks: late, since running tasks are invisible otherwise",
        examples=["late"],
    )
    broker: ShortName | None = Field(
        default=None,
        description="for celery and consumer: the broker in ebbtide:brokers that holds the queues; default: the "
        "stack's Redis",
        examples=["jobs"],
    )
    key_prefix: KeyPrefix = Field(
        default=_CELERY.prefix,
        description="for celery: global_keyprefix of the application",
        examples=['"ml:"'],
    )
    priorities: Annotated[tuple[Priority, ...], Field(min_length=1), each_once("priority", "[0, 3, 6, 9]")] = Field(
        default=_CELERY.priorities,
        description="for celery: priority_steps of the application",
        examples=["[0, 3, 6, 9]"],
    )
    separator: KeyPart = Field(
        default=_CELERY.separator,
        description="for celery: sep of the application, between a queue's name and a priority",
        examples=['":"'],
    )
    unacked_key: KeyPart = Field(
        default=_CELERY.unacked,
        description="for celery: unacked_key of the application, with the tasks that workers hold",
        examples=["unacked"],
    )
    unacked_index_key: KeyPart = Field(
        default=_CELERY.unacked_index,
        description="for celery: unacked_index_key of the application",
        examples=["unacked_index"],
    )

    @property
    def celery_keys(self) -> CeleryKeys | None:
        """Return Celery's keys, or None for the defaults."""
        keys = from_settings(CeleryKeys, self)
        return None if keys == _CELERY else keys


class Morning(Settings):
    """Workers that are ready when business hours begin."""

    workers: Positive = Field(description="number of workers, at most the pool's max", examples=["2"])
    for_: Annotated[PositiveDuration, AfterValidator(within_a_day)] = Field(
        alias="for", description="minimum time that they stay, from each opening", examples=["30m"]
    )


def _both_or_neither(within: timedelta | None, takes: timedelta | None) -> None:
    if (within is None) != (takes is None):
        missing = "drainWithin" if within is None else "jobTakes"
        expected = "drainWithin and jobTakes together: jobs per worker is drainWithin divided by jobTakes"
        raise wanted("jobs-per-worker.half-given", expected, found=f"no {missing}", example="10m", at=missing)


def _morning_within_max(morning: Morning | None, most: int) -> None:
    if morning is not None and morning.workers > most:
        expected = f"morning workers of at most max, which is {most}"
        raise wanted(
            "morning.above-max",
            expected,
            found=str(morning.workers),
            example=f"{{ workers: {most}, for: 30m }}",
            at="morning",
        )


REDIS_ENV = {SourceKind.RQ: "RQ_REDIS_URL", SourceKind.CELERY: "CELERY_BROKER_URL", SourceKind.LIST: "REDIS_URL"}
"""Variable in which each framework expects the URL of its Redis."""

REPORTS_ENV, BROKER_PASSWORD_ENV = "EBBTIDE_REDIS_URL", "EBBTIDE_BROKER_PASSWORD"
CONSUMER_TIMEOUT_ENV, LONGEST_JOB_ENV = "EBBTIDE_CONSUMER_TIMEOUT", "EBBTIDE_LONGEST_JOB"
"""Variables of workers on a broker: the Redis for their reports, the password of the broker's `workers`, and the
seconds of `consumerTimeout` and `longestJob`.
"""

BROKER_ENV = {SourceKind.CELERY: "CELERY_BROKER_URL", SourceKind.CONSUMER: "EBBTIDE_BROKER_URL"}
"""Variable in which workers of a kind expect the address of their broker."""

REGION_ENV = "AWS_DEFAULT_REGION"  # boto3's


def sqs_variables(kind: SourceKind, region: str) -> Mapping[str, str]:
    """Return the variables of workers on SQS: the region in which boto3 and Celery look for queues, and for Celery the
    transport, which takes its credentials from the pod.
    """
    return {REGION_ENV: region} | ({"CELERY_BROKER_URL": "sqs://"} if kind is SourceKind.CELERY else {})


_OURS = (
    "REDIS_HOST",
    "REDIS_PORT",
    "REDIS_DB",
    "REDIS_PASSWORD",
    "REDIS_CA_FILE",
    CHECKPOINTS_ENV,
    RAY_ENV,
    *RAY_TOKEN_VARIABLES,
)


def _env_beside_ours(source: Source, env: Mapping[str, EnvVariable]) -> None:
    in_broker = (REPORTS_ENV, BROKER_PASSWORD_ENV, CONSUMER_TIMEOUT_ENV, LONGEST_JOB_ENV)
    for name in (*_OURS, *(in_broker if source.broker is not None else (REDIS_ENV.get(source.kind, ""),))):
        if name in env:
            expected = "another name: Ebbtide sets this variable for queues, checkpoints or Ray"
            raise wanted("env.ours", expected, example="JOB_REDIS_URL", at=("env", name))


def _no_readiness(probes: Probes) -> None:
    if probes.readiness is not None:
        expected = "only liveness and startup for workers"
        hint = (
            "Kubernetes removes pods that are not ready first, so a probe that fails for a moment could make it remove "
            "a busy worker"
        )
        raise wanted("probe.readiness-of-worker", expected, example="liveness", hint=hint, at=("probes", "readiness"))


def _checkpoints_can_pause(checkpoints: CheckpointSettings | None, safe_stop: object) -> None:
    if checkpoints is not None and not safe_stop:
        raise wanted(
            "checkpoints.cannot-pause",
            "safeStop: true with checkpoints: a worker that does not stop safely cannot pause its job",
            found="a pool without a safe stop",
            example="safeStop: true",
            hint="the worker classes of ebbtide-jobs pause; a pool with its own command must say that it uses them",
            at="safeStop",
        )


def _saved_before_the_job_would_end(checkpoints: CheckpointSettings | None, longest_job: timedelta) -> None:
    if checkpoints is not None and checkpoints.required and checkpoints.save_within >= longest_job:
        expected = f"less than longestJob, which is {format_duration(longest_job)}: ending the job takes no longer"
        hint = "or leave required out"
        raise wanted(
            "checkpoints.longer-than-job",
            expected,
            found=format_duration(checkpoints.save_within),
            example="90s",
            hint=hint,
            at=("checkpoints", "saveWithin"),
        )


def _claim_has_its_path(checkpoints: CheckpointSettings | None, volumes: Mapping[str, Volume]) -> None:
    for name, volume in volumes.items() if checkpoints is not None and checkpoints.claim is not None else ():
        if f"{CHECKPOINTS_PATH}/".startswith(f"{volume.at}/") or volume.at.startswith(f"{CHECKPOINTS_PATH}/"):
            expected = f"a path outside {CHECKPOINTS_PATH}, where the claim of the checkpoints is mounted"
            raise wanted("volume.path-twice", expected, found=volume.at, example=f"/{name}", at=("volumes", name, "at"))


def _no_checkpoints_with_a_broker(source: Source, checkpoints: CheckpointSettings | None) -> None:
    if source.broker is not None and checkpoints is not None:
        raise wanted(
            "checkpoints.broker",
            "no checkpoints with a broker: a paused task returns to its queue by Redis' means",
            found="checkpoints",
            example="no checkpoints",
            at="checkpoints",
        )


def _a_fallback_needs_saves(fallback: str, checkpoints: CheckpointSettings | None) -> None:
    if fallback and (checkpoints is None or not checkpoints.required):
        raise wanted(
            "fallback.without-saves",
            "checkpoints of required: true with a fallback",
            found="no checkpoints" if checkpoints is None else "checkpoints that are not required",
            example="checkpoints: { store: s3://acme-checkpoints, every: 5m, saveWithin: 90s, required: true }",
            hint="one budget covers the workers on both groups and admits every drain, so their jobs must save",
            at="fallback",
        )


def _jobs_per_worker(fields: Mapping[str, Any]) -> int:
    """Return how many jobs one worker completes within the longest wait of a job."""
    within, takes = fields.get("drain_within"), fields.get("job_takes")
    return max(1, within // takes) if within and takes else 1


def _stops_safely(fields: Mapping[str, Any]) -> bool:
    """True only for Ebbtide's own worker command; the owner of another image must state how it handles SIGTERM."""
    source = fields.get("source")
    return source is None or (source.kind is SourceKind.RQ and not fields.get("command"))


class PoolSettings(Settings):
    """Sizing of a worker pool. It does not describe the workers' pods."""

    checks: ClassVar[tuple[Check, ...]] = (
        MIN_WITHIN_MAX,
        Check(("drain_within", "job_takes"), _both_or_neither),
        Check(("morning", "max"), _morning_within_max),
    )
    one_of: ClassVar[tuple[tuple[str, str], ...]] = (("jobsPerWorker", "drainWithin"), ("jobsPerWorker", "jobTakes"))

    source: Source = Field(description="queues of its jobs", examples=["{ kind: rq, queues: [train] }"])
    min: Count = Field(
        default=0, description="minimum number of workers; above 0 their nodes stay up overnight", examples=["0"]
    )
    max: Positive = Field(description="maximum number of workers", examples=["30"])
    longest_job: PositiveDuration = Field(
        description="longest run time of a job. A stopping worker gets this long, so a value that is too short "
        "kills jobs. With checkpoints each attempt counts separately",
        examples=["12h"],
    )
    drain_within: PositiveDuration | None = Field(
        default=None,
        description="longest wait of a job; with jobTakes, instead of jobsPerWorker",
        examples=["10m"],
    )
    job_takes: PositiveDuration | None = Field(
        default=None, description="usual duration of a job; with drainWithin", examples=["90s"]
    )
    jobs_per_worker: Positive = Field(
        default_factory=_jobs_per_worker,
        description="jobs per worker; default: 1, or drainWithin divided by jobTakes",
        examples=["1"],
    )
    growth_per_minute: Positive | None = Field(
        default=None, description="maximum of workers added per minute; default: no limit", examples=["10"]
    )
    morning: Morning | None = Field(
        default=None,
        description="workers that are ready at each opening, even without jobs",
        examples=["{ workers: 2, for: 30m }"],
    )
    stabilization_window: Duration = Field(
        default=timedelta(minutes=2),
        description="time for which demand must stay low before workers are removed, since starting a worker "
        "costs more than keeping it",
        examples=["2m"],
    )


class WorkerSettings(PoolSettings, ScrapedPodSettings, GroupPodSettings):
    """A worker pool: one Deployment that scales with its queue, down to zero."""

    checks: ClassVar[tuple[Check, ...]] = (
        *ScrapedPodSettings.checks,
        Check(("source", "env"), _env_beside_ours),
        Check(("probes",), _no_readiness),
        Check(("volumes",), no_claims),
        *PoolSettings.checks,
        Check(("checkpoints", "safe_stop"), _checkpoints_can_pause),
        Check(("source", "checkpoints"), _no_checkpoints_with_a_broker),
        Check(("checkpoints", "longest_job"), _saved_before_the_job_would_end),
        Check(("checkpoints", "volumes"), _claim_has_its_path),
        Check(("fallback", "checkpoints"), _a_fallback_needs_saves),
    )
    instead_of: ClassVar[dict[str, str]] = {
        "calm": "it is called stabilizationWindow",
        "floor": "a pool's floors are min, morning and businessHours.overnight; a forecast of its workers pays "
        f"in none of 36 cases ({page_command('results-of-pool-forecasts')})",
        "sleep": "a pool without jobs has no workers: min: 0",
        "kubernetes": "a queue worker starts no pods; a program that does is a workload, under ebbtide:workloads",
    }
    not_on_fixed: ClassVar[str] = "workers scale to zero"

    command: tuple[Word, ...] = Field(
        default=(),
        description="command of the image; default: rq with the safe worker class, for other kinds the image's own",
        examples=["[celery, -A, app, worker, -Q, train]"],
    )
    checkpoints: CheckpointSettings | None = Field(
        default=None,
        description="checkpoints of its jobs, so that an interrupted job resumes",
        examples=["{ store: s3://acme-checkpoints, every: 5m, saveWithin: 90s }"],
    )
    ray: ShortName | None = Field(
        default=None,
        description="the Ray cluster that its jobs drive; workers receive its address, token and version",
        examples=["flow"],
    )
    safe_stop: Annotated[bool, Strict()] = Field(
        default_factory=_stops_safely,
        description="a stopping worker never loses a job; default: true for rq with the default command, else "
        "false. With false the pool scales down only if no job can be lost",
        examples=["true"],
    )
    node_group: str = Field(
        default="",
        description=NODE_GROUP,
        examples=["flexible"],
    )
    fallback: str = Field(
        default="",
        description="on-demand node group for workers that get no spot node; with nodeGroup of kind spot and "
        "checkpoints of required: true. In business hours no running worker is moved back",
        examples=["gpu"],
    )

    @property
    def least(self) -> int:
        return self.min

    @property
    def most(self) -> int:
        return self.max

    @property
    def stop_time(self) -> timedelta:
        """Return the time that a stopping worker needs: its longest job, or a save if it must save."""
        return self.checkpoints.save_within if self.checkpoints and self.checkpoints.required else self.longest_job

    @property
    def must_save(self) -> bool:
        """True if its stopping workers get only the time of a save."""
        return self.checkpoints is not None and self.checkpoints.required


def grace_seconds(pool: WorkerSettings) -> int:
    """Return full minutes, rounded up, plus the margin, so that a worker exits before the kubelet kills it."""
    minutes = math.ceil((pool.stop_time + STOP_MARGIN) / timedelta(minutes=1))
    return minutes * 60
