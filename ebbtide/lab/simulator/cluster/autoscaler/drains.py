"""The drain of nodes: they are closed, emptied and terminated.

A node waits 5 s after it was closed. Then all its pods are evicted at once; an eviction that a budget refuses is
retried every 10 s, for at most 2 min. Two requests for one budget may conflict: the API server then retries the later
one half a second later. Every 5 s the drain checks that all pods have left, for the grace period plus 30 s. A drain
that fails reopens the node, and its timers start again.

Source: kubernetes/autoscaler 1.35.2, core/scaledown/actuation/drain.go; kubernetes/kubernetes 1.35,
pkg/registry/core/pod/storage/eviction.go (`EvictionsRetry`). The share of conflicts was counted in recorded runs.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ebbtide.lab.simulator.cluster.autoscaler.planner import ScaleDownCandidate
from ebbtide.lab.simulator.cluster.autoscaler.reach import Reach
from ebbtide.lab.simulator.cluster.autoscaler.removal import BudgetsLeft, blocker
from ebbtide.lab.simulator.cluster.model import AutoscalerFlags, Eviction
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Pod
from ebbtide.lab.simulator.timeline import Timeline

CLOSED_FOR_S = 5.0
CLOSING_TAKES_S = (0.0, 0.05)
CONFLICTS = 0.75  # the share of second requests that conflict with the first one; third ones are refused
CONFLICT_RETRY_S = (0.5, 0.55)
LATE_ALONE, LATE_WITH_OTHERS = 0.12, 0.3
"""The share of first checks that the client's rate limit delays until a pod without a process has left. More requests
are queued if other nodes were closed together with this one."""
LATE_S = 0.2
RETRY_S = 10.0
RETRY_FOR_S = 120.0
CHECK_S = 5.0
HEADROOM_S = 30.0


@dataclass(slots=True)
class _Drain:
    node: Node
    pods: list[Pod]  # to evict
    refused: int = 0  # pods whose eviction was not accepted yet
    failed: bool = False
    with_others: bool = False  # other nodes were closed in the same scan


class Drains:
    def __init__(
        self, timeline: Timeline, state: ClusterState, reach: Reach, flags: AutoscalerFlags, rng: random.Random
    ) -> None:
        self._timeline = timeline
        self._state = state
        self._machines = reach.machines
        self._evict = reach.lifecycle.evict
        self._flags = flags
        self._rng = rng
        self._emptied: dict[str, Node] = {}  # in the order of closing, unlike a set
        self._drained: dict[str, Node] = {}
        self.evictions: list[Eviction] = []
        self.on_removed: Callable[[str], None] | None = None  # called with the group

    def in_progress(self) -> Counter[str]:
        """Nodes being removed, by group."""
        return Counter(node.group for removed in (self._emptied, self._drained) for node in removed.values())

    def pods_to_move(self) -> list[Pod]:
        """Pods of nodes being drained that are not evicted yet: their replacements need nodes."""
        return [pod for node in self._drained.values() for pod in node.pods.values() if not pod.stopping]

    def start(self, empty: Iterable[ScaleDownCandidate], drain: Iterable[ScaleDownCandidate]) -> list[Node]:
        """Close as many nodes as may be removed at a time, and return them."""
        limit = self._flags.max_scale_down_parallelism - len(self._emptied) - len(self._drained)
        first = _by_group(empty)[: max(limit, 0)]
        limit = min(limit - len(first), self._flags.max_drain_parallelism - len(self._drained))
        second = _by_group(drain)[: max(limit, 0)]
        # All are closed before one is emptied, or pods would move from one to the next.
        for node, removed in [(node, self._emptied) for node in first] + [(node, self._drained) for node in second]:
            removed[node.name] = node
            self._machines.close(node)
            self._timeline.after(
                CLOSED_FOR_S + self._rng.uniform(*CLOSING_TAKES_S), self._remover(node, len(first) + len(second) > 1)
            )
        return [*first, *second]

    def _remover(self, node: Node, with_others: bool) -> Callable[[], None]:  # noqa: FBT001 - a property of the node
        return lambda: self._empty(_Drain(node, list(node.pods.values()), with_others=with_others))

    def _empty(self, drain: _Drain) -> None:
        if not drain.pods:
            self._finish(drain)
        elif blocker(drain.pods, self._flags, BudgetsLeft(self._state.deployments), self._timeline.now):
            self._give_up(drain)
        else:
            drain.refused = len(drain.pods)
            until = self._timeline.now + RETRY_FOR_S
            requests: Counter[str] = Counter()
            for pod in drain.pods:
                self._request(drain, pod, until, second=requests[pod.workload] == 1)
                requests[pod.workload] += 1

    def _retrier(self, drain: _Drain, pod: Pod, until: float) -> Callable[[], None]:
        return lambda: self._request(drain, pod, until)

    def _request(self, drain: _Drain, pod: Pod, until: float, *, second: bool = False) -> None:
        """Request one eviction. `second`: another pod of its budget is evicted at the same time."""
        now, spec, was_stopping = self._timeline.now, pod.spec, pod.stopping
        if pod.name not in drain.node.pods:
            self._accepted(drain)
        elif self._evict(pod, min(spec.grace_s, self._flags.max_graceful_termination_s)):
            if not was_stopping:
                self.evictions.append(Eviction(now, pod.name, spec.name, spec.category, drain.node.name))
            self._accepted(drain)
        elif second and self._rng.random() < CONFLICTS:
            self._timeline.after(self._rng.uniform(*CONFLICT_RETRY_S), self._retrier(drain, pod, until))
        elif now + RETRY_S < until:
            self._timeline.after(RETRY_S, self._retrier(drain, pod, until))
        else:
            drain.failed = True
            self._timeline.after(RETRY_S, lambda: self._accepted(drain))

    def _accepted(self, drain: _Drain) -> None:
        drain.refused -= 1
        if drain.refused == 0:
            if drain.failed:
                self._give_up(drain)
            else:
                start = self._timeline.now
                late = self._rng.random() < (LATE_WITH_OTHERS if drain.with_others else LATE_ALONE)
                self._timeline.after(LATE_S if late else 0.0, lambda: self._await_leaving(drain, start))

    def _await_leaving(self, drain: _Drain, start: float) -> None:
        now = self._timeline.now
        if not any(pod.name in drain.node.pods for pod in drain.pods):
            self._finish(drain)
        elif now - start >= self._flags.max_graceful_termination_s + HEADROOM_S:
            self._give_up(drain)
        else:
            self._timeline.after(CHECK_S, lambda: self._await_leaving(drain, start))

    def _finish(self, drain: _Drain) -> None:
        self._done(drain.node)
        self._machines.terminate(drain.node)
        if self.on_removed:
            self.on_removed(drain.node.group)

    def _give_up(self, drain: _Drain) -> None:
        self._done(drain.node)
        self._machines.reopen(drain.node)

    def _done(self, node: Node) -> None:
        self._emptied.pop(node.name, None)
        self._drained.pop(node.name, None)


def _by_group(candidates: Iterable[ScaleDownCandidate]) -> list[Node]:
    """Sort by group, in the order of their first nodes, so that a limit excludes entire groups."""
    groups: dict[str, list[Node]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.node.group, []).append(candidate.node)
    return [node for nodes in groups.values() for node in nodes]
