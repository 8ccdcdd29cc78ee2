"""Counts of restarts, kills and evictions since the process started, from successive states of pods. No clock.

The trap: a list after a pause shows pods again, and the first list shows past events. So each existing pod is
remembered by uid, and the events of the first list are remembered but not counted.
"""

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from controllers.exporter.objects import Pod

REASONS = (
    "EvictionByEvictionAPI",
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "TerminationByKubelet",
    "DeletionByPodGC",
    "Evicted",
)
"""Kubernetes' reasons for evictions. Reported as 0 at first: Prometheus needs a first value to see an increase."""


@dataclass(slots=True)
class _PodRecord:
    restarts: dict[str, int] = field(default_factory=dict[str, int])
    out_of_memory: dict[str, str] = field(default_factory=dict[str, str])
    disrupted: bool = False


class Tally:
    """Counters by workload. One thread writes them; copies by other threads are atomic."""

    def __init__(self) -> None:
        self.restarts, self.oom_kills = Counter[str](), Counter[str]()
        self.evictions = Counter[tuple[str, str]]()
        self._records: dict[str, _PodRecord] = {}

    def see(self, pod: Pod, *, counted: bool) -> None:
        """Record a pod's state; count its new events if `counted`: if they happened since the process started."""
        record = self._records.setdefault(pod.uid, _PodRecord())
        restarted = killed = 0
        for container, restarts in pod.restarts:
            restarted += max(0, restarts - record.restarts.get(container, 0))
            record.restarts[container] = max(restarts, record.restarts.get(container, 0))
        for container, at in pod.out_of_memory:
            killed += at > record.out_of_memory.get(container, "")
            record.out_of_memory[container] = max(at, record.out_of_memory.get(container, ""))
        evicted = bool(pod.disruption) and not record.disrupted
        record.disrupted = record.disrupted or evicted
        self.restarts[pod.workload] += restarted * counted
        self.oom_kills[pod.workload] += killed * counted
        for reason in REASONS:
            self.evictions[pod.workload, reason] += 0
        if evicted and counted:
            self.evictions[pod.workload, pod.disruption] += 1

    def forget(self, uid: str) -> None:
        self._records.pop(uid, None)

    def keep(self, uids: AbstractSet[str]) -> None:
        """Forget all pods except `uids`."""
        for uid in self._records.keys() - uids:
            del self._records[uid]
