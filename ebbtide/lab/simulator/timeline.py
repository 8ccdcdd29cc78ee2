"""Virtual time: a heap of events, in seconds from the start.

Events at one instant run by priority (lower first), then in the order in which they were planned, so a run depends only
on its inputs. An event may plan another one for the same instant.
"""

from collections.abc import Callable
from heapq import heappop, heappush


class Handle:
    """A planned event, for `Timeline.cancel`."""

    __slots__ = ("action", "at")

    def __init__(self, at: float, action: Callable[[], None]) -> None:
        self.at = at
        self.action: Callable[[], None] | None = action  # None after it ran or was cancelled


class Timeline:
    def __init__(self) -> None:
        self.now: float = 0.0
        self.events = 0  # that have run
        self._heap: list[tuple[float, int, int, Handle]] = []
        self._planned = 0

    def at(self, t: float, action: Callable[[], None], priority: int = 0) -> Handle:
        """Plan `action` for the instant `t`, which must not have passed."""
        if t < self.now:
            raise ValueError(f"the timeline is at {self.now} s: nothing can be planned for {t} s")
        self._planned += 1
        handle = Handle(t, action)
        heappush(self._heap, (t, priority, self._planned, handle))
        return handle

    def after(self, delay: float, action: Callable[[], None], priority: int = 0) -> Handle:
        return self.at(self.now + delay, action, priority)

    @property
    def pending(self) -> int:
        """The number of planned events; cancelled ones count until their time comes."""
        return len(self._heap)

    def cancel(self, handle: Handle) -> None:
        """Drop an event. An event that already ran or was cancelled is no error."""
        handle.action = None

    def run_until(self, t: float) -> None:
        """Run every event up to and including `t`, then advance to `t`."""
        heap = self._heap
        while heap and heap[0][0] <= t:
            at, _, _, handle = heappop(heap)
            action = handle.action
            if action is not None:
                handle.action = None
                self.now = at
                self.events += 1
                action()
        self.now = max(self.now, t)

    def next_time(self) -> float | None:
        """The time of the next event; None if nothing is planned."""
        while self._heap and self._heap[0][3].action is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
