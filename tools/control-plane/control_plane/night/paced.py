"""A model's timeline, run at the pace of a scaled clock by a separate thread.

Everything that touches the model runs in that thread: events of the timeline, and functions passed to `call`. When the
thread falls behind, as on a busy machine, it catches up event by event and skips none.
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from control_plane.night.scaled import ScaledClock
from ebbtide.lab.simulator.timeline import Timeline

_LONGEST_WAIT = 1.0  # seconds


class Paced:
    """Context manager. An error in the thread ends it, and is raised at the end of the context."""

    def __init__(self, clock: ScaledClock, name: str) -> None:
        self.clock = clock
        self.timeline = Timeline()
        self.after_each: Callable[[], None] = lambda: None
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.ended = threading.Event()  # its thread has ended, or is to end
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self.call(lambda: None)
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    @property
    def failed(self) -> bool:
        return self._error is not None

    def call(self, function: Callable[[], None]) -> None:
        """Schedule a function, from any thread, for when the timeline is up to date."""
        self._calls.put(function)

    def _run(self) -> None:
        try:
            while not self.ended.is_set():
                self._step()
        except BaseException as error:  # raised in the thread that ends the context
            self._error = error
            self.ended.set()

    def _step(self) -> None:
        waiting = self._next_call()
        self.timeline.run_until(max(self.clock.seconds(), self.timeline.now))
        while waiting is not None:
            waiting()
            waiting = None if self._calls.empty() else self._calls.get()
        self.timeline.run_until(self.timeline.now)
        self.after_each()

    def _next_call(self) -> Callable[[], None] | None:
        upcoming = self.timeline.next_time()
        pause = _LONGEST_WAIT if upcoming is None else self.clock.real(upcoming - self.clock.seconds())
        try:
            return self._calls.get(timeout=min(max(pause, 0.0), _LONGEST_WAIT))
        except Empty:
            return None
