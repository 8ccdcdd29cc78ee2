"""One pool's pods as they are believed to be, counting what was asked and is not seen yet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controllers.asked import Asks
from controllers.ports import Known, PodPhase, PodSeen, PoolSeen
from controllers.workers.victims import Spare, WorkerPod, spare_pods
from controllers.workers.watch import PoolWatch

PENDING, RUNNING, TERMINATING = PodPhase.PENDING, PodPhase.RUNNING, PodPhase.TERMINATING
FAILING, UNREACHABLE = PodPhase.FAILING, PodPhase.UNREACHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
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


def with_idle_pods(known: Known, pods: Sequence[PodSeen]) -> Known:
    """The reading of a source that cannot tell pod from pod: all are idle, while nothing at all is in flight."""
    if known.names_idle:
        return known
    quiet = () if _is_blind(known) else pods
    return replace(known, idle=frozenset(pod.name for pod in quiet if pod.phase is PodPhase.RUNNING))


def _is_blind(known: Known) -> bool:
    """Whether work is in flight that any of the pods, the pending ones included, may hold."""
    return not known.names_idle and (known.in_flight > 0 or known.stale > 0)


def shape_of(now: datetime, seen: PoolSeen, known: Known, watch: PoolWatch, marks: tuple[Asks, str]) -> Shape:
    """`known` names idle pods; `marks` are the asks and the kind under which this pool's marks are kept there."""
    pods: list[WorkerPod] = []
    asks, kind = marks
    active = known.in_transit + known.running
    plain = pending = terminating = failing = unreachable = 0
    asked = asks.drop_gone(kind, (pod.name for pod in seen.pods))
    for pod in seen.pods:
        phase, idle = pod.phase, pod.name in known.idle
        unreachable += phase is UNREACHABLE
        if phase is UNREACHABLE or (phase is RUNNING and not (idle or pod.marked or pod.name in asked)):
            plain += 1
            continue
        if phase is TERMINATING:
            terminating += 1
            active -= not idle  # it ends its job by itself
            continue
        waits = phase is not RUNNING and not idle  # else its worker has reported: it runs by now
        failing += phase is FAILING
        pending += waits and phase is PENDING
        ask = asks.outstanding(kind, pod.name, ("", int(pod.marked)), now)
        marked = pod.marked if ask is None else bool(ask.value)
        idle_for = (watch.idle_for(pod.name, now) or timedelta()) if idle else None
        pods.append(WorkerPod(pod.name, waits, marked, ask is None, idle_for))
    # A job in transit is held by a pod that still says idle, and nothing says by which.
    proven = not known.in_transit and not _is_blind(known)
    spare = spare_pods(pods, max(0, active) - plain) if proven else Spare(pending=0, idle=0)
    counts = {"pending": pending, "terminating": terminating, "failing": failing, "unreachable": unreachable}
    return Shape(pods=pods, plain=plain, spare=spare, **counts)
