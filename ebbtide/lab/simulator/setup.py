"""The inputs that all strategies of a replay share: jobs with their pools, the calendar, the measured time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ebbtide.lab.simulator.billing import day_ends
from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, Strategy
from ebbtide.lab.simulator.trace.alignment import REFERENCE_MONDAY, aligned_start
from ebbtide.lab.simulator.trace.traces import Job, Trace
from ebbtide.lab.simulator.world.failures import Failures, accidents_of, spot_types
from ebbtide.lab.simulator.world.gangs import largest_gangs
from ebbtide.lab.simulator.world.pools import Assignment, PooledJob, assign
from ebbtide.lab.simulator.world.rollouts import Rollout, planned_rollouts
from ebbtide.lab.simulator.world.schedules import Busy, JobPlan, busy, job_plans
from ebbtide.lab.simulator.world.sleep import Asleep, planned_sleep
from ebbtide.lab.simulator.world.spot_capacity import CapacitySource, Period, spot_capacity_of
from ebbtide.settings.capacity.node_sets import sets_without_shape, with_node_sets
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import DAY_S
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.windows import zone_of

RESYNC = timedelta(hours=1)
"""The longest time between two readings of a replay. Production resyncs every few seconds because events can be lost;
in virtual time none is."""
RESYNC_FOR_DRAIN_TARGETS = timedelta(seconds=60)
"""For stacks with a drain target: no event reports that the head of a queue has waited too long."""

DAYS_OF_NIGHTS = 7
"""Each weekday once, and a weekend."""

MOST_TASKS = 2_000_000
"""The limit for all drivers together: each task is an event or two."""


class ReplayError(ValueError):
    """The trace cannot be replayed on the stack. The message is one line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """`days` None: the entire trace. `start` None: the trace's dates, or aligned with business hours; without a zone:
    local time of the customer. Jobs above `max_job_s` are excluded. Without `rollouts` no service is deployed.
    """

    days: int | None = None
    start: datetime | None = None
    max_job_s: float | None = None
    strategies: tuple[Strategy, ...] = DEFAULT_STRATEGIES
    seed: int = 0
    rollouts: bool = True
    failures: Failures = field(default_factory=Failures)
    spot_capacity: CapacitySource | None = None  # None: spot nodes always have capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySetup:
    """`start` is second 0 of the trace, in the customer's zone; `day_ends` are the local midnights, in seconds."""

    settings: StackSettings
    options: ReplayOptions
    config: ControllerConfig
    assignment: Assignment
    left_out: int  # jobs that are too long for this replay
    start: datetime
    end_s: float
    day_ends: tuple[float, ...]
    seed: int
    rollouts: tuple[Rollout, ...]
    runs: tuple[JobPlan, ...] = ()  # jobs and cron jobs of the stack file; `jobs` are the trace's
    asleep: tuple[Asleep, ...] = ()
    accidents: Accidents | None = None

    @property
    def jobs(self) -> tuple[PooledJob, ...]:
        return self.assignment.jobs

    def on_stack(self, settings: StackSettings) -> "ReplaySetup":
        """The same jobs and calendar on a changed stack."""
        if settings is self.settings:
            return self
        return replace(
            self,
            settings=settings,
            config=replay_config(settings, self.start),
            accidents=_accidents(self.options, settings, self.period),
        )

    @property
    def period(self) -> Period:
        return Period(start=self.start, end_s=self.end_s, seed=self.seed)

    @property
    def busy(self) -> tuple[Busy, ...]:
        """The pods of the stack file's jobs, if none waits for a node."""
        return tuple(part for plan in self.runs for part in busy(plan, self.end_s))


def with_known_nodes(settings: StackSettings) -> StackSettings:
    """Return the stack with adopted pools among its workers, and with node groups.

    On an existing cluster `cluster.nodeShapes` defines them. Raises `ReplayError` if a pod's nodes are not described.
    """
    settings = with_adopted_pools(settings)
    if settings.cluster.context is None or settings.node_groups:
        return settings
    if missing := sets_without_shape(settings):
        example = "{ flexible: { cpu: 15800m, memory: 60Gi, max: 8 } }"
        raise ReplayError(
            f"{settings.stack}: wanted the size of the existing cluster's nodes in ebbtide:cluster.nodeShapes, found "
            f"none for {', '.join(missing)} (for example nodeShapes: {example.replace('flexible', missing[0])})"
        )
    return with_node_sets(settings)


