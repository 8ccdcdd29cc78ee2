"""What has happened to pods since the process began, from what is seen of them one after the other. No clock.

The trap: a list after a pause shows pods again, and the first one shows what happened before. So each pod is remembered
by its uid for as long as it is there, and what the first list shows is remembered and not counted.
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
"""Of evictions, those that Kubernetes gives. Told as 0 before the first: an increase is seen only after a number."""


@dataclass(slots=True)
class _Known:
    restarts: dict[str, int] = field(default_factory=dict[str, int])
    out_of_memory: dict[str, str] = field(default_factory=dict[str, str])
    disrupted: bool = False


class Tally:
    """By workload. Written by one thread; a copy of a counter is one step to others."""

    def __init__(self) -> None:
        self.restarts, self.oom_kills = Counter[str](), Counter[str]()
        self.evictions = Counter[tuple[str, str]]()
        self._known: dict[str, _Known] = {}

    def see(self, pod: Pod, *, counted: bool) -> None:
        """`counted`: what is new about it happened since the process began."""
        known = self._known.setdefault(pod.uid, _Known())
        restarted = killed = 0
        for container, restarts in pod.restarts:
            restarted += max(0, restarts - known.restarts.get(container, 0))
            known.restarts[container] = max(restarts, known.restarts.get(container, 0))
        for container, at in pod.out_of_memory:
            killed += at > known.out_of_memory.get(container, "")
            known.out_of_memory[container] = max(at, known.out_of_memory.get(container, ""))
        evicted = bool(pod.disruption) and not known.disrupted
        known.disrupted = known.disrupted or evicted
        self.restarts[pod.workload] += restarted * counted
        self.oom_kills[pod.workload] += killed * counted
        for reason in REASONS:
            self.evictions[pod.workload, reason] += 0
        if evicted and counted:
            self.evictions[pod.workload, pod.disruption] += 1

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)

    def keep(self, uids: AbstractSet[str]) -> None:
        """Forget all others."""
        for uid in self._known.keys() - uids:
            del self._known[uid]
