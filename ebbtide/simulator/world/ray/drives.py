"""One driver's way through its tasks: it asks for some, waits for them, asks for the next, and ends with the last one.

It first joins the cluster with a raylet of its own (docs/adr/0026), which takes a while. A driver that goes takes its
running tasks along: Ray cancels them. What an attempt has finished is known by the time of each end, so that a driver
with checkpoints can go on where its last save was.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from ebbtide.simulator.timeline import Handle, Timeline
from ebbtide.simulator.world.ray.lines import Line, Task
from ebbtide.simulator.world.ray.work import RayWork

JOIN_S = 10.0
"""Until a driver's raylet has joined: the order of what was measured on loaded cores (docs/adr/0026)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveEdges:
    """Whom a driver tells: that its first task runs, and that its last one has ended."""

    began: Callable[[], None]
    ended: Callable[[], None]


@dataclass(slots=True, eq=False)
class Drive:
    """One attempt. `kept`: tasks that an earlier attempt has finished and saved."""

    timeline: Timeline
    line: Line
    work: RayWork
    edges: DriveEdges
    attached: Callable[[int], None]  # told 1 when it joins the cluster, -1 when it leaves
    kept: int = 0
    _left: int = 0  # not asked for yet
    _asked: dict[Task, None] = field(default_factory=dict[Task, None])
    _ends: list[float] = field(default_factory=list[float])  # when each of its tasks ended
    _joining: Handle | None = None

    def begin(self) -> None:
        self.attached(1)
        self._left = self.work.tasks - self.kept
        self._joining = self.timeline.after(JOIN_S, self._join)

    def withdraw(self) -> None:
        """The driver goes: what it waits for is cancelled."""
        self.attached(-1)
        if self._joining is not None:
            self.timeline.cancel(self._joining)
        asked, self._asked = self._asked, {}
        for task in asked:
            self.line.cancel(task)

    def keep(self, until: float) -> int:
        """How many of its tasks had ended then; those that ended later have to run again."""
        kept = bisect_right(self._ends, until)
        self.line.lose(self.work, len(self._ends) - kept)
        return kept

    def forget(self) -> None:
        """All that it did has to be done again."""
        self.keep(-math.inf)

    def _join(self) -> None:
        self._joining = None
        for _ in range(min(self.work.at_once, self._left)):
            self._ask()

    def _ask(self) -> None:
        self._left -= 1
        task = self.line.ask(self.work, began=self.edges.began, ended=self._ended)
        self._asked[task] = None

    def _ended(self, task: Task) -> None:
        del self._asked[task]
        self._ends.append(self.timeline.now)
        if self._left:
            self._ask()
        elif not self._asked:
            self.attached(-1)
            self.edges.ended()
