"""Virtual time: a heap of things to do, in seconds from the start.

Events at one instant run by priority (lower first), then in the order they were planned, so a run depends on its
inputs alone. What an event plans for the same instant still runs within that instant.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Handle:
    """One planned event; give it to `Timeline.cancel`."""

    at: float
    what: Callable[[], None] | None  # None once it ran or was cancelled


class Timeline:
    def __init__(self) -> None:
        self.now: float = 0.0
        self._heap: list[tuple[float, int, int, Handle]] = []
        self._planned = 0

    def at(self, t: float, what: Callable[[], None], priority: int = 0) -> Handle:
        """Plan `what` for the instant `t`, which must not be over."""
        if t < self.now:
            raise ValueError(f"the timeline is at {self.now} s: nothing can be planned for {t} s")
        self._planned += 1
        handle = Handle(t, what)
        heapq.heappush(self._heap, (t, priority, self._planned, handle))
        return handle

    def after(self, delay: float, what: Callable[[], None], priority: int = 0) -> Handle:
        return self.at(self.now + delay, what, priority)

    def cancel(self, handle: Handle) -> None:
        """Forget an event; one that already ran, or was cancelled before, is no error."""
        handle.what = None

    def run_until(self, t: float) -> None:
        """Run every event up to and including `t`; then it is `t`."""
        while (upcoming := self.next_time()) is not None and upcoming <= t:
            _, _, _, handle = heapq.heappop(self._heap)
            what, handle.what = handle.what, None
            self.now = handle.at
            if what is not None:
                what()
        self.now = max(self.now, t)

    def next_time(self) -> float | None:
        """When the next event is due; None when nothing is planned."""
        while self._heap and self._heap[0][3].what is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
