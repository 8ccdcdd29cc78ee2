"""The section of worker pools: what runs while jobs wait."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, Strict

from ebbtide.settings.business_hours import within_a_day
from ebbtide.settings.checked import MIN_WITHIN_MAX, Check, Settings
from ebbtide.settings.lists import each_once
from ebbtide.settings.types import (
    Count,
    Duration,
    Image,
    Mebibytes,
    Millicores,
    Positive,
    PositiveDuration,
    Queue,
    Word,
    acted_on,
)
from ebbtide.settings.wanted import wanted


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
    for_: Annotated[PositiveDuration, AfterValidator(within_a_day)] = Field(
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
        MIN_WITHIN_MAX,
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
