"""Waking by the clock alone: it needs no server setting, no right and no second connection."""

import time
from datetime import timedelta


class PollingWaker:
    """Wakes every `period`, or sooner if the turn asks for it.

    `stop` only sets a flag, and `period` is the longest wait until it is noticed: an event object set by a signal
    handler can deadlock with the very wait that the signal interrupts.
    """

    def __init__(self, period: timedelta) -> None:
        self._period = period
        self._stopped = False

    def wait(self, timeout: timedelta) -> bool:
        if not self._stopped:
            time.sleep(min(timeout, self._period).total_seconds())
        return not self._stopped

    def stop(self) -> None:
        self._stopped = True
