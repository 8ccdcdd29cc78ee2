"""Virtual time: a heap of things to do, in seconds from the start.

Events at one instant run by priority (lower first), then in the order they were planned, so a run depends on its
inputs alone. What an event plans for the same instant still runs within that instant.
"""

from collections.abc import Callable
from heapq import heappop, heappush


class Handle:
    """One planned event; give it to `Timeline.cancel`."""

    __slots__ = ("at", "what")

    def __init__(self, at: float, what: Callable[[], None]) -> None:
        self.at = at
        self.what: Callable[[], None] | None = what  # None once it ran or was cancelled


class Timeline:
    def __init__(self) -> None:
        self.now: float = 0.0
        self.events = 0  # that ran so far
        self._heap: list[tuple[float, int, int, Handle]] = []
        self._planned = 0

    def at(self, t: float, what: Callable[[], None], priority: int = 0) -> Handle:
        """Plan `what` for the instant `t`, which must not be over."""
        if t < self.now:
            raise ValueError(f"the timeline is at {self.now} s: nothing can be planned for {t} s")
        self._planned += 1
        handle = Handle(t, what)
        heappush(self._heap, (t, priority, self._planned, handle))
        return handle

    def after(self, delay: float, what: Callable[[], None], priority: int = 0) -> Handle:
        return self.at(self.now + delay, what, priority)

    @property
    def pending(self) -> int:
        """How many events are planned; cancelled ones count until their time comes."""
        return len(self._heap)

    def cancel(self, handle: Handle) -> None:
        """Forget an event; one that already ran, or was cancelled before, is no error."""
        handle.what = None

    def run_until(self, t: float) -> None:
        """Run every event up to and including `t`; then it is `t`."""
        heap = self._heap
        while heap and heap[0][0] <= t:
            at, _, _, handle = heappop(heap)
            what = handle.what
            if what is not None:
                handle.what = None
                self.now = at
                self.events += 1
                what()
        self.now = max(self.now, t)

    def next_time(self) -> float | None:
        """When the next event is due; None when nothing is planned."""
        while self._heap and self._heap[0][3].what is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
