"""Wall time, a check of its accuracy, and the wait between reconciles."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue

from controllers.doubt import TRUST, Doubt
from ebbtide.vocabulary.clocks import MAX_CLOCK_SKEW

_FRESH = 300.0  # seconds; older comparisons are ignored
_OURS = "ours"
LEAST_GAP, MOST_GAP = 0.005, 1.0  # seconds between the end of a reconcile and the start of the next one after an event


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class ClockCheck:
    """Compares this process's clock with the clocks of the servers that it calls. Safe to use from several threads.

    All answers of the last five minutes count. With only the last answer, doubt would come and go with each answer: if
    two API servers are behind one address, or if the skew is about a minute, since `Date` has whole seconds. Answers
    are stored relative to monotonic time, so that a step of this process's own clock is detected at once.
    """

    def __init__(self, now: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now, self._monotonic = now, monotonic
        self._heard: dict[tuple[str, int], float] = {}  # by source and its clock at monotonic 0: last such answer

    def compare(self, source: str, server_time: datetime) -> None:
        at = self._monotonic()
        self._heard[source, round(server_time.timestamp() - at)] = at

    def doubt(self) -> Doubt:
        """Return why the present time is in doubt, with the leads of all clocks in whole seconds."""
        at = self._monotonic()
        ours = round(self._now().timestamp() - at)
        clocks = {(0, _OURS)}
        for (source, zero), heard in self._heard.copy().items():
            if heard >= at - _FRESH:
                clocks.add((zero - ours, source))
            else:
                self._heard.pop((source, zero), None)
        (least, behind), (most, ahead) = min(clocks), max(clocks)
        apart = most - least
        if apart <= MAX_CLOCK_SKEW.total_seconds():
            return TRUST
        who = f"{ahead} is {apart} s ahead of {behind}"
        why = f"clock skew: {who if ahead != behind else f'times of {ahead} are {apart} s apart'}"
        return Doubt(why, tuple(timedelta(seconds=lead) for lead in sorted({lead for lead, _ in clocks} - {0})))


class EventWaker:
    """Waits for an event or a timeout; lives as long as the process.

    After an event it pauses for three times the duration of the last reconcile: a storm of events cannot make it spin.
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
