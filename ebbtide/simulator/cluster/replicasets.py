"""The ReplicaSet controller: as many pods as asked for, and who goes first when there are too many.

The order of victims is the real controller's: no node yet, not running yet, lowest deletion cost, most pods of the same
set on its node, running for the shortest time, youngest, then by chance. Ages are compared by their power of two, so
that the newest are not always the victims. Deletion costs are read from a cache that may lag behind the API.
"""

import random
from collections import Counter
from collections.abc import Iterable

from ebbtide.simulator.cluster.lifecycle import Lifecycle
from ebbtide.simulator.cluster.model import StopReason
from ebbtide.simulator.cluster.state import Deployment, Pod
from ebbtide.simulator.timeline import Timeline

AFTER_THE_KUBELET = 1
"""Priority of a count: everything else of the same instant has happened."""


class ReplicaSets:
    def __init__(self, timeline: Timeline, lifecycle: Lifecycle, rng: random.Random, cache_lag_s: float) -> None:
        self._timeline = timeline
        self._lifecycle = lifecycle
        self._rng = rng
        self._cache_lag_s = cache_lag_s
        self._due: set[str] = set()

    def count_again(self, deployment: Deployment) -> None:
        """Compare wanted and existing pods, once, at the end of this instant."""
        name = deployment.spec.name
        if name not in self._due and deployment.staying != deployment.wanted:
            self._due.add(name)
            self._timeline.after(0.0, lambda: self._reconcile(deployment), AFTER_THE_KUBELET)

    def annotate(self, pod: Pod, cost: int) -> None:
        pod.deletion_cost = cost
        self._timeline.after(self._cache_lag_s, lambda: _cache(pod, cost))

    def _reconcile(self, deployment: Deployment) -> None:
        self._due.discard(deployment.spec.name)
        for _ in range(deployment.wanted - deployment.staying):
            self._lifecycle.create(deployment)
        if deployment.staying > deployment.wanted:
            staying = [pod for pod in deployment.pods.values() if not pod.stopping]
            for pod in self._ranked(staying)[: len(staying) - deployment.wanted]:
                self._lifecycle.stop(pod, StopReason.SCALED_IN, pod.spec.grace_s)

    def _ranked(self, pods: Iterable[Pod]) -> list[Pod]:
        """First to go first."""
        pods = list(pods)
        together = Counter(pod.node.name for pod in pods if pod.node)

        def rank(pod: Pod) -> tuple[bool, bool, int, int, int, int, float]:
            return (
                pod.node is not None,
                pod.running_since is not None,
                pod.cost_seen,
                -together[pod.node.name] if pod.node else 0,
                self._age(pod.running_since),
                self._age(pod.created_at),
                self._rng.random(),
            )

        return sorted(pods, key=rank)

    def _age(self, since: float | None) -> int:
        return int(self._timeline.now - since).bit_length() if since is not None else 0


def _cache(pod: Pod, cost: int) -> None:
    pod.cost_seen = cost
