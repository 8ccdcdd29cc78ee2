"""Time that runs faster than the wall's, the same for every process that knows when it began.

Only what Ebbtide and the autoscaler's model wait for is scaled. The API server, the scheduler, the controller manager,
Leases and HTTP stay in real time: their latencies look `speed` times as long from here.
"""

import time
from datetime import UTC, datetime, timedelta

from controllers.adapters.clock import SystemClock


class ScaledClock(SystemClock):
    """`began` is `time.monotonic()` at the instant that shows `start`: by default now.

    Linux counts it from the machine's start, so one value serves several processes.
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
        """Wall time there, aware, UTC."""
        return self.start + timedelta(seconds=self.seconds())

    def seconds(self) -> float:
        """Seconds there since the start."""
        return (time.monotonic() - self.began) * self.speed

    def real(self, virtual_seconds: float) -> float:
        """How long that takes here."""
        return virtual_seconds / self.speed
