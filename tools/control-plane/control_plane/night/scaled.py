"""A clock that runs faster than wall time, the same in every process that knows when it began.

Only the waits of Ebbtide and of the autoscaler's model are scaled. The API server, the scheduler, the controller
manager, Leases and HTTP stay in real time: their latencies look `speed` times as long.
"""

import time
from datetime import UTC, datetime, timedelta

from controllers.adapters.clock import SystemClock


class ScaledClock(SystemClock):
    """Clock that shows `start` when `time.monotonic()` is `began`, by default now.

    Linux counts monotonic time from the machine's start, so one value serves several processes.
    """

    def __init__(self, start: datetime, speed: float, began: float | None = None) -> None:
        if start.tzinfo is None:
            raise ValueError(f"start: wanted a time with its zone, found {start.isoformat()}")
        if not speed > 0:
            raise ValueError(f"speed: wanted a number above 0, found {speed:g}")
        self.start = start.astimezone(UTC)
        self.speed = speed
        self.began = time.monotonic() if began is None else began

    def now(self) -> datetime:
        """Return scaled wall time, aware, in UTC."""
        return self.start + timedelta(seconds=self.seconds())

    def seconds(self) -> float:
        """Return scaled seconds since the start."""
        return (time.monotonic() - self.began) * self.speed

    def real(self, virtual_seconds: float) -> float:
        """Convert scaled to real seconds."""
        return virtual_seconds / self.speed
