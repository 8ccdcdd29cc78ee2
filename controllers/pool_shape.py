"""One pool's pods as they are believed to be, counting what was asked and is not seen yet."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controllers.asked import Asks
from controllers.ports import Known, PodPhase, PoolSeen
from controllers.workers.idle import is_blind
from controllers.workers.victims import Spare, WorkerPod, spare_pods
from controllers.workers.watch import PoolWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    pods: list[WorkerPod]  # the ones that count as capacity
    spare: Spare
    pending: int
    terminating: int

    @property
    def running(self) -> int:
        return len(self.pods) - self.pending

    @property
    def idle(self) -> int:
        return sum(pod.removable and not pod.pending for pod in self.pods)


def shape_of(now: datetime, seen: PoolSeen, known: Known, watch: PoolWatch, marks: tuple[Asks, str]) -> Shape:
    """`known` names idle pods; `marks` are the asks and the kind under which this pool's marks are kept there."""
    pods: list[WorkerPod] = []
    asks, kind = marks
    active = known.in_transit + known.running
    pending = terminating = 0
    if kind in asks:
        asks.drop_gone(kind, {pod.name for pod in seen.pods})
    for pod in seen.pods:
        idle = pod.name in known.idle
        if pod.phase is PodPhase.TERMINATING:
            terminating += 1
            active -= not idle  # it ends its job by itself
            continue
        waits = pod.phase is PodPhase.PENDING and not idle  # else its worker has reported: it runs by now
        pending += waits
        ask = asks.outstanding(kind, pod.name, ("", int(pod.marked)), now) if kind in asks else None
        pods.append(
            WorkerPod(
                name=pod.name,
                pending=waits,
                marked=pod.marked if ask is None else bool(ask.value),
                mark_seen=ask is None,
                idle_for=(watch.idle_for(pod.name, now) or timedelta()) if idle else None,
            )
        )
    # A job in transit is held by a pod that still says idle, and nothing says by which.
    proven = not known.in_transit and not is_blind(known)
    spare = spare_pods(pods, max(0, active)) if proven else Spare(pending=0, idle=0)
    return Shape(pods=pods, spare=spare, pending=pending, terminating=terminating)
