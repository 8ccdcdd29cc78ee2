"""The time for which a Ray cluster has been idle, and the workers that stay although nothing runs. Pure.

A restart forgets the time, which only delays sleep.

Ray 2.60 reports idle workers only to its own autoscaler: the head's `/nodes?view=summary` shows every node as ACTIVE,
and `/api/cluster_status` is empty with version 2 of the autoscaler. So a worker is known to be idle only if the entire
cluster is idle. The trap: version 2 may keep an idle worker forever (kuberay#3738), and with it a node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias, cast

from controllers.workloads.ray.documents import IDLE_TIMEOUT, NAME, Json, groups_of, replicas_of

LONGEST_GAP = timedelta(minutes=1)  # between two readings of one series: in a longer gap anything may have run
GRACE = timedelta(minutes=2)
"""Added to the idle timeout: Ray's autoscaler runs every few seconds, and drains a worker before it removes it."""

_DEFAULT_IDLE_TIMEOUT = 60  # seconds; Ray's default


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is attached and nothing runs. `last`: the end of the last activity, if the head reports it."""

    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    why: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The cluster counts as busy, since the head's answer proves nothing. `silent`: the head accepted no connection."""

    why: str
    silent: bool = False


Activity: TypeAlias = Idle | Busy | Unreadable


class IdleTime:
    """Idle time since the first of an unbroken series of idle readings, or since the last activity that they report."""

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._at: datetime | None = None

    def observe(self, now: datetime, activity: Activity) -> timedelta | None:
        """Return the time for which the cluster has been idle; None if it is not known to be idle."""
        joined = self._at is not None and timedelta() <= now - self._at <= LONGEST_GAP
        if not isinstance(activity, Idle):
            self.forget()
            return None
        since = self._since if joined and self._since is not None else now
        self._since = since if activity.last is None else max(since, activity.last)
        self._at = now
        return max(now - self._since, timedelta())

    def forget(self) -> None:
        self._since = self._at = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleWorkers:
    """Workers of one group while nothing runs. `overdue` counts workers beyond the group's idle timeout."""

    group: str
    workers: int
    idle_for: timedelta
    overdue: int

    @property
    def note(self) -> str:
        if not self.overdue:
            return ""
        return f"group {self.group} keeps {self.overdue} idle workers beyond its idle timeout (kuberay#3738)"


def idle_workers(spec: Json, idle_for: timedelta | None) -> Sequence[IdleWorkers]:
    """Return the idle workers of each group; none if the cluster is not known to be idle."""
    if idle_for is None:
        return ()
    options = spec.get("autoscalerOptions")
    cluster_timeout = cast("Json", options).get(IDLE_TIMEOUT) if isinstance(options, dict) else None
    idle: list[IdleWorkers] = []
    for group in groups_of(spec):
        if workers := replicas_of(group):
            timeout = group.get(IDLE_TIMEOUT, cluster_timeout)
            limit = timedelta(seconds=_DEFAULT_IDLE_TIMEOUT if timeout is None else timeout) + GRACE
            overdue = max(0, workers - _minimum(group)) if idle_for > limit else 0
            idle.append(IdleWorkers(group=str(group.get(NAME)), workers=workers, idle_for=idle_for, overdue=overdue))
    return tuple(idle)


def _minimum(group: Json) -> int:
    return group.get("minReplicas") or 0
