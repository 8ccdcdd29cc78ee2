"""The sections of jobs and cron jobs: pods that run to completion.

A job has category worker: its pods are never moved, and its node is removed when it has ended. No queue and no
autoscaler starts jobs.

Deliberately missing: `ttlSecondsAfterFinished`, since it deletes a Job that Pulumi manages and the next `up` would run
it again; and a grace period, since evictions are refused and a deletion is meant to end the job.

Cron expressions have five fields and are read as the API server reads them (robfig/cron, `ParseStandard`), so that a
mistake has one message with file and line. Differences from the cron of a host: Sunday is 0 and never 7, and no field
may name a zone. Kubernetes accepts a day that no month has, and such a CronJob never runs; it is refused here.
"""

import re
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, Strict

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.calendars import parse_timezone
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import text_schema
from ebbtide.settings.sections.pods.group import NODE_GROUP, GroupPodSettings
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.pods.probes import Probes
from ebbtide.settings.sections.pods.volumes import no_claims
from ebbtide.settings.sections.types import Count, Positive, PositiveDuration
from ebbtide.text.durations import format_duration

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(\*|\?|[0-9]{1,2}|[A-Za-z]{3})(?:-([0-9]{1,2}|[A-Za-z]{3}))?(?:/([0-9]{1,2}))?")
_EXAMPLE = '"30 2 * * 1-5"'


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 6, _DAYS),
)


def parse_cron(value: object) -> str:
    """Return the expression with single blanks."""
    parts = value.split() if isinstance(value, str) else []
    if len(parts) != len(_FIELDS):
        expected = "a cron expression of five fields: minute, hour, day of the month, month, day of the week"
        hint = "write it in five fields" if isinstance(value, str) and value.startswith("@") else ""
        raise wanted("cron.form", expected, example=_EXAMPLE, hint=hint)
    values = [_numbers(text, field) for text, field in zip(parts, _FIELDS, strict=True)]
    for text, field, numbers in zip(parts, _FIELDS, values, strict=True):
        if not numbers:
            hint = "Sunday is 0" if field.name == "day of the week" and "7" in text else ""
            expected = f"a {field.name} from {field.least} to {field.most}: *, numbers, ranges, lists and steps"
            raise wanted("cron.field", expected, found=repr(text), example=_EXAMPLE, hint=hint)
    _, _, days, months, _ = values
    # If the expression names a weekday, either kind of day suffices.
    if _any(parts[4]) and not any(day <= _LONGEST[month - 1] for day in days for month in months):
        raise wanted("cron.never", "a day that one of its months has, or it never runs", example=_EXAMPLE)
    return " ".join(parts)


