"""Waits until something changed, or until it is time to look all the same."""

import time
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue

LEAST_GAP, MOST_GAP = 0.005, 1.0  # seconds between the end of a reconcile and the next one that an event begins


class EventWaker:
    """Lives as long as the process. Rests three times as long as a reconcile took: a storm of events cannot spin it."""

    def __init__(self) -> None:
        self._events: SimpleQueue[None] = SimpleQueue()  # its put is safe in a signal handler, an Event's set is not
        self._began = time.monotonic()
        self._stopped = False

    def notify(self) -> None:
        self._events.put(None)

    def stop(self) -> None:
        """From a signal handler too."""
        self._stopped = True
        self.notify()

    def wait(self, timeout: timedelta) -> bool:
        ended, seconds = time.monotonic(), timeout.total_seconds()
        rest = min(seconds, MOST_GAP, max(LEAST_GAP, 3 * (ended - self._began)))
        with suppress(Empty):
            self._events.get(timeout=0 if self._stopped else seconds)
            if not self._stopped:
                time.sleep(max(0.0, ended + rest - time.monotonic()))
            self._events = SimpleQueue()  # all that came so far is one event
        self._began = time.monotonic()
        return not self._stopped
