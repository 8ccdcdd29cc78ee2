"""Why nodes survived the disruption window: node-hours inside it by the reason for which they were retained.

The cluster keeps one account from the start on; it is read at each edge of the window, and the differences are added.
"""

from collections.abc import Mapping
from datetime import UTC, timedelta

from ebbtide.simulator.cluster import DrainBlock, RetainedNode
from ebbtide.simulator.world.world import AFTER_THE_MODEL, World
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import DisruptionWindow

_BUDGETS: Mapping[str, str] = {
    Category.WORKER.value: "a worker is there, and workers are never moved",
    Category.FIXED.value: "a fixed pod is there, and fixed pods are never moved",
}


class Survivors:
    """Watches a world from its first second; `categories` are those of its workloads. Ask once it is over."""

    def __init__(self, world: World, window: DisruptionWindow, categories: Mapping[str, str]) -> None:
        self._cluster = world.cluster
        self._categories = categories
        begin = world.setup.start.astimezone(UTC)
        self._open = window.is_open(begin)
        self._opened_with: Mapping[RetainedNode, float] = {}
        self._seconds: dict[RetainedNode, float] = {}
        edge = window.next_change(begin)
        while edge is not None and (at := (edge - begin) / timedelta(seconds=1)) < world.setup.end_s:
            world.timeline.at(at, self._turn, AFTER_THE_MODEL)
            edge = window.next_change(edge)

    def node_hours(self) -> dict[str, float]:
        """By reason, the longest first."""
        if self._open:
            self._turn()
        hours: dict[str, float] = {}
        for kept, seconds in self._seconds.items():
            reason = self._reason(kept)
            hours[reason] = hours.get(reason, 0.0) + seconds / 3600
        longest_first = sorted(hours.items(), key=lambda spent: (-spent[1], spent[0]))
        return {reason: spent for reason, spent in longest_first if spent > 0}

    def _turn(self) -> None:
        now = self._cluster.retained_seconds()
        if self._open:
            for kept, seconds in now.items():
                spent = seconds - self._opened_with.get(kept, 0.0)
                self._seconds[kept] = self._seconds.get(kept, 0.0) + spent
        self._opened_with = now
        self._open = not self._open

    def _reason(self, kept: RetainedNode) -> str:
        if kept.workload is None:
            return str(kept.why)
        if kept.why is DrainBlock.BUDGET:
            category = self._categories.get(kept.workload, "")
            return _BUDGETS.get(category, f"the budget of {kept.workload} is closed or used up")
        return f"{kept.why}: {kept.workload}"
