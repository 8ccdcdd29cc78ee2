"""Shrinking, the deed: nodes are closed, then emptied, then gone.

A node waits 5 s after it was closed. Its pods are asked to leave all at once; what its budget refuses is asked again
every 10 s, for 2 min at most. Two requests that meet at one budget may be in each other's way: the API server itself
then tries the later one again half a second after. Whether all have left is looked at every 5 s, for the grace period
plus 30 s. What fails opens the node again, and its timers start afresh.

Source: kubernetes/autoscaler 1.35.2, core/scaledown/actuation/drain.go; kubernetes/kubernetes 1.35,
pkg/registry/core/pod/storage/eviction.go (`EvictionsRetry`). How often requests meet was counted in recorded runs.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ebbtide.simulator.cluster.autoscaler.planner import Candidate
from ebbtide.simulator.cluster.autoscaler.reach import Reach
from ebbtide.simulator.cluster.autoscaler.removal import BudgetsLeft, blocker
from ebbtide.simulator.cluster.model import AutoscalerFlags, Eviction
from ebbtide.simulator.cluster.state import ClusterState, Node, Pod
from ebbtide.simulator.timeline import Timeline

CLOSED_FOR_S = 5.0
CLOSING_TAKES_S = (0.0, 0.05)
IN_THE_WAY = 0.75  # the share of second requests that meet the first one at their budget; third ones are refused
IN_THE_WAY_S = (0.5, 0.55)
LATE_ALONE, LATE_IN_COMPANY = 0.12, 0.3
"""The share of first looks that come so late, by the client's limit, that a pod without a process has left. More
requests stand in line when other nodes were closed together with this one."""
LATE_S = 0.2
ASK_AGAIN_S = 10.0
ASK_FOR_S = 120.0
LOOK_AGAIN_S = 5.0
HEADROOM_S = 30.0


@dataclass(slots=True)
class _Drain:
    node: Node
    pods: list[Pod]  # those that have to leave
    refused: int = 0  # of them, how many have not been allowed to leave yet
    failed: bool = False
    in_company: bool = False  # of nodes that were closed in the same look


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
        self._emptied: dict[str, Node] = {}  # in the order of their closing: a set of names has no fixed order
        self._drained: dict[str, Node] = {}
        self.evictions: list[Eviction] = []
        self.on_removed: Callable[[str], None] | None = None  # told the group

    def in_progress(self) -> Counter[str]:
        """Nodes on their way out, by group."""
        return Counter(node.group for going in (self._emptied, self._drained) for node in going.values())

    def pods_to_come(self) -> list[Pod]:
        """Pods of nodes being drained that have not been asked to leave: their successors need places."""
        return [pod for node in self._drained.values() for pod in node.pods.values() if not pod.stopping]

    def start(self, empty: Iterable[Candidate], drain: Iterable[Candidate]) -> list[Node]:
        """Begin with as many as may go at a time; returns them."""
        room = self._flags.max_scale_down_parallelism - len(self._emptied) - len(self._drained)
        first = _by_group(empty)[: max(room, 0)]
        room = min(room - len(first), self._flags.max_drain_parallelism - len(self._drained))
        second = _by_group(drain)[: max(room, 0)]
        # All are closed before any is emptied, or pods would move from one to the next.
        for node, going in [(node, self._emptied) for node in first] + [(node, self._drained) for node in second]:
            going[node.name] = node
            self._machines.close(node)
            self._timeline.after(
                CLOSED_FOR_S + self._rng.uniform(*CLOSING_TAKES_S), self._remover(node, len(first) + len(second) > 1)
            )
        return [*first, *second]

    def _remover(self, node: Node, in_company: bool) -> Callable[[], None]:  # noqa: FBT001 - a fact about the node
        return lambda: self._empty(_Drain(node, list(node.pods.values()), in_company=in_company))

    def _empty(self, drain: _Drain) -> None:
        if not drain.pods:
            self._finish(drain)
        elif blocker(drain.pods, self._flags, BudgetsLeft(self._state.deployments), self._timeline.now):
            self._give_up(drain)
        else:
            drain.refused = len(drain.pods)
            until = self._timeline.now + ASK_FOR_S
            asked: Counter[str] = Counter()
            for pod in drain.pods:
                self._ask(drain, pod, until, second=asked[pod.workload] == 1)
                asked[pod.workload] += 1

    def _asker(self, drain: _Drain, pod: Pod, until: float) -> Callable[[], None]:
        return lambda: self._ask(drain, pod, until)

    def _ask(self, drain: _Drain, pod: Pod, until: float, *, second: bool = False) -> None:
        """One eviction; `second`: at the same moment as that of another pod of its budget."""
        now, spec, stopped_before = self._timeline.now, pod.spec, pod.stopping
        if pod.name not in drain.node.pods:
            self._asked(drain)
        elif self._evict(pod, min(spec.grace_s, self._flags.max_graceful_termination_s)):
            if not stopped_before:
                self.evictions.append(Eviction(now, pod.name, spec.name, spec.category, drain.node.name))
            self._asked(drain)
        elif second and self._rng.random() < IN_THE_WAY:
            self._timeline.after(self._rng.uniform(*IN_THE_WAY_S), self._asker(drain, pod, until))
        elif now + ASK_AGAIN_S < until:
            self._timeline.after(ASK_AGAIN_S, self._asker(drain, pod, until))
        else:
            drain.failed = True
            self._timeline.after(ASK_AGAIN_S, lambda: self._asked(drain))

    def _asked(self, drain: _Drain) -> None:
        drain.refused -= 1
        if drain.refused == 0:
            if drain.failed:
                self._give_up(drain)
            else:
                start = self._timeline.now
                late = self._rng.random() < (LATE_IN_COMPANY if drain.in_company else LATE_ALONE)
                self._timeline.after(LATE_S if late else 0.0, lambda: self._await_leaving(drain, start))

    def _await_leaving(self, drain: _Drain, start: float) -> None:
        now = self._timeline.now
        if not any(pod.name in drain.node.pods for pod in drain.pods):
            self._finish(drain)
        elif now - start >= self._flags.max_graceful_termination_s + HEADROOM_S:
            self._give_up(drain)
        else:
            self._timeline.after(LOOK_AGAIN_S, lambda: self._await_leaving(drain, start))

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


def _by_group(candidates: Iterable[Candidate]) -> list[Node]:
    """Cut off at a number, this leaves out whole groups, in the order in which they were first met."""
    groups: dict[str, list[Node]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.node.group, []).append(candidate.node)
    return [node for nodes in groups.values() for node in nodes]
