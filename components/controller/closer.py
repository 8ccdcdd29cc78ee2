"""The closer: closes budgets and NodePools before each opening, even if the controllers are down.

CronJobs in the customer's time zone run `python -m controllers.closer` from the controller's image. That module decides
by the clock whether to close, so a superfluous run, on a holiday or on a Sunday with another time, does nothing.

The trap: cron uses wall time, and the wall time of "opening minus guard" varies. A clock change within the guard moves
it, and cron would drop a run in a skipped hour. So the times are calculated from the instants of ten fixed years, which
makes rendering reproducible, and each deviating time has a separate CronJob.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.batch.v1 import CronJob
from pulumi_kubernetes.core.v1 import ServiceAccount

from components.context import StackContext
from components.controller.rights import closer_rules, node_closer_rules
from components.granting import grant, grant_everywhere
from components.pods.rules import container_security, home, pod_security, resources
from ebbtide.provisioning_labels import CUSTOMER, NodeKind
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import CLOSER as NAME
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE, WORKLOAD, WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours, wall_to_instant
from ebbtide.vocabulary.workloads import WorkloadsConfig

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict, PodTemplateSpecArgsDict, VolumeArgsDict, VolumeMountArgsDict

_YEARS = range(2026, 2036)  # the rules of time zones for later years are guesses, and repeat
_DAYS_OF_WEEK = 7
_DEADLINE_SECONDS = 600  # a late run still closes, up to the end of a usual guard
_CONFIG_DIRECTORY, _NODES_DIRECTORY = "/etc/ebbtide", "/etc/ebbtide-workloads"


@dataclass(frozen=True, slots=True, order=True)
class ClosingTime:
    """A time in minutes from local midnight, and the weekdays (0 is Monday) on which budgets or NodePools close."""

    minute: int
    weekdays: tuple[int, ...]

    @property
    def cron(self) -> str:
        days = ",".join(str((day + 1) % _DAYS_OF_WEEK) for day in self.weekdays)  # cron's week starts on Sunday
        return f"{self.minute % 60} {self.minute // 60} * * {days}"

    @property
    def suffix(self) -> str:
        return f"{self.minute // 60:02d}{self.minute % 60:02d}"


_EVERY_DAY = ClosingTime(0, tuple(range(_DAYS_OF_WEEK)))


@lru_cache
def closing_times(hours: BusinessHours, guard: timedelta) -> tuple[ClosingTime, ...]:
    """Return one entry for each time of day that is `guard` before an opening. Seconds are cut off, so that no closing
    is late.

    Closed dates are ignored: they change, and a run on one does nothing. For the same reason the closing of an open
    date runs on every such weekday, and so does the closing of a day whose hours continue those of the day before,
    which may be closed. Hours that never open have one entry a day, for budgets that a maintenance window left open.
    """
    ordinary = replace(hours, closed_dates=frozenset())
    last_year = max([_YEARS[-1], *(opened.day.year for opened in hours.open_dates)])
    day, end = date(_YEARS[0], 1, 1), date(last_year + 1, 1, 2)
    days_at: dict[int, set[int]] = defaultdict(set)
    while day < end:
        for minute in _openings(ordinary.intervals_on(day)):
            opening = wall_to_instant(hours.timezone, day, minute, last=False)
            closing = ordinary.local(opening - guard)
            days_at[closing.hour * 60 + closing.minute].add(closing.weekday())
        day += timedelta(days=1)
    return tuple(ClosingTime(minute, tuple(sorted(days))) for minute, days in sorted(days_at.items())) or (_EVERY_DAY,)


def _openings(intervals: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the starts of one day's intervals, except those that an earlier interval of the day reaches."""
    latest = -1
    for start, end in intervals:
        if start > latest:
            yield start
        latest = max(latest, end)


