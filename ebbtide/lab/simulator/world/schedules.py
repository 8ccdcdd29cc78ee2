"""The due times and durations of a stack file's jobs and cron jobs.

A job runs once, at second 0. A cron job starts at every instant whose local time fits its schedule, as in Kubernetes
(robfig/cron): a local time that a clock change skips starts no run, one that occurs twice starts two. No run is active
at second 0, and a suspended cron job never starts.

The duration of a run is its `runTakes`, or else its `longestRun`, which it cannot exceed. Several pods share that time
evenly: the next ones follow when the first ones have ended.

`runs` models a run on a cluster, with waits for nodes; `Busy` is the same run without waits.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain

from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.jobs import Concurrency, CronJobSettings, CronTimes, JobSettings, cron_times
from ebbtide.text.durations import ONE_DAY, format_duration
from ebbtide.vocabulary.windows import zone_of


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job or cron job: the due times of its runs, in seconds from the start of the replay, and the shape of a run."""

    workload: str
    due: tuple[float, ...]  # increasing
    pod_s: float  # the duration of each pod
    most_s: float  # from the start to the stop of a run, waits for nodes included
    completions: int = 1
    parallelism: int = 1
    retries: int = 0
    concurrency: Concurrency = Concurrency.ALLOW
    start_within_s: float = math.inf

    def starts_late(self, due: float, now: float) -> bool:
        """True if a run that could not start when it was due may still start."""
        return now - due <= self.start_within_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Pods of one job that run from one instant to another."""

    workload: str
    begin: float
    end: float
    pods: int


def every_job(settings: StackSettings) -> Mapping[str, JobSettings]:
    """The jobs of both sections, which share their names."""
    return {**settings.jobs, **settings.cron_jobs}


def workload_of(job: str) -> str:
    """The workload name of a job in the modelled cluster: a service may have the job's name."""
    return f"job {job}"


def job_plans(settings: StackSettings, start: datetime, end_s: float) -> tuple[JobPlan, ...]:
    """The plans of all jobs, with the runs that are due within `end_s` of `start`."""
    once = [_plan(name, job, (0.0,), Concurrency.ALLOW, None) for name, job in sorted(settings.jobs.items())]
    by_clock = [
        _plan(name, job, _due(settings, job, start, end_s), job.concurrency, job.start_within)
        for name, job in sorted(settings.cron_jobs.items())
    ]
    return (*once, *by_clock)


def _plan(
    name: str, job: JobSettings, due: tuple[float, ...], concurrency: Concurrency, within: timedelta | None
) -> JobPlan:
    return JobPlan(
        workload=workload_of(name),
        due=due,
        pod_s=job.expected_run.total_seconds() / math.ceil(job.completions / job.parallelism),
        most_s=job.longest_run.total_seconds(),
        completions=job.completions,
        parallelism=job.parallelism,
        retries=job.retries,
        concurrency=concurrency,
        start_within_s=math.inf if within is None else within.total_seconds(),
    )


def _due(settings: StackSettings, job: CronJobSettings, start: datetime, end_s: float) -> tuple[float, ...]:
    if job.suspended:
        return ()
    begin = start.astimezone(UTC)
    until = begin + timedelta(seconds=end_s)
    zone = job.timezone or settings.business_hours.timezone
    return tuple((at - begin).total_seconds() for at in instants(cron_times(job.schedule), zone, begin, until))


def instants(times: CronTimes, timezone: str, begin: datetime, until: datetime) -> Iterator[datetime]:
    """Instants in UTC, in order, from `begin` to before `until`, whose local time fits."""
    zone = zone_of(timezone)
    day, last = begin.astimezone(zone).date(), until.astimezone(zone).date()
    while day <= last:
        if times.on(day):
            matches: set[datetime] = set()
            for hour in times.hours:
                for minute in times.minutes:
                    wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                    both = (wall.astimezone(UTC), wall.replace(fold=1).astimezone(UTC))
                    # A skipped local time converts to UTC and back to another local time.
                    matches.update(
                        at for at in both if at.astimezone(zone).replace(tzinfo=None) == wall.replace(tzinfo=None)
                    )
            yield from (at for at in sorted(matches) if begin <= at < until)
        day += ONE_DAY


def busy(plan: JobPlan, end_s: float) -> tuple[Busy, ...]:
    """The pods of its runs until `end_s`, if none waits for a node."""
    return tuple(
        chain.from_iterable(_waves(plan, begin, min(end, end_s)) for begin, end in _spans(plan) if begin < end_s)
    )


def _spans(plan: JobPlan) -> Iterator[tuple[float, float]]:
    lasts = plan.pod_s * math.ceil(plan.completions / plan.parallelism)
    if plan.concurrency is Concurrency.FORBID:
        yield from _one_after_the_other(plan, lasts)
        return
    for due, following in zip(plan.due, (*plan.due[1:], math.inf), strict=True):
        yield due, min(due + lasts, following if plan.concurrency is Concurrency.REPLACE else math.inf)


def _one_after_the_other(plan: JobPlan, lasts: float) -> Iterator[tuple[float, float]]:
    """A run that is due while another one is active starts late; of several such runs only the latest one starts."""
    free, missed = 0.0, None
    for due in plan.due:
        if missed is not None and free <= due and plan.starts_late(missed, free):
            yield free, free + lasts
            free += lasts
        missed = due if due < free else None
        if missed is None:
            yield due, due + lasts
            free = due + lasts
    if missed is not None and plan.starts_late(missed, free):
        yield free, free + lasts


def _waves(plan: JobPlan, begin: float, end: float) -> Iterator[Busy]:
    remaining = plan.completions
    while remaining and begin < end:
        pods, until = min(remaining, plan.parallelism), min(begin + plan.pod_s, end)
        yield Busy(workload=plan.workload, begin=begin, end=until, pods=pods)
        remaining, begin = remaining - pods, until


def job_assumptions(settings: StackSettings) -> Iterator[str]:
    """The assumptions of a replay about jobs and cron jobs, if the stack has any."""
    every = every_job(settings)
    suspended = [name for name, job in settings.cron_jobs.items() if job.suspended]
    running = {name: job for name, job in every.items() if name not in suspended}
    if every:
        yield (
            f"Jobs start once, at second 0 ({_named(settings.jobs)}), and cron jobs by their schedules "
            f"({_named([name for name in settings.cron_jobs if name in running])}); no run is active at second 0. "
            "Their pods are never moved, so their nodes stay until they end; queues and waits do not include them. "
            "fixed-fleet, peak-fleet and zero-wait-bound start each run when it is due."
        )
    stated = [f"{name} {format_duration(job.run_takes)}" for name, job in running.items() if job.run_takes is not None]
    if stated:
        yield f"A run takes its runTakes: {', '.join(stated)}; several pods share that time evenly."
    unstated = [f"{name} {format_duration(job.longest_run)}" for name, job in running.items() if job.run_takes is None]
    if unstated:
        yield f"A run without runTakes takes its longestRun: {', '.join(unstated)}."
    if suspended:
        yield f"Suspended cron jobs never start: {', '.join(suspended)}."


def _named(jobs: Iterable[str]) -> str:
    return ", ".join(jobs) or "none"
