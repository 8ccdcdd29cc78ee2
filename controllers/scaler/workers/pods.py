"""One pool's pods as they are believed to be, counting what was written and is not seen yet."""

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
    pods: list[WorkerPod]  # the ones that count as capacity, without the plain ones
    plain: int  # taken for busy, and neither marked nor about to be: a number is enough, and most pods are such
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


def with_idle_pods(known: Known, pods: Sequence[ObservedPod]) -> Known:
    """The reading of a source that cannot tell pod from pod: all are idle, while nothing at all is in flight."""
    if known.names_idle:
        return known
    quiet = () if _hides_busy_pods(known) else pods
    return replace(known, idle=frozenset(pod.name for pod in quiet if pod.phase is PodPhase.RUNNING))


def count_busy(seen: ObservedPool, known: Known) -> int:
    """Return how many running pods have a job: those not known idle, but no more than jobs that some worker holds."""
    held = known.in_transit + known.running
    return min(held, sum(pod.phase is RUNNING and pod.name not in known.idle for pod in seen.pods)) if held else 0


def _hides_busy_pods(known: Known) -> bool:
    """Whether work is in flight that any of the pods, the pending ones included, may hold."""
    return not known.names_idle and (known.in_flight > 0 or known.stale > 0)


def summarize_pods(
    now: datetime, seen: ObservedPool, known: Known, history: DemandHistory, marks: tuple[Expectations[int], str]
) -> PodSummary:
    """`known` names idle pods; `marks`: the expectations, and the kind under which they hold this pool's marks."""
    pods: list[WorkerPod] = []
    expectations, kind = marks
    active = known.in_transit + known.running
    plain = pending = terminating = failing = unreachable = 0
    expected = expectations.drop_gone(kind, (pod.name for pod in seen.pods))
    for pod in seen.pods:
        phase, idle = pod.phase, pod.name in known.idle
        unreachable += phase is UNREACHABLE
        if phase is UNREACHABLE or (phase is RUNNING and not (idle or pod.marked or pod.name in expected)):
            plain += 1
            continue
        if phase is TERMINATING:
            terminating += 1
            active -= not idle  # it ends its job by itself
            continue
        waits = phase is not RUNNING and not idle  # else its worker has reported: it runs by now
        failing += phase is FAILING
        pending += waits and phase is PENDING
        written = expectations.outstanding(kind, pod.name, ("", int(pod.marked)), now)
        marked = pod.marked if written is None else bool(written.value)
        idle_for = (history.idle_for(pod.name, now) or timedelta()) if idle else None
        pods.append(WorkerPod(pod.name, waits, marked, written is None, idle_for))
    # A job in transit is held by a pod that still says idle, and nothing says by which.
    proven = not known.in_transit and not _hides_busy_pods(known)
    spare = spare_pods(pods, max(0, active) - plain) if proven else Spare(pending=0, idle=0)
    counts = {"pending": pending, "terminating": terminating, "failing": failing, "unreachable": unreachable}
    return PodSummary(pods=pods, plain=plain, spare=spare, **counts)
