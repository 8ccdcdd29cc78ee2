"""Since when: the only thing the controller remembers, and only in memory.

A restart forgets all of it, which can delay a lowering and nothing else. A value holds until the next reading replaces
it, so the stabilization window counts from the last moment at which the higher demand may still have been there.
"""

from collections import deque
from datetime import datetime, timedelta

from controllers.ports import Known, PodName
from controllers.scaler.workers.victims import POP_WINDOW

JANITOR_PATIENCE = timedelta(minutes=11)
"""How long stale entries keep one worker: RQ's default maintenance interval of 600 s and a minute more. What no worker
has cleared by then needs an operator."""

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
        self._grown: deque[tuple[datetime, int]] = deque()  # (seen at, workers more) of the last minute

    def observe(self, now: datetime, known: Known, *, staffed: bool, weight: int = 1, janitor: int = 1) -> None:
        """Take in a trusted reading; `staffed` says that a worker runs which could clear stale entries.

        `weight` is how many jobs each job counts for; `janitor` as in `chores`.
        """
        if self._last is not None and not timedelta() <= now - self._last <= self._longest_gap:
            self.forget()  # whatever happened in such a gap was not watched
        self._last = now
        if known.stale == 0 or known.stale > self._stale:
            self._janitor_since = None
        if known.stale and staffed and self._janitor_since is None:
            self._janitor_since = now
        self._stale = known.stale
        demand = max(known.in_flight * weight, self.chores(now, known, janitor))
        if self._watched_since is None:
            self._watched_since = now
        elif demand < self._demand:
            while self._peaks and self._peaks[-1][1] <= self._demand:
                self._peaks.pop()
            self._peaks.append((now, self._demand))
        self._demand = demand
        while self._peaks and now - self._peaks[0][0] >= self._window:
            self._peaks.popleft()
        self._idle_since = {pod: self._idle_since.get(pod, now) for pod in known.idle}

    def observe_replicas(self, now: datetime, workers: int) -> int:
        """Take in the replicas asked for; returns by how many they have grown within a minute, whoever raised them."""
        if self._workers is not None and workers > self._workers:
            self._grown.append((now, workers - self._workers))
        self._workers = workers
        while self._grown and not timedelta() <= now - self._grown[0][0] < _MINUTE:
            self._grown.popleft()
        return sum(more for _, more in self._grown)

    def forget(self) -> None:
        """The run of trusted readings is broken."""
        self._last = self._watched_since = None
        self._demand = 0
        self._peaks.clear()
        self._idle_since = {}

    def chores(self, now: datetime, known: Known, janitor: int = 1) -> int:
        """Return the jobs that count for what only a worker clears or moves.

        A busy worker clears nothing before its job ends, so stale entries count for `janitor` jobs: as many as call
        for one worker more than the busy ones. Jobs that are due soon need any one worker.
        """
        if known.stale and not self.is_out_of_patience(now):
            return janitor
        return int(known.due_soon > 0)

    def is_out_of_patience(self, now: datetime) -> bool:
        """True if stale entries remain although a free worker had the time to clear them."""
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
        """The next instant at which time alone may allow a change."""
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
