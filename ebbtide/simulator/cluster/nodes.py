"""Machines: launched, billed from then on, ready after their boot time, gone when their group lets them go."""

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.simulator.cluster.model import GroupModel, Listener
from ebbtide.simulator.cluster.state import ClusterState, Node, Room
from ebbtide.simulator.timeline import Timeline


@dataclass(slots=True)
class Bill:
    """Node-seconds of one group: those that ended, and what is still running."""

    ended_s: float = 0.0
    running: int = 0
    launched_at_sum: float = 0.0

    def at(self, now: float) -> float:
        return self.ended_s + self.running * now - self.launched_at_sum


class Machines:
    def __init__(self, timeline: Timeline, state: ClusterState, listener: Listener | None) -> None:
        self._timeline = timeline
        self._state = state
        self._listener = listener
        self._bills = {name: Bill() for name in state.groups}
        self._born = dict.fromkeys(state.groups, 0)
        self.counts = dict.fromkeys(state.groups, 0)  # launched and not gone
        self.on_change: Callable[[], None] | None = None
        self.on_open: Callable[[Node], None] | None = None  # a node takes pods from now on

    def launch(self, group: GroupModel, boot_s: float | None = None) -> Node:
        now = self._timeline.now
        self._born[group.name] += 1
        boot_s = group.boot_s if boot_s is None else boot_s
        node = Node(f"{group.name}-{self._born[group.name]}", group, now, now + boot_s, Room(group))
        self._state.nodes[node.name] = node
        self.counts[group.name] += 1
        bill = self._bills[group.name]
        bill.running += 1
        bill.launched_at_sum += now
        self._timeline.after(boot_s, lambda: self._ready(node))
        self._changed()
        return node

    def close(self, node: Node) -> None:
        """The autoscaler is removing it: it takes no more pods."""
        node.leaving = True
        node.unwanted = False
        self._changed()

    def reopen(self, node: Node) -> None:
        """Its removal was given up."""
        node.leaving = False
        if self.on_open:
            self.on_open(node)
        self._changed()

    def terminate(self, node: Node) -> None:
        del self._state.nodes[node.name]
        self.counts[node.group] -= 1
        bill = self._bills[node.group]
        bill.running -= 1
        bill.launched_at_sum -= node.launched_at
        bill.ended_s += self._timeline.now - node.launched_at
        self._changed()

    def billed_seconds(self) -> dict[str, float]:
        return {name: bill.at(self._timeline.now) for name, bill in self._bills.items()}

    def _ready(self, node: Node) -> None:
        node.ready = True
        if self.on_open:
            self.on_open(node)
        self._changed()

    def _changed(self) -> None:
        if self.on_change:
            self.on_change()
        if self._listener:
            self._listener.nodes_changed()