class CronTimes(NamedTuple):
    """The times of an expression, each field in ascending order. Sunday is 0."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    either_day: bool
    """The expression has a day of the month and a weekday: either one suffices. Otherwise both must match."""

    def on(self, day: date) -> bool:
        """True if there are times on this day."""
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (of_month or of_week if self.either_day else of_month and of_week)


def cron_times(expression: str) -> CronTimes:
    """Return the times of an expression that `parse_cron` accepted."""
    parts = expression.split()
    numbers = [tuple(sorted(_numbers(text, field))) for text, field in zip(parts, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = numbers
    return CronTimes(minutes, hours, days, months, weekdays, not _any(parts[2]) and not _any(parts[4]))


def _any(text: str) -> bool:
    """True for a field without a restriction. As in robfig/cron, a step above 1 is a restriction."""
    return any(part in ("*", "?", "*/1", "?/1") for part in text.split(","))


def _numbers(text: str, field: _Field) -> set[int]:
    """Return the numbers of a field, none if a part is invalid."""
    numbers: set[int] = set()
    for part in text.split(","):
        part_numbers = _part_numbers(part, field)
        if not part_numbers:
            return set()
        numbers.update(part_numbers)
    return numbers


def _part_numbers(part: str, field: _Field) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        return range(0)
    first, last, step = match.groups()
    if first in "*?":
        start, end = (field.least, field.most) if last is None else (None, None)
    else:
        start = _number(first, field)
        end = _number(last, field) if last is not None else (field.most if step is not None else start)
    every = int(step) if step is not None else 1
    if start is None or end is None or every == 0:
        return range(0)
    return range(start, end + 1, every)


def _number(text: str, field: _Field) -> int | None:
    if text.isdecimal():
        return int(text) if field.least <= int(text) <= field.most else None
    return field.least + field.words.index(text.lower()) if text.lower() in field.words else None


Cron: TypeAlias = Annotated[str, BeforeValidator(parse_cron), text_schema(r"^\s*\S+(\s+\S+){4}\s*$")]


_LEAST_START = timedelta(seconds=10)
_KEPT = "a finished Job that deletes itself would be run again by the next `up`"


def _parallelism_within_completions(parallelism: int, completions: int) -> None:
    if parallelism > completions:
        expected = f"at most completions, which is {completions}"
        raise wanted("parallelism.above-completions", expected, example=str(completions), at="parallelism")


def _takes_within_limit(run_takes: timedelta | None, longest_run: timedelta) -> None:
    if run_takes is not None and run_takes > longest_run:
        expected = f"at most longestRun, which is {format_duration(longest_run)}: the job is stopped then"
        raise wanted("run-takes.above-longest", expected, example=format_duration(longest_run), at="runTakes")


def _no_readiness(probes: Probes) -> None:
    if probes.readiness is not None:
        expected = "only liveness and startup for jobs, since no traffic waits for readiness"
        raise wanted("probe.readiness-of-job", expected, example="liveness", at=("probes", "readiness"))


class JobSettings(GroupPodSettings):
    """A job: pods that run once to completion."""

    checks: ClassVar[tuple[Check, ...]] = (
        *PodSettings.checks,
        Check(("parallelism", "completions"), _parallelism_within_completions),
        Check(("run_takes", "longest_run"), _takes_within_limit),
        Check(("probes",), _no_readiness),
        Check(("volumes",), no_claims),
    )
    instead_of: ClassVar[dict[str, str]] = {
        "keepFor": _KEPT,
        "ttlSecondsAfterFinished": _KEPT,
        "longestJob": "the key is longestRun here: it ends the job, while longestJob is the grace period of a worker",
        "backoffLimit": "the key is retries",
        "activeDeadlineSeconds": "the key is longestRun",
    }
    not_on_fixed: ClassVar[str] = "a job ends"

    longest_run: PositiveDuration = Field(
        description="the job fails after this time, which includes waiting for a node and retries",
        examples=["6h"],
    )
    run_takes: PositiveDuration | None = Field(
        default=None,
        description="usual duration of a run once its pods have nodes, for the simulator and the estimate; "
        "default: longestRun",
        examples=["20m"],
    )
    retries: Count = Field(
        default=0,
        description="replacement pods after a failure or a lost node; 0 if a partial run must not be repeated",
        examples=["2"],
    )
    completions: Positive = Field(default=1, description="number of pods that must succeed", examples=["8"])
    parallelism: Positive = Field(
        default=1, description="number of concurrent pods, at most completions", examples=["4"]
    )
    node_group: str = Field(default="", description=NODE_GROUP, examples=["flexible"])

    @property
    def least(self) -> int:
        return 0

    @property
    def most(self) -> int:
        return self.parallelism

    @property
    def expected_run(self) -> timedelta:
        return self.longest_run if self.run_takes is None else self.run_takes


class Concurrency(StrEnum):
    FORBID = "forbid"
    ALLOW = "allow"
    REPLACE = "replace"


def _time_to_start(within: timedelta | None) -> None:
    if within is not None and within < _LEAST_START:
        hint = "Kubernetes checks every ten seconds, so with less time a run may never start"
        raise wanted("start-within.too-short", "at least 10s", example="10m", hint=hint, at="startWithin")


class History(Settings):
    """Finished Jobs of a cron job to keep, with their logs."""

    succeeded: Count = Field(default=1, description="number of successful Jobs", examples=["1"])
    failed: Count = Field(default=3, description="number of failed Jobs", examples=["3"])


class CronJobSettings(JobSettings):
    """A job with a schedule."""

    checks: ClassVar[tuple[Check, ...]] = (*JobSettings.checks, Check(("start_within",), _time_to_start))

    schedule: Cron = Field(
        description="cron schedule: minute, hour, day of the month, month, and day of the week (Sunday is 0)",
        examples=['"30 2 * * 1-5"'],
    )
    timezone: Annotated[str, BeforeValidator(parse_timezone)] | None = Field(
        default=None, description="IANA time zone; default: that of businessHours", examples=["America/New_York"]
    )
    concurrency: Concurrency = Field(
        default=Concurrency.FORBID,
        description="behavior if the last run has not ended: forbid skips the new run, allow runs both, "
        "replace stops the old run",
        examples=["forbid"],
    )
    start_within: PositiveDuration | None = Field(
        default=None,
        description="a run that cannot start within this time is skipped; default: it starts late",
        examples=["10m"],
    )
    history: History = Field(default=History(), description="finished runs to keep, with their logs")
    suspended: Annotated[bool, Strict()] = Field(
        default=False, description="start no new runs; a running one continues", examples=["true"]
    )
