"""The closer: closes the flexible budgets before every opening, whether or not the controller lives.

It needs nothing of ours but its rights: a CronJob in the customer's own time zone that runs `kubectl`. On a holiday it
closes budgets that may stay open; the controller, which decides from the clock at every pass, opens them again.

The trap: cron counts in wall time, and a wall time that a clock change skips does not happen. A closing time in that
hour is missed on that one day, and then the controller alone closes.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.batch.v1 import CronJob
from pulumi_kubernetes.core.v1 import ServiceAccount
from pulumi_kubernetes.rbac.v1 import Role, RoleBinding

from components.pod_rules import container_security, nodes_of_kind, pod_security, resources
from components.rights import closer_rules
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import CUSTOMER, WORKLOAD, NodeKind
from ebbtide.vocabulary.windows import MINUTES_PER_DAY, WeeklyInterval

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodTemplateSpecArgsDict

NAME = "ebbtide-closer"
FIELD_MANAGER = "ebbtide-closer"
IMAGE = "registry.k8s.io/kubectl:v1.35.2"

_DAYS_OF_WEEK = 7
_DEADLINE_SECONDS = 600  # a run that could not start in time still closes, up to the end of a usual guard


@dataclass(frozen=True, slots=True, order=True)
class ClosingTime:
    """Minutes from local midnight, and the weekdays (0 is Monday) on which the budgets close then."""

    minute: int
    weekdays: tuple[int, ...]

    @property
    def cron(self) -> str:
        days = ",".join(str((day + 1) % _DAYS_OF_WEEK) for day in self.weekdays)  # cron's week starts on Sunday
        return f"{self.minute % 60} {self.minute // 60} * * {days}"

    @property
    def suffix(self) -> str:
        return f"{self.minute // 60:02d}{self.minute % 60:02d}"


def closing_times(week: Sequence[WeeklyInterval], guard: timedelta) -> tuple[ClosingTime, ...]:
    """One entry per time of day at which some opening, less the guard, falls; the guard is rounded up to minutes."""
    minutes = -(-guard // timedelta(minutes=1))
    days_at: dict[int, set[int]] = defaultdict(set)
    for interval in week:
        closing = interval.weekday * MINUTES_PER_DAY + interval.start - minutes
        day, minute = divmod(closing % (_DAYS_OF_WEEK * MINUTES_PER_DAY), MINUTES_PER_DAY)
        days_at[minute].add(day)
    return tuple(ClosingTime(minute, tuple(sorted(days))) for minute, days in sorted(days_at.items()))


@dataclass(frozen=True, kw_only=True)
class CloserArgs:
    config: ControllerConfig
    namespace: pulumi.Input[str]
    image: str = IMAGE


class Closer(pulumi.ComponentResource):
    def __init__(self, name: str, args: CloserArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Closer", name, None, opts)
        budgets = [budget.name for budget in args.config.budgets]
        if budgets:
            self._rights(name, args.namespace, budgets)
            for closing in closing_times(args.config.hours.week, args.config.closing_guard):
                self._job(f"{name}-{closing.suffix}", closing, args, budgets)
        self.register_outputs({})

    def _rights(self, name: str, namespace: pulumi.Input[str], budgets: Sequence[str]) -> None:
        opts = pulumi.ResourceOptions(parent=self)
        ServiceAccount(f"{name}-account", metadata={"name": NAME, "namespace": namespace}, opts=opts)
        Role(
            f"{name}-role",
            metadata={"name": NAME, "namespace": namespace},
            rules=closer_rules(budgets=budgets),
            opts=opts,
        )
        RoleBinding(
            f"{name}-binding",
            metadata={"name": NAME, "namespace": namespace},
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
            opts=opts,
        )

    def _job(self, resource_name: str, closing: ClosingTime, args: CloserArgs, budgets: Sequence[str]) -> None:
        CronJob(
            resource_name,
            metadata={
                "name": f"{NAME}-{closing.suffix}",
                "namespace": args.namespace,
                "labels": {CUSTOMER: args.config.customer},
            },
            spec={
                "schedule": closing.cron,
                "time_zone": args.config.hours.timezone,
                "concurrency_policy": "Replace",
                "starting_deadline_seconds": _DEADLINE_SECONDS,
                "successful_jobs_history_limit": 1,
                "failed_jobs_history_limit": 3,
                "job_template": {"spec": {"backoff_limit": 5, "template": _template(args, budgets)}},
            },
            opts=pulumi.ResourceOptions(parent=self),
        )


def _template(args: CloserArgs, budgets: Sequence[str]) -> "PodTemplateSpecArgsDict":
    closed = json.dumps({"spec": {"maxUnavailable": 0}})
    return {
        "metadata": {"labels": {WORKLOAD: NAME, CUSTOMER: args.config.customer}},
        "spec": {
            "service_account_name": NAME,
            "restart_policy": "OnFailure",
            "node_selector": nodes_of_kind(NodeKind.FIXED),
            "security_context": pod_security(),
            "containers": [
                {
                    "name": "closer",
                    "image": args.image,
                    "command": ["kubectl"],
                    "args": [
                        "patch",
                        "--type=merge",
                        f"--field-manager={FIELD_MANAGER}",
                        f"--patch={closed}",
                        "poddisruptionbudgets",
                        *sorted(budgets),
                    ],
                    "resources": resources(cpu=50, memory=64),
                    "security_context": container_security(read_only=True),
                }
            ],
        },
    }
