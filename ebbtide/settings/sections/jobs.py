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
        what = "liveness and startup alone, for jobs: no traffic waits until one is ready"
        raise wanted("probe.readiness-of-job", what, example="liveness", at=("probes", "readiness"))


class JobSettings(PodSettings):
    """A job: pods that run to their end, once."""

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
        description="the job is stopped after this time and has failed; waiting for a node and retries count",
        examples=["6h"],
    )
    run_takes: PositiveDuration | None = Field(
        default=None,
        description="what a run takes, as a rule, once its pods have nodes: for the simulator and the estimate alone, "
        "which take longestRun without it",
        examples=["20m"],
    )
    retries: Count = Field(
        default=0,
        description="new pods after one has failed or its node was lost; 0 where half a run must not be run again",
        examples=["2"],
    )
    completions: Positive = Field(default=1, description="pods that must succeed", examples=["8"])
    parallelism: Positive = Field(default=1, description="pods at a time, at most completions", examples=["4"])
    node_group: str = Field(
        default="", description="the group its pods run on; default: the cheapest that fits", examples=["flexible"]
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
    """How many ended Jobs of a cron job are kept, with their logs."""

    succeeded: Count = Field(default=1, description="that succeeded", examples=["1"])
    failed: Count = Field(default=3, description="that failed", examples=["3"])


class CronJobSettings(JobSettings):
    """A job that starts by the clock."""

    checks: ClassVar[tuple[Check, ...]] = (*JobSettings.checks, Check(("start_within",), _time_to_start))

    schedule: Cron = Field(
        description="when it starts: minute, hour, day of the month, month and day of the week, where Sunday is 0",
        examples=['"30 2 * * 1-5"'],
    )
    timezone: Annotated[str, BeforeValidator(parse_timezone)] | None = Field(
        default=None, description="IANA name; default: that of businessHours", examples=["America/New_York"]
    )
    concurrency: Concurrency = Field(
        default=Concurrency.FORBID,
        description="what happens when the last run has not ended: forbid holds the new one back, allow runs both, "
        "replace stops the old one",
        examples=["forbid"],
    )
    start_within: PositiveDuration | None = Field(
        default=None,
        description="a run that could not start in this time is left out; default: it starts late",
        examples=["10m"],
    )
    history: History = Field(default=History(), description="ended runs that are kept, with their logs")
    suspended: Annotated[bool, Strict()] = Field(
        default=False, description="no new run starts; one that runs is not stopped", examples=["true"]
    )
