"""The ReplicaSet controller: it creates the requested pods, and chooses the victims of a scale-down.

The order of victims is the real controller's: no node yet, not running yet, lowest deletion cost, most pods of the same
set on its node, running for the shortest time, youngest, then by chance. Ages are compared by their power of two, so
the newest pods are not always the victims. Deletion costs are read from a cache that may lag behind the API.
"""

import random
from collections.abc import Iterable

from ebbtide.lab.simulator.cluster.lifecycle import Lifecycle
from ebbtide.lab.simulator.cluster.model import StopReason
from ebbtide.lab.simulator.cluster.state import Deployment, Pod
from ebbtide.lab.simulator.timeline import Timeline

NANOSECONDS = 1e9  # the real controller takes the power of two of ages in nanoseconds
AFTER_THE_KUBELET = 1
"""The priority of a reconcile: all other events of the instant have run."""


class ReplicaSets:
    def __init__(self, timeline: Timeline, lifecycle: Lifecycle, rng: random.Random, cache_lag_s: float) -> None:
        self._timeline = timeline
        self._lifecycle = lifecycle
        self._rng = rng
        self._cache_lag_s = cache_lag_s
        self._due: set[str] = set()

    def reconcile_soon(self, deployment: Deployment) -> None:
        """Compare requested and existing pods once, at the end of this instant."""
        name = deployment.spec.name
        if name not in self._due and deployment.staying != deployment.replicas:
            self._due.add(name)
            self._timeline.after(0.0, lambda: self._reconcile(deployment), AFTER_THE_KUBELET)

    def annotate(self, pod: Pod, cost: int) -> None:
        pod.deletion_cost = cost
        self._timeline.after(self._cache_lag_s, lambda: _cache(pod, cost))

    def _reconcile(self, deployment: Deployment) -> None:
        self._due.discard(deployment.spec.name)
        # A disk has one pod at a time: with disks, a pod is created after its predecessor is deleted.
        existing = len(deployment.pods) if deployment.spec.disks else deployment.staying
        for _ in range(deployment.replicas - existing):
            self._lifecycle.create(deployment)
        if deployment.staying > deployment.replicas:
            staying = [pod for pod in deployment.pods.values() if not pod.stopping]
            for pod in self._first_to_go(staying, deployment.staying - deployment.replicas):
                self._lifecycle.stop(pod, StopReason.SCALED_IN, pod.spec.grace_s)

    def _first_to_go(self, pods: Iterable[Pod], count: int) -> list[Pod]:
        """Deletion costs mostly decide: pods are compared further only if their costs are equal."""
        alike: dict[tuple[bool, bool, int], list[Pod]] = {}
        for pod in pods:
            alike.setdefault((pod.node is not None, pod.running_since is not None, pod.cost_seen), []).append(pod)
        victims: list[Pod] = []
        for key in sorted(alike):
            group, missing = alike[key], count - len(victims)
            if len(group) > missing:
                return victims + sorted(group, key=self._rank)[:missing] if missing else victims
            victims += group
        return victims

    def _rank(self, pod: Pod) -> tuple[int, int, int, float]:
        return (-_together(pod), self._age(pod.running_since), self._age(pod.created_at), self._rng.random())

    def _age(self, since: float | None) -> int:
        return int((self._timeline.now - since) * NANOSECONDS).bit_length() if since is not None else 0


def _together(pod: Pod) -> int:
    """Pods of the same set on its node that are not stopping."""
    if pod.node is None:
        return 0
    return pod.node.room.by_workload.get(pod.workload, 0) - pod.node.stopping.get(pod.workload, 0)


def _cache(pod: Pod, cost: int) -> None:
    pod.cost_seen = cost
