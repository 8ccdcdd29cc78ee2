"""Virtual time: what happens next, in order. Seconds since the run's start."""

import heapq
from collections.abc import Callable
from math import inf


class Agenda:
    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._entered = 0

    def after(self, delay: float, do: Callable[[], None]) -> None:
        self._entered += 1
        heapq.heappush(self._heap, (self.now + delay, self._entered, do))

    def next_at(self) -> float:
        return self._heap[0][0] if self._heap else inf

    def run_until(self, instant: float) -> None:
        """Let everything happen that is due by `instant`."""
        heap = self._heap
        while heap and heap[0][0] <= instant:
            at, _, do = heapq.heappop(heap)
            self.now = max(self.now, at)
            self.events += 1
            do()
        self.now = max(self.now, instant)

    def pass_time(self, seconds: float) -> None:
        self.run_until(self.now + seconds)
