"""The pods that may be removed first. Pure.

A ReplicaSet removes pending pods first, then pods with the lowest deletion cost. So pods that may be removed are
*marked* with a low cost. Once the caches show the marks, replicas are lowered, at most by the number of pods that may
still be removed then. Pending pods are marked, too: if one starts before the ReplicaSet has chosen, the ReplicaSet
would otherwise spare it and remove a busy pod.

The trap: a pod can be busy while it looks idle (it popped a job a moment ago) or pending (the cache lags). Jobs that no
visible pod explains reveal such pods, since the jobs come from one atomic snapshot of the queues.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from controllers.ports import PodName

POP_WINDOW = timedelta(seconds=5)
"""A pod must have been idle for this time: between pop and registration, a busy worker still reports idle."""


class WorkerPod(NamedTuple):  # created for every pod in every reconcile, at a third of a dataclass's cost
    """A pod that counts as capacity. `idle_for` is None if the pod is busy or not proven idle."""

    name: PodName
    pending: bool = False
    marked: bool = False
    mark_seen: bool = True  # False until the caches show the mark, or its removal
    idle_for: timedelta | None = None

    @property
    def removable(self) -> bool:
        return self.pending or (self.idle_for is not None and self.idle_for >= POP_WINDOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """Numbers of removable pods: `pending` pods run nothing, `idle` pods have been idle for the pop window."""

    pending: int
    idle: int

    @property
    def total(self) -> int:
        return self.pending + self.idle


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimPlan:
    mark: tuple[PodName, ...] = ()
    unmark: tuple[PodName, ...] = ()
    ready: int = 0  # replicas may be lowered by this number now


def spare_pods(pods: Sequence[WorkerPod], active_jobs: int) -> Spare:
    """Count the removable pods. `active_jobs`: jobs that some worker holds."""
    pending = sum([pod.pending for pod in pods])
    idle = [pod for pod in pods if pod.idle_for is not None and not pod.pending]
    if active_jobs > len(pods) - pending - len(idle):
        return Spare(pending=0, idle=0)  # one of the pods that look idle or pending is busy
    return Spare(pending=pending, idle=sum(pod.removable for pod in idle))


def plan_victims(pods: Sequence[WorkerPod], excess: int, spare: Spare) -> VictimPlan:
    """Choose pods to mark, pods to unmark since they became busy, and the number by which replicas may be lowered."""
    if excess <= 0 and not any(pod.marked for pod in pods):
        return VictimPlan()
    unmark = tuple(pod.name for pod in pods if pod.marked and not pod.pending and pod.idle_for is None)
    marked = [pod for pod in pods if pod.marked and pod.name not in unmark]
    missing = excess - len(marked)
    candidates = sorted((pod for pod in pods if pod.removable and not pod.marked), key=_pending_then_longest_idle)
    mark = tuple(pod.name for pod in candidates[: max(0, missing)])
    # The ReplicaSet may remove any marked pod, whether the caches show the mark or not: all must be proven idle.
    proven = not unmark and all(pod.removable for pod in marked) and all(pod.marked or pod.mark_seen for pod in pods)
    shown = sum(1 for pod in marked if pod.mark_seen)
    ready = min(excess, min(spare.total, shown)) if proven else 0
    return VictimPlan(mark=mark, unmark=unmark, ready=max(0, ready))


def _pending_then_longest_idle(pod: WorkerPod) -> tuple[bool, timedelta, PodName]:
    return (not pod.pending, -(pod.idle_for or timedelta()), pod.name)
