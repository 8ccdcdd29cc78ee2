"""Summary of one pool's pods, including writes that no cache shows yet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controllers.ports import Known, ObservedPod, ObservedPool, PodPhase
from controllers.reconciling import Expectations
from controllers.scaler.workers.history import DemandHistory
from controllers.scaler.workers.victims import Spare, WorkerPod, spare_pods

PENDING, RUNNING, TERMINATING = PodPhase.PENDING, PodPhase.RUNNING, PodPhase.TERMINATING
FAILING, UNREACHABLE = PodPhase.FAILING, PodPhase.UNREACHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSummary:
    pods: list[WorkerPod]  # pods that count as capacity, except plain ones
    plain: int  # pods that count as busy and have no mark, present or expected; most pods are plain
    spare: Spare
    pending: int
    terminating: int
    failing: int
    unreachable: int

    @property
    def count(self) -> int:
        return len(self.pods) + self.plain

    @property
    def running(self) -> int:
        return self.count - self.pending - self.failing - self.unreachable

    @property
    def idle(self) -> int:
        return sum([pod.removable for pod in self.pods if pod.idle_for is not None and not pod.pending])


def with_idle_pods(counts: Known, pods: Sequence[ObservedPod]) -> Known:
    """Complete a reading that does not distinguish pods: all running pods are idle if nothing is in flight."""
    if counts.names_idle:
        return counts
    quiet = () if _hides_busy_pods(counts) else pods
    return replace(counts, idle=frozenset(pod.name for pod in quiet if pod.phase is PodPhase.RUNNING))


def count_busy(observed: ObservedPool, counts: Known) -> int:
    """Return the number of running pods with a job: pods not reported idle, but at most the jobs that workers hold."""
    held = counts.in_transit + counts.running
    return min(held, sum(pod.phase is RUNNING and pod.name not in counts.idle for pod in observed.pods)) if held else 0


def _hides_busy_pods(counts: Known) -> bool:
    """Return True if work is in flight that any of the pods, including pending ones, may hold."""
    return not counts.names_idle and (counts.in_flight > 0 or counts.stale > 0)


def summarize_pods(
    now: datetime, observed: ObservedPool, counts: Known, history: DemandHistory, marks: tuple[Expectations[int], str]
) -> PodSummary:
    """Summarize the pods. `counts` names idle pods; `marks`: the expectations, and the kind of this pool's marks."""
    pods: list[WorkerPod] = []
    expectations, kind = marks
    active = counts.in_transit + counts.running
    plain = pending = terminating = failing = unreachable = 0
    expected = expectations.drop_gone(kind, (pod.name for pod in observed.pods))
    for pod in observed.pods:
        phase, idle = pod.phase, pod.name in counts.idle
        unreachable += phase is UNREACHABLE
        if phase is UNREACHABLE or (phase is RUNNING and not (idle or pod.marked or pod.name in expected)):
            plain += 1
            continue
        if phase is TERMINATING:
            terminating += 1
            active -= not idle  # the pod finishes its job and ends
            continue
        waits = phase is not RUNNING and not idle  # a report of idleness shows that the worker runs
        failing += phase is FAILING
        pending += waits and phase is PENDING
        written = expectations.outstanding(kind, pod.name, ("", int(pod.marked)), now)
        marked = pod.marked if written is None else bool(written.value)
        idle_for = (history.idle_for(pod.name, now) or timedelta()) if idle else None
        pods.append(WorkerPod(pod.name, waits, marked, written is None, idle_for))
    # A job in transit is in a pod that still reports idle; which pod is unknown.
    proven = not counts.in_transit and not _hides_busy_pods(counts)
    spare = spare_pods(pods, max(0, active) - plain) if proven else Spare(pending=0, idle=0)
    return PodSummary(
        pods=pods,
        plain=plain,
        spare=spare,
        pending=pending,
        terminating=terminating,
        failing=failing,
        unreachable=unreachable,
    )
