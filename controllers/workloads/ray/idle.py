"""The time for which a Ray cluster has been idle, and the workers that stay although nothing runs. Pure.

A restart forgets the time, which delays sleep and nothing else.

Ray 2.60 tells only its own autoscaler which worker is idle: `/nodes?view=summary` of the head calls every node ACTIVE,
and `/api/cluster_status` is empty with version 2. So a worker is known to be idle only while its entire cluster is.
The trap: version 2 may keep an idle worker forever (kuberay#3738), and a node with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias, cast

from controllers.workloads.ray.documents import IDLE_TIMEOUT, NAME, Json, groups_of, replicas_of

LONGEST_GAP = timedelta(minutes=1)  # between two readings that may be joined: in a longer one anything may have run
GRACE = timedelta(minutes=2)
"""Added to the idle timeout: the autoscaler looks every few seconds, and drains a worker before it removes it."""

_DEFAULT_IDLE_TIMEOUT = 60  # seconds; Ray's own


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is attached and nothing runs. `last`: the end of the last activity, if the head names one."""

    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    why: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The head counts as busy, because its answer proves nothing. `silent`: it accepted no connection."""

    why: str
    silent: bool = False


Activity: TypeAlias = Idle | Busy | Unreadable


class IdleTime:
    """Counts from the first of an unbroken series of idle readings, or from the last activity that they name."""

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._at: datetime | None = None

    def observe(self, now: datetime, activity: Activity) -> timedelta | None:
        """Return for how long the cluster has been idle; None if it is not known to be idle."""
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
    """Workers of one group while nothing runs. `overdue` counts those beyond the group's idle timeout."""

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
