"""The sections of jobs and cron jobs: what runs to its end.

A job is of category worker: nobody moves its pods, by day or by night, and its node goes when it has ended. Nothing
scales it, and no queue starts it.

What is not offered, and why: `ttlSecondsAfterFinished` would delete a Job that Pulumi manages, and the next `up` would
find it gone and run it again. A grace period: an eviction is refused, and what a deletion cuts short was asked for.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, Strict

from ebbtide.settings.file.wanted import wanted
from ebbtide.settings.sections.calendars import parse_timezone
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.cron import Cron
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.pods.probes import Probes
from ebbtide.settings.sections.pods.volumes import no_claims
from ebbtide.settings.sections.types import Count, Positive, PositiveDuration
from ebbtide.units.durations import format_duration

_LEAST_START = timedelta(seconds=10)
_KEPT = "a finished Job that deletes itself would be run again by the next `up`"


def _parallelism_within_completions(parallelism: int, completions: int) -> None:
    if parallelism > completions:
        what = f"at most completions, which is {completions}"
        raise wanted("parallelism.above-completions", what, example=str(completions), at="parallelism")


def _takes_within_limit(run_takes: timedelta | None, longest_run: timedelta) -> None:
    if run_takes is not None and run_takes > longest_run:
        what = f"at most longestRun, which is {format_duration(longest_run)}: the job is stopped then"
        raise wanted("run-takes.above-longest", what, example=format_duration(longest_run), at="runTakes")


def _no_readiness(probes: Probes) -> None:
    if probes.readiness is not None:
        what = "only liveness and startup for jobs, since no traffic waits for readiness"
        raise wanted("probe.readiness-of-job", what, example="liveness", at=("probes", "readiness"))


class JobSettings(PodSettings):
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
        "longestJob": "the key is longestRun here: it ends the job, while longestJob is the grace of a worker",
        "backoffLimit": "the key is retries",
        "activeDeadlineSeconds": "the key is longestRun",
    }

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
    node_group: str = Field(
        default="", description="node group of the pods; default: the cheapest that fits", examples=["flexible"]
    )


class Concurrency(StrEnum):
    FORBID = "forbid"
    ALLOW = "allow"
    REPLACE = "replace"


def _time_to_start(within: timedelta | None) -> None:
    if within is not None and within < _LEAST_START:
        hint = "Kubernetes looks every ten seconds, so with less a run may never start"
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
