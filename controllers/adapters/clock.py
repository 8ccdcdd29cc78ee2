"""Wall time, whether it can be believed, and the wait between reconciles."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue

DRIFT = timedelta(seconds=60)  # clocks that differ by more make every "closed until" a guess
_FRESH = 300.0  # seconds: an older comparison says nothing about now
LEAST_GAP, MOST_GAP = 0.005, 1.0  # seconds between the end of a reconcile and the next one that an event begins


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class ClockCheck:
    """Compares this process's clock with those of the servers that it talks to. Safe to use from several threads."""

    def __init__(self, now: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now, self._monotonic = now, monotonic
        self._leads: dict[str, tuple[timedelta, float]] = {}  # by source: its lead over this clock, and when compared

    def compare(self, source: str, server_time: datetime) -> None:
        self._leads[source] = (server_time - self._now(), self._monotonic())

    def doubt(self) -> str:
        """Return why the time is not believed now; empty if it is."""
        oldest = self._monotonic() - _FRESH
        leads = {source: lead for source, (lead, at) in self._leads.copy().items() if at >= oldest}
        leads["ours"] = timedelta()
        first, last = min(leads, key=leads.__getitem__), max(leads, key=leads.__getitem__)
        apart = (leads[last] - leads[first]).total_seconds()
        return f"clock skew: {last} is {apart:.0f} s ahead of {first}" if apart > DRIFT.seconds else ""


class EventWaker:
    """Waits for an event or a timeout; lives as long as the process.

    After an event it pauses three times as long as the last reconcile took: a storm of events cannot make it spin.
    """

    def __init__(self) -> None:
        self._events: SimpleQueue[None] = SimpleQueue()  # its put is safe in a signal handler, an Event's set is not
        self._began = time.monotonic()
        self._stopped = False

    def notify(self) -> None:
        self._events.put(None)

    def stop(self) -> None:
        """Stop waiting for good. Safe in a signal handler."""
        self._stopped = True
        self.notify()

    def wait(self, timeout: timedelta) -> bool:
        ended, seconds = time.monotonic(), timeout.total_seconds()
        pause = min(seconds, MOST_GAP, max(LEAST_GAP, 3 * (ended - self._began)))
        with suppress(Empty):
            self._events.get(timeout=0 if self._stopped else seconds)
            if not self._stopped:
                time.sleep(max(0.0, ended + pause - time.monotonic()))
            self._events = SimpleQueue()  # all events so far count as one
        self._began = time.monotonic()
        return not self._stopped
