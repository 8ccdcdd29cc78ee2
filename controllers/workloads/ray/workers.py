"""Workers that stay though nothing runs in their cluster. Pure.

Which worker is idle, Ray 2.60 tells nobody but its own autoscaler: `/nodes?view=summary` of the head calls every node
ACTIVE, and `/api/cluster_status` is empty with version 2. So a worker is known to be idle while the whole cluster is.
The trap: version 2 may keep one for ever (kuberay#3738), and a node with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from controllers.workloads.ray.documents import NAME, Json, groups_of

GRACE = timedelta(minutes=2)
"""Beyond its idle timeout: the autoscaler looks every few seconds, and asks a worker to drain before it removes it."""

_IDLE = "idleTimeoutSeconds"
_DEFAULT = 60  # seconds; Ray's own


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleWorkers:
    """Of one group, while nothing runs. `overdue`: those that its idle timeout should have taken away."""

    group: str
    workers: int
    idle_for: timedelta
    overdue: int

    @property
    def note(self) -> str:
        if not self.overdue:
            return ""
        return f"group {self.group} keeps {self.overdue} idle workers beyond its idle timeout (kuberay#3738)"


def spare(spec: Json) -> bool:
    """Whether a group has more workers than its minimum, so that it matters if they are idle."""
    return any(_replicas(group) > (group.get("minReplicas") or 0) for group in groups_of(spec))


def idle_workers(spec: Json, idle_for: timedelta | None) -> Sequence[IdleWorkers]:
    """By group, those that Ray's autoscaler wants still; none where the cluster is not known to be idle."""
    if idle_for is None:
        return ()
    options = spec.get("autoscalerOptions")
    of_all = cast("Json", options).get(_IDLE) if isinstance(options, dict) else None
    found: list[IdleWorkers] = []
    for group in groups_of(spec):
        if workers := _replicas(group):
            own = group.get(_IDLE, of_all)
            limit = timedelta(seconds=_DEFAULT if own is None else own) + GRACE
            beyond = workers - (group.get("minReplicas") or 0) if idle_for > limit else 0
            found.append(
                IdleWorkers(group=str(group.get(NAME)), workers=workers, idle_for=idle_for, overdue=max(0, beyond))
            )
    return tuple(found)


def _replicas(group: Json) -> int:
    return group.get("replicas") or 0
