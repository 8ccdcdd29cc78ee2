"""The past of a pool's demand, in memory only.

A restart forgets it, which can only delay a scale-down. A value is valid until the next reading replaces it, so the
stabilization window counts from the last moment at which the higher demand may still have existed.
"""

from collections import deque
from datetime import datetime, timedelta

from controllers.ports import Known, PodName
from controllers.scaler.workers.victims import POP_WINDOW

JANITOR_PATIENCE = timedelta(minutes=11)
"""How long stale entries keep one worker: RQ's default maintenance interval, 600 s, plus a minute. Entries that no
worker has cleared by then need an operator."""

_MINUTE = timedelta(minutes=1)


class DemandHistory:
    """Demand and idleness of one pool over time."""

    def __init__(self, window: timedelta, longest_gap: timedelta) -> None:
        self._window = window
        self._longest_gap = longest_gap
        self._last: datetime | None = None
        self._watched_since: datetime | None = None
        self._demand = 0
        self._peaks: deque[tuple[datetime, int]] = deque()  # (held until, demand): falling demand, rising instants
        self._idle_since: dict[PodName, datetime] = {}
        self._stale = 0
        self._janitor_since: datetime | None = None
        self._workers: int | None = None
        self._grown: deque[tuple[datetime, int]] = deque()  # (at, added workers) of the last minute

    def observe(self, now: datetime, counts: Known, *, staffed: bool, weight: int = 1, janitor: int = 1) -> None:
        """Record a trusted reading; `staffed` is true if a running worker could clear stale entries.

        Each job counts as `weight` jobs; `janitor` as in `chores`.
        """
        if self._last is not None and not timedelta() <= now - self._last <= self._longest_gap:
            self.forget()  # demand in such a gap is unknown
        self._last = now
        if counts.stale == 0 or counts.stale > self._stale:
            self._janitor_since = None
        if counts.stale and staffed and self._janitor_since is None:
            self._janitor_since = now
        self._stale = counts.stale
        demand = max(counts.in_flight * weight, self.chores(now, counts, janitor))
        if self._watched_since is None:
            self._watched_since = now
        elif demand < self._demand:
            while self._peaks and self._peaks[-1][1] <= self._demand:
                self._peaks.pop()
            self._peaks.append((now, self._demand))
        self._demand = demand
        while self._peaks and now - self._peaks[0][0] >= self._window:
            self._peaks.popleft()
        self._idle_since = {pod: self._idle_since.get(pod, now) for pod in counts.idle}

    def observe_replicas(self, now: datetime, workers: int) -> int:
        """Record the requested replicas; return how many were added in the last minute, by any writer."""
        if self._workers is not None and workers > self._workers:
            self._grown.append((now, workers - self._workers))
        self._workers = workers
        while self._grown and not timedelta() <= now - self._grown[0][0] < _MINUTE:
            self._grown.popleft()
        return sum(added for _, added in self._grown)

    def forget(self) -> None:
        """End the series of trusted readings."""
        self._last = self._watched_since = None
        self._demand = 0
        self._peaks.clear()
        self._idle_since = {}

    def chores(self, now: datetime, counts: Known, janitor: int = 1) -> int:
        """Return stale and soon-due entries as a number of jobs, since only a worker clears them.

        Until its own job ends, a busy worker clears only jobs with checkpoints. So stale entries count as `janitor`
        jobs, which require one worker more than the busy ones. Jobs that are due soon need one worker, busy or not.
        """
        if counts.stale and not self.is_out_of_patience(now):
            return janitor
        return int(counts.due_soon > 0)

    def is_out_of_patience(self, now: datetime) -> bool:
        """Return True if stale entries remain although a free worker had enough time to clear them."""
        return self._janitor_since is not None and now - self._janitor_since >= JANITOR_PATIENCE

    @property
    def peak_jobs(self) -> int:
        return max(self._demand, self._peaks[0][1]) if self._peaks else self._demand

    def watched_for(self, now: datetime) -> timedelta:
        return timedelta() if self._watched_since is None else now - self._watched_since

    def idle_for(self, pod: PodName, now: datetime) -> timedelta | None:
        since = self._idle_since.get(pod)
        return None if since is None else now - since

    def next_change(self, now: datetime) -> datetime | None:
        """Return the next instant at which a change may become due without a new event."""
        edges = [since + POP_WINDOW for since in self._idle_since.values()]
        if self._watched_since is not None:
            edges.append(self._watched_since + self._window)
        if self._peaks:
            edges.append(self._peaks[0][0] + self._window)
        if self._janitor_since is not None:
            edges.append(self._janitor_since + JANITOR_PATIENCE)
        if self._grown:
            edges.append(self._grown[0][0] + _MINUTE)
        return min((edge for edge in edges if edge > now), default=None)
