"""The removal of nodes: tainted, replaced, drained and terminated.

The replacement is ready before the first pod is evicted. An eviction that a budget refuses is retried after 0.1 s, and
after twice the time each time, up to 10 s. The first requests of two pods with the same budget may conflict; the API
server then retries one of them half a second later. A removal is never cancelled, unless the replacement never becomes
a node. A node stays at least 5 s after its drain began.

Source: kubernetes-sigs/karpenter 1.14.1, controllers/disruption/queue.go, controllers/node/termination/controller.go
(`MinDrainTime`) and terminator/eviction.go.
"""

import random
from collections.abc import Callable

from ebbtide.lab.simulator.cluster.autoscaler.drains import CONFLICT_RETRY_S, CONFLICTS
from ebbtide.lab.simulator.cluster.autoscaler.reach import Reach
from ebbtide.lab.simulator.cluster.karpenter.consolidation import Command
from ebbtide.lab.simulator.cluster.karpenter.fleet import Fleet
from ebbtide.lab.simulator.cluster.model import Eviction
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Pod
from ebbtide.lab.simulator.timeline import Timeline

POLL_S = 1.0
FIRST_RETRY_S, LONGEST_RETRY_S = 0.1, 10.0
LEAST_DRAIN_S = 5.0
DRAIN_BEGINS_S = 0.4
"""The time from the command, or until its replacement is ready, to the first eviction: the NodeClaim is deleted first,
and then the node. Recordings show 0.3 to 0.5 s."""


class Removals:
    def __init__(self, timeline: Timeline, state: ClusterState, reach: Reach, fleet: Fleet, rng: random.Random) -> None:
        self._rng = rng
        self._timeline = timeline
        self._state = state
        self._reach = reach
        self._fleet = fleet
        self.evictions: list[Eviction] = []
        self.draining: dict[str, Node] = {}

    def begin(self, command: Command) -> None:
        for node in command.nodes:
            self._fleet.going[node.name] = node
            self._reach.machines.close(node)
        for node in command.places:
            if self._fleet.owns(node):
                self._fleet.nominate(node)
        self._fleet.mark_changed()
        claim = command.replacement
        replacement = None if claim is None else self._fleet.launch(claim, self._reach.machines)
        if claim is not None and replacement is None:
            self._give_up(command)
        else:
            self._await(command, replacement)

    def _give_up(self, command: Command) -> None:
        for node in command.nodes:
            self._fleet.going.pop(node.name, None)
            if node.name in self._state.nodes:
                self._reach.machines.reopen(node)

    def _await(self, command: Command, replacement: Node | None) -> None:
        if replacement is not None and replacement.name not in self._state.nodes:
            self._give_up(command)
        elif replacement is not None and not replacement.ready:
            self._timeline.after(POLL_S, lambda: self._await(command, replacement))
        else:
            for node in command.nodes:
                self.draining[node.name] = node
            self._timeline.after(DRAIN_BEGINS_S, lambda: self._drain(command.nodes))

    def _drain(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            self._empty(node)

    def _empty(self, node: Node) -> None:
        for pod in list(node.pods.values()):
            self._evict(node, pod, FIRST_RETRY_S, at_once=True)
        began = self._timeline.now
        self._timeline.after(LEAST_DRAIN_S, lambda: self._await_leaving(node, began))

    def _evict(self, node: Node, pod: Pod, retry_s: float, *, at_once: bool = False) -> None:
        if pod.stopping or pod.name not in node.pods or node.name not in self._state.nodes:
            return
        if not pod.do_not_disrupt and self._reach.lifecycle.evict(pod, pod.spec.grace_s):
            spec = pod.spec
            self.evictions.append(Eviction(self._timeline.now, pod.name, spec.name, spec.category, node.name))
        elif at_once and not pod.do_not_disrupt and self._rng.random() < CONFLICTS:
            self._timeline.after(self._rng.uniform(*CONFLICT_RETRY_S), self._retrier(node, pod, retry_s))
        else:
            self._timeline.after(retry_s, self._retrier(node, pod, min(2 * retry_s, LONGEST_RETRY_S)))

    def _retrier(self, node: Node, pod: Pod, retry_s: float) -> Callable[[], None]:
        return lambda: self._evict(node, pod, retry_s)

    def _await_leaving(self, node: Node, began: float) -> None:
        if node.name not in self._state.nodes:  # interrupted meanwhile
            self._forget(node)
        elif node.pods:
            self._timeline.after(POLL_S, lambda: self._await_leaving(node, began))
        else:
            self._forget(node)
            self._reach.machines.terminate(node)

    def _forget(self, node: Node) -> None:
        self.draining.pop(node.name, None)
        self._fleet.going.pop(node.name, None)
