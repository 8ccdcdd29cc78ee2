"""Why nodes were kept, and for how long: an account in node-seconds that the autoscaler's looks keep.

A node's entry changes only when a look finds another reason, so a quiet month costs nothing. Times are good to a scan.
"""

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.simulator.cluster.autoscaler.removal import DrainBlock
from ebbtide.simulator.cluster.state import Node


class Retention(StrEnum):
    """Reasons that no single pod gives."""

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
    workload: str | None = None  # whose pod blocks, where one does


class RetentionLedger:
    def __init__(self) -> None:
        self._since: dict[str, tuple[RetainedNode, float]] = {}  # by node
        self._seconds: dict[RetainedNode, float] = {}

    def of(self, node: Node) -> Retention | DrainBlock | None:
        """Why it is kept as far as is known."""
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
        """Node-seconds so far, by reason."""
        total = dict(self._seconds)
        for kept, since in self._since.values():
            total[kept] = total.get(kept, 0.0) + now - since
        return total

    def _close(self, name: str, now: float) -> None:
        kept, since = self._since.pop(name)
        self._seconds[kept] = self._seconds.get(kept, 0.0) + now - since
