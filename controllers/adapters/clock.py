"""Wall time, and whether it can be believed: clocks that disagree make every "closed until" a guess."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

DRIFT = timedelta(seconds=60)
_FRESH = 300.0  # seconds: what was heard longer ago says nothing about now


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class ClockCheck:
    """Compares our clock with those of the servers that we talk to. Safe to use from several threads."""

    def __init__(self, now: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now, self._monotonic = now, monotonic
        self._ahead: dict[str, tuple[timedelta, float]] = {}  # of us, and when it was heard

    def compare(self, source: str, theirs: datetime) -> None:
        self._ahead[source] = (theirs - self._now(), self._monotonic())

    def doubt(self) -> str:
        """Why the time is not believed now; empty if it is."""
        oldest = self._monotonic() - _FRESH
        ahead = {source: by for source, (by, at) in self._ahead.copy().items() if at >= oldest} | {"ours": timedelta()}
        first, last = min(ahead, key=ahead.__getitem__), max(ahead, key=ahead.__getitem__)
        apart = (ahead[last] - ahead[first]).total_seconds()
        return f"clock skew: {last} is {apart:.0f} s ahead of {first}" if apart > DRIFT.seconds else ""
