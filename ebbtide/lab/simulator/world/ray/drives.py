"""The tasks of one driver: it requests some, waits for them, requests the next ones, and ends with the last one.

First it joins the cluster with its raylet (docs/adr/0026), which takes a while. When a driver ends, Ray cancels its
running tasks. The end of each task is recorded, so a driver with checkpoints can continue from its last save.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from ebbtide.lab.simulator.timeline import Handle, Timeline
from ebbtide.lab.simulator.world.ray.lines import Line, Task
from ebbtide.lab.simulator.world.ray.work import RayWork

JOIN_S = 10.0
"""The time until a driver's raylet has joined, as measured on loaded cores (docs/adr/0026)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveEdges:
    """Callbacks of a driver: its first task runs; its last one has ended."""

    began: Callable[[], None]
    ended: Callable[[], None]


@dataclass(slots=True, eq=False)
class Drive:
    """One attempt. `tasks_done`: tasks that earlier attempts have finished and saved."""

    timeline: Timeline
    line: Line
    work: RayWork
    edges: DriveEdges
    attached: Callable[[int], None]  # called with 1 when it joins the cluster, -1 when it leaves
    tasks_done: int = 0
    _unrequested: int = 0
    _active: dict[Task, None] = field(default_factory=dict[Task, None])
    _ends: list[float] = field(default_factory=list[float])  # the end of each of its tasks
    _joining: Handle | None = None

    def begin(self) -> None:
        self.attached(1)
        self._unrequested = self.work.tasks - self.tasks_done
        self._joining = self.timeline.after(JOIN_S, self._join)

    def withdraw(self) -> None:
        """The driver ends: its tasks are cancelled."""
        self.attached(-1)
        if self._joining is not None:
            self.timeline.cancel(self._joining)
        active, self._active = self._active, {}
        for task in active:
            self.line.cancel(task)

    def keep(self, until: float) -> int:
        """Return the number of tasks that had ended at `until`; those that ended later run again."""
        ended = bisect_right(self._ends, until)
        self.line.lose(self.work, len(self._ends) - ended)
        return ended

    def forget(self) -> None:
        """All its tasks run again."""
        self.keep(-math.inf)

    def _join(self) -> None:
        self._joining = None
        for _ in range(min(self.work.at_once, self._unrequested)):
            self._request()

    def _request(self) -> None:
        self._unrequested -= 1
        task = self.line.request(self.work, began=self.edges.began, ended=self._ended)
        self._active[task] = None

    def _ended(self, task: Task) -> None:
        del self._active[task]
        self._ends.append(self.timeline.now)
        if self._unrequested:
            self._request()
        elif not self._active:
            self.attached(-1)
            self.edges.ended()
