"""Node-seconds by the reason that retained a node, as found by the autoscaler's scans.

A node's entry changes only with its reason, so a quiet month costs nothing. Times are exact to one scan.
"""

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.lab.simulator.cluster.autoscaler.removal import DrainBlock
from ebbtide.lab.simulator.cluster.state import Node


class Retention(StrEnum):
    """Reasons that do not depend on one pod."""

    BOOTING = "it is booting"
    IN_USE = "more of it is in use than the threshold allows"
    MINIMUM = "its group is at its minimum"
    RESTING = "its group grew or shrank a moment ago"
    NO_OTHER_PLACE = "its pods have no other place"
    NOT_YET = "not needed, but not for long enough, or waiting for its turn"
    GOING = "it is being removed"


@dataclass(frozen=True, slots=True)
class RetainedNode:
    group: str
    why: Retention | DrainBlock
    workload: str | None = None  # of the pod that blocks


class RetentionLedger:
    def __init__(self) -> None:
        self._since: dict[str, tuple[RetainedNode, float]] = {}  # by node
        self._seconds: dict[RetainedNode, float] = {}

    def of(self, node: Node) -> Retention | DrainBlock | None:
        """The current reason of a node."""
        entry = self._since.get(node.name)
        return None if entry is None else entry[0].why

    def note(self, node: Node, why: Retention | DrainBlock, now: float, workload: str | None = None) -> None:
        earlier = self._since.get(node.name)
        if earlier is None:
            self._since[node.name] = RetainedNode(node.group, why, workload), node.launched_at
        elif earlier[0].why is not why or earlier[0].workload != workload:
            self._close(node.name, now)
            self._since[node.name] = RetainedNode(node.group, why, workload), now

    def forget_gone(self, nodes: Container[str], now: float) -> None:
        for name in [name for name in self._since if name not in nodes]:
            self._close(name, now)

    def seconds(self, now: float) -> dict[RetainedNode, float]:
        """Node-seconds up to now, by reason."""
        total = dict(self._seconds)
        for entry, since in self._since.values():
            total[entry] = total.get(entry, 0.0) + now - since
        return total

    def _close(self, name: str, now: float) -> None:
        entry, since = self._since.pop(name)
        self._seconds[entry] = self._seconds.get(entry, 0.0) + now - since