@dataclass(frozen=True, kw_only=True)
class CloserArgs:
    stack: StackContext
    config: ControllerConfig
    nodes: WorkloadsConfig | None = None  # the workload controller's document, if it lists NodePools

    @property
    def times(self) -> Sequence[ClosingTime]:
        """Return the closing times of budgets, and the earlier times of NodePools."""
        guards = [self.config.closing_guard] if self.config.closed_by_day else []
        guards += [self.nodes.drain_guard] if self.nodes else []
        days: dict[int, set[int]] = defaultdict(set)
        for closing in (time for guard in guards for time in closing_times(self.config.hours, guard)):
            days[closing.minute] |= {*closing.weekdays}
        return [ClosingTime(minute, tuple(sorted(weekdays))) for minute, weekdays in sorted(days.items())]


class Closer(pulumi.ComponentResource):
    def __init__(self, name: str, args: CloserArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Closer", name, None, opts)
        times = args.times
        if times:
            self._rights(name, args.stack.namespace, args)
        for closing in times:
            self._job(f"{name}-{closing.suffix}", closing, args)
        self.register_outputs({})

    def _rights(self, name: str, namespace: pulumi.Input[str], args: CloserArgs) -> None:
        """Create an account, and a role in each namespace with budgets, including namespaces of started pods."""
        budgets = args.config.closed_by_day
        opts = pulumi.ResourceOptions(parent=self)
        ServiceAccount(f"{name}-account", metadata={"name": NAME, "namespace": namespace}, opts=opts)
        for space in (NAMESPACE, *sorted({budget.namespace for budget in budgets} - {NAMESPACE})):
            here = space == NAMESPACE
            rules = closer_rules(budgets=[budget.pdb for budget in budgets if budget.namespace == space])
            where = namespace if here else space
            grant(name if here else f"{name}-{space}", NAME, where, rules, home=namespace, parent=self)
        if args.nodes:
            rules = node_closer_rules(node_pools=[pool.name for pool in args.nodes.node_pools])
            grant_everywhere(f"{name}-nodes", NAME, rules, home=namespace, parent=self)

    def _job(self, resource_name: str, closing: ClosingTime, args: CloserArgs) -> None:
        CronJob(
            resource_name,
            metadata={
                "name": f"{NAME}-{closing.suffix}",
                "namespace": args.stack.namespace,
                "labels": {CUSTOMER: args.config.customer},
            },
            spec={
                "schedule": closing.cron,
                "time_zone": args.config.hours.timezone,
                "concurrency_policy": "Replace",
                "starting_deadline_seconds": _DEADLINE_SECONDS,
                "successful_jobs_history_limit": 1,
                "failed_jobs_history_limit": 3,
                "job_template": {"spec": {"backoff_limit": 5, "template": _template(args)}},
            },
            opts=pulumi.ResourceOptions(parent=self),
        )


def _template(args: CloserArgs) -> "PodTemplateSpecArgsDict":
    command = ["python", "-m", "controllers.closer", "--config", f"{_CONFIG_DIRECTORY}/config.json"]
    volumes: list[VolumeArgsDict] = [{"name": "config", "config_map": {"name": CONTROLLER}}]
    mounts: list[VolumeMountArgsDict] = [{"name": "config", "mount_path": _CONFIG_DIRECTORY, "read_only": True}]
    if args.nodes:
        command += ["--workloads", f"{_NODES_DIRECTORY}/workloads.json"]
        volumes.append({"name": "workloads", "config_map": {"name": WORKLOADS}})
        mounts.append({"name": "workloads", "mount_path": _NODES_DIRECTORY, "read_only": True})
    pod: PodSpecArgsDict = {
        "service_account_name": NAME,
        "restart_policy": "OnFailure",
        **home(NodeKind.FIXED),
        "security_context": pod_security(),
        "containers": [
            {
                "name": "closer",
                "image": args.stack.images.of(CONTROLLER_IMAGE),
                "command": command,
                "resources": resources(cpu=50, memory=96),
                "security_context": container_security(read_only=True),
                "volume_mounts": mounts,
            }
        ],
        "volumes": volumes,
    }
    return {
        "metadata": {"labels": {WORKLOAD: NAME, CUSTOMER: args.config.customer}},
        "spec": args.stack.images.pulled(pod),
    }
