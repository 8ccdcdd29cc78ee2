"""Machines: billed from launch to termination, ready after their boot time."""

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.lab.simulator.cluster.accidents import Boots
from ebbtide.lab.simulator.cluster.capacity import SpotCapacity
from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.cluster.state import ClusterState, Listener, Node, Room
from ebbtide.lab.simulator.timeline import Timeline


@dataclass(slots=True)
class BilledSeconds:
    """Node-seconds of one group: of ended and of running nodes."""

    ended_s: float = 0.0
    running: int = 0
    launched_at_sum: float = 0.0

    def at(self, now: float) -> float:
        return self.ended_s + self.running * now - self.launched_at_sum


class Machines:
    def __init__(self, timeline: Timeline, state: ClusterState, listener: Listener | None, rng: random.Random) -> None:
        self._timeline = timeline
        self._state = state
        self._listener = listener
        self._rng = rng
        self._bills = {name: BilledSeconds() for name in state.groups}
        self._born = dict.fromkeys(state.groups, 0)
        self.counts = dict.fromkeys(state.groups, 0)  # requested and not terminated
        self._lacking = Counter[str]()
        self._latest: dict[str, tuple[float, int]] = {}
        self.on_change: Callable[[], None] | None = None
        self.on_open: Callable[[Node], None] | None = None  # a node takes pods
        self.on_launch: Callable[[Node], None] | None = None
        self.boots: Boots | None = None  # None: every launch takes its group's boot time
        self.capacity: SpotCapacity | None = None  # None: every launch has capacity

    def launch(self, group: GroupModel, boot_s: float | None = None, *, zone: str = "") -> Node:
        """`zone`: empty for the zone with the fewest nodes of the group."""
        now = self._timeline.now
        self._born[group.name] += 1
        node = Node(f"{group.name}-{self._born[group.name]}", group, now, math.inf, Room(group))
        node.zone = zone or self._next_zone(group)
        self._state.nodes[node.name] = node
        self.counts[group.name] += 1
        if self.capacity is not None and self.capacity.covers(group.name):
            self._state.uncertain[node.name] = node
            if not self.has_capacity(group, node.zone):
                node.lacking = True
                self._lacking[group.name] += 1
                self._timeline.at(self.capacity.back_at(group.name, node.zone, now), lambda: self._retry(node))
                self._changed()
                return node
        self._boot(node, boot_s)
        return node

    def has_capacity(self, group: GroupModel, zone: str) -> bool:
        """True if a launch in this zone makes a machine now."""
        now = self._timeline.now
        return self.capacity is None or self.capacity.back_at(group.name, zone, now) <= now

    def _retry(self, node: Node) -> None:
        """An Auto Scaling group repeats a launch until its desired number of machines exists."""
        if node.name in self._state.nodes:
            node.lacking = False
            node.launched_at = self._timeline.now
            self._lacking[node.group] -= 1
            self._boot(node, None)

    def _boot(self, node: Node, boot_s: float | None) -> None:
        group, now = node.shape, self._timeline.now
        drawn = boot_s is None and self.boots is not None and self.boots.may_be_late
        if boot_s is None:
            boot_s = self.boots.boot_s(group) if self.boots is not None and drawn else group.boot_s
            boot_s += group.boot_step_s * self._launched_with(group.name)
            if group.boot_spread_s:
                boot_s += self._rng.uniform(-group.boot_spread_s, group.boot_spread_s)
        node.ready_at = now + boot_s
        bill = self._bills[group.name]
        bill.running += 1
        bill.launched_at_sum += now
        if drawn:
            self._state.uncertain[node.name] = node
        if math.isfinite(boot_s):
            self._timeline.after(boot_s, lambda: self._ready(node))
        if self.on_launch:
            self.on_launch(node)
        self._changed()

    @property
    def existing(self) -> dict[str, int]:
        """Launched and not terminated machines of every group; a launch without capacity is none."""
        return {name: count - self._lacking[name] for name, count in self.counts.items()}

    def _next_zone(self, group: GroupModel) -> str:
        if not group.zones:
            return ""
        nodes = Counter(node.zone for node in self._state.nodes.values() if node.shape is group)
        return min(group.zones, key=lambda zone: nodes[zone])  # ties go to the first zone, so no zone exceeds its part

    def _launched_with(self, group: str) -> int:
        """The number of nodes of the group that were launched earlier in this instant."""
        at, count = self._latest.get(group, (-1.0, 0))
        count = count + 1 if at == self._timeline.now else 0
        self._latest[group] = self._timeline.now, count
        return count

    def close(self, node: Node) -> None:
        """The autoscaler removes the node: it takes no more pods."""
        node.leaving = True
        node.unwanted = False
        self._state.touch(node)
        self._changed()

    def reopen(self, node: Node) -> None:
        """The removal of the node was cancelled."""
        node.leaving = False
        self._state.touch(node)
        if self.on_open:
            self.on_open(node)
        self._changed()

    def terminate(self, node: Node) -> None:
        del self._state.nodes[node.name]
        self._state.touch(node)
        self.counts[node.group] -= 1
        if node.lacking:
            self._lacking[node.group] -= 1
        else:
            bill = self._bills[node.group]
            bill.running -= 1
            bill.launched_at_sum -= node.launched_at
            bill.ended_s += self._timeline.now - node.launched_at
        self._changed()

    def billed_seconds(self) -> dict[str, float]:
        return {name: bill.at(self._timeline.now) for name, bill in self._bills.items()}

    def _ready(self, node: Node) -> None:
        if node.name not in self._state.nodes:  # given up or interrupted before it was ready
            return
        node.ready = True
        self._state.touch(node)
        if self.on_open:
            self.on_open(node)
        self._changed()

    def _changed(self) -> None:
        if self.on_change:
            self.on_change()
        if self._listener:
            self._listener.nodes_changed()
