"""What-if space: the cluster as one look of the autoscaler sees it, where pods can be tried on nodes.

Nothing here touches the real nodes: a room is copied when the first pod is tried on it. A search for a place goes
round the nodes and begins after the last one that took a pod, so tried pods end up spread, as in the real autoscaler;
a pod that found a place before is tried there first.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ebbtide.simulator.cluster.model import WorkloadModel
from ebbtide.simulator.cluster.scheduler import Placement
from ebbtide.simulator.cluster.state import ClusterState, Node, Pod, Room

SEARCHERS = 4
"""The search tries so many nodes at a time, and takes the first that answers."""


@dataclass(slots=True)
class Memory:
    """What the search for places keeps from one look to the next."""

    rng: random.Random
    start: int = 0
    hints: dict[str, str] = field(default_factory=dict[str, str])  # pod to node
    fresh: dict[str, str] = field(default_factory=dict[str, str])  # those confirmed since the last look

    def forget_unconfirmed(self) -> None:
        self.hints, self.fresh = self.fresh, {}


class Snapshot:
    def __init__(self, state: ClusterState, placement: Placement, memory: Memory) -> None:
        self._placement = placement
        self._memory = memory
        self._rooms: dict[str, Room] = {}
        self._arrived: dict[str, list[Pod]] = {}
        self.nodes = [node for node in state.nodes.values() if not node.leaving]
        self._by_name = state.nodes

    def room(self, node: Node) -> Room:
        return self._rooms.get(node.name, node.room)

    def pods_on(self, node: Node) -> list[Pod]:
        """Those that are there and those tried there."""
        return [*node.pods.values(), *self._arrived.get(node.name, ())]

    def empty(self, node: Node) -> bool:
        return not node.pods and not self._arrived.get(node.name)

    def put(self, pods: Iterable[Pod], allowed: Callable[[Node], bool]) -> list[Pod]:
        """Find places for as many as possible; returns those without one."""
        left: list[Pod] = []
        hopeless: set[str] = set()
        for pod in pods:
            if pod.workload in hopeless or self._place(pod, allowed) is None:
                hopeless.add(pod.workload)
                left.append(pod)
        return left

    def put_all(self, pods: Iterable[Pod], allowed: Callable[[Node], bool]) -> bool:
        """Find places for all of them, or leave everything as it was."""
        placed: list[tuple[Pod, Node]] = []
        for pod in pods:
            if (node := self._place(pod, allowed)) is None:
                for moved, taken in placed:
                    self._rooms[taken.name].give_back(moved.spec)
                    self._arrived[taken.name].remove(moved)
                return False
            placed.append((pod, node))
        return True

    def _place(self, pod: Pod, allowed: Callable[[Node], bool]) -> Node | None:
        hint = self._memory.hints.get(pod.name)
        node = self._by_name.get(hint) if hint else None
        if node is None or node.leaving or not allowed(node) or not self._takes(node, pod.spec):
            node = self._search(pod.spec, allowed)
        if node is not None:
            self._memory.fresh[pod.name] = node.name
            if node.name not in self._rooms:
                self._rooms[node.name] = node.room.copy()
            self._rooms[node.name].take(pod.spec)
            self._arrived.setdefault(node.name, []).append(pod)
        return node

    def _search(self, workload: WorkloadModel, allowed: Callable[[Node], bool]) -> Node | None:
        count = len(self.nodes)
        for first in range(0, count, SEARCHERS):
            steps = list(range(first, min(first + SEARCHERS, count)))
            self._memory.rng.shuffle(steps)
            for step in steps:
                index = (self._memory.start + step) % count
                node = self.nodes[index]
                if allowed(node) and self._takes(node, workload):
                    self._memory.start = (index + 1) % count
                    return node
        return None

    def _takes(self, node: Node, workload: WorkloadModel) -> bool:
        return self.room(node).fits(workload) and self._placement.takes(node.shape, workload)