def replay_setup_of(settings: StackSettings, trace: Trace, options: ReplayOptions) -> ReplaySetup:
    """Assign the trace's jobs to pools, and align it with the customer's week. Raises `ReplayError`."""
    settings = with_known_nodes(settings)
    if options.spot_capacity is not None and settings.cluster.context is not None:
        raise ReplayError(
            f"{settings.stack}: wanted a cluster that the stack creates, with known zones, for --spot-capacity; found "
            "an existing one (ebbtide:cluster.context)"
        )
    if not settings.workers:
        raise ReplayError(
            f"{settings.stack}: wanted a worker pool for the trace's jobs (ebbtide:workers), found none; "
            "requests go to a service (for example --service NAME --trace requests-servegen-m-small), and nights need "
            f"no trace (for example ebbtide simulate {settings.stack})"
        )
    chosen_start = options.start or trace.start
    config = replay_config(settings, chosen_start)
    days = trace.days if options.days is None else options.days
    if not 1 <= days <= trace.days:
        raise ReplayError(f"trace {trace.name}: wanted 1 to {trace.days} days, found {days} (for example {trace.days})")
    end_s = days * DAY_S
    submitted = [job for job in trace.jobs if job.submitted_at < end_s]
    chosen = [job for job in submitted if options.max_job_s is None or job.duration_s <= options.max_job_s]
    assignment = assign(chosen, settings.workers, largest_gangs(settings), settings.ray, trace.queues)
    if not assignment.jobs:
        raise ReplayError(_nothing_to_replay(trace, days, chosen, assignment.unfit))
    tasks = sum(job.ray.tasks for job in assignment.jobs if job.ray is not None)
    if tasks > MOST_TASKS:
        raise ReplayError(
            f"trace {trace.name}: wanted at most {MOST_TASKS} Ray tasks in {days} days, found {tasks}: longer "
            "work is requested in parts of longestTask (for example longestTask: 1h)"
        )
    start = aligned_start(trace.jobs, config.hours) if chosen_start is None else _local(chosen_start, config)
    calendar = _Calendar(config=config, period=Period(start=start, end_s=end_s, seed=options.seed))
    return _setup(settings, options, assignment, calendar, left_out=len(submitted) - len(chosen))


def night_setup_of(settings: StackSettings, options: ReplayOptions) -> ReplaySetup:
    """Return the setup of a replay without jobs. By default it is a week from a Monday on. Raises `ReplayError`."""
    settings = with_known_nodes(settings)
    config = replay_config(settings, options.start)
    days = DAYS_OF_NIGHTS if options.days is None else options.days
    if days < 1:
        raise ReplayError(f"wanted at least 1 day, found {days} (for example {DAYS_OF_NIGHTS})")
    period = Period(start=_local(options.start or REFERENCE_MONDAY, config), end_s=days * DAY_S, seed=options.seed)
    calendar = _Calendar(config=config, period=period)
    return _setup(settings, options, assign([], settings.workers), calendar, left_out=0)


class _Calendar(NamedTuple):
    """The replayed time and the calendar that holds in it."""

    config: ControllerConfig
    period: Period


def _setup(
    settings: StackSettings, options: ReplayOptions, assignment: Assignment, calendar: _Calendar, *, left_out: int
) -> ReplaySetup:
    config, period = calendar
    start, end_s = period.start, period.end_s
    return ReplaySetup(
        settings=settings,
        options=options,
        config=config,
        assignment=assignment,
        left_out=left_out,
        start=start,
        end_s=end_s,
        day_ends=day_ends(start, config.hours.timezone, end_s),
        seed=options.seed,
        rollouts=planned_rollouts(settings.all_workloads, config.hours, start, end_s, options.seed)
        if options.rollouts
        else (),
        runs=job_plans(settings, start, end_s),
        asleep=tuple(planned_sleep(settings, config.hours, start, end_s)),
        accidents=_accidents(options, settings, period),
    )


def _accidents(options: ReplayOptions, settings: StackSettings, period: Period) -> Accidents | None:
    capacity = spot_capacity_of(options.spot_capacity, spot_types(settings), settings, period)
    return accidents_of(options.failures, settings, capacity)


def replay_config(settings: StackSettings, start: datetime | None) -> ControllerConfig:
    """The config that production would receive, with the holidays of the replayed years instead of today's."""
    year = (REFERENCE_MONDAY if start is None else start).year
    redis = RedisEndpoint(host="replayed")
    config = controller_config(settings, redis, [year - 1, year, year + 1])
    targets = any(pool.drain_within is not None for pool in config.pools)
    return replace(config, resync=RESYNC_FOR_DRAIN_TARGETS if targets else RESYNC)


def _local(start: datetime, config: ControllerConfig) -> datetime:
    zone = zone_of(config.hours.timezone)
    return start.replace(tzinfo=zone) if start.tzinfo is None else start.astimezone(zone)


def _nothing_to_replay(trace: Trace, days: int, chosen: Sequence[Job], unfit: Mapping[str, int]) -> str:
    if not chosen:
        return f"trace {trace.name}: wanted at least one job of the allowed length in the first {days} days, found none"
    reasons = ", ".join(f"{count} {reason}" for reason, count in unfit.items())
    return (
        f"trace {trace.name}: none of its {len(chosen)} jobs fits a worker pool of the stack ({reasons}); "
        "wanted a pool in ebbtide:workers that is large enough (for example cpu: 16, memory: 64Gi, longestJob: 8h)"
    )
