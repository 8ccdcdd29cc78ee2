"""A cluster that creates no more pods: how long not to ask for more. Memory of one pool, no clock of its own.

Two traps. Asking for less ends the cluster's complaint, and without memory the next reconcile would ask again. And a
cache that lags shows fewer pods than exist: less is asked for only while the Deployment, whose status counts its pods,
has not changed for a while. One worker is always asked for while there is demand: the ReplicaSet tries that by itself.
"""

from datetime import datetime, timedelta

from controllers.ports import ObservedPool

PATIENCE = timedelta(seconds=30)
"""For how long the same refusal must stand: caches catch up in it, and a webhook may only be restarting."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=5), timedelta(minutes=40)


class Refusals:
    """What a pool may ask for after a refusal; `why` is in the words that the cluster first used."""

    def __init__(self) -> None:
        self._forget()

    def observe(self, now: datetime, seen: ObservedPool, existing: int) -> int | None:
        """Take in the pool with its `existing` pods; returns how many may be asked for, None without a limit."""
        refused = bool(seen.refused) and existing < seen.replicas
        since: datetime | None = self._since
        stands = refused and since is not None and seen.version == self._version and now - since >= PATIENCE
        if not refused:
            self._since = None
            if self._until is None or existing > self._granted or now >= self._until + self._pause:
                self._forget()  # pods came, or nothing was refused for as long again
        elif since is None or seen.version != self._version:
            self.why = self.why or seen.refused
            self._since, self._version = now, seen.version
        elif stands and (self._until is None or (not self._pauses(now) and seen.replicas > self._granted)):
            self._pause = FIRST_PAUSE if self._until is None else min(2 * self._pause, LONGEST_PAUSE)
            self._until, self._granted = now + self._pause, max(existing, 1)
        return max(self._granted, existing, 0 if stands else seen.replicas) if self._pauses(now) else None

    def next_change(self, now: datetime) -> datetime | None:
        waits = None if self._since is None else self._since + PATIENCE
        return waits if waits is not None and waits > now else self._until if self._pauses(now) else None

    def _pauses(self, now: datetime) -> bool:
        return self._until is not None and timedelta() < self._until - now <= self._pause

    def _forget(self) -> None:
        self.why = ""
        self._version: str = ""
        self._granted = 0
        self._pause = timedelta()
        self._since: datetime | None = None
        self._until: datetime | None = None
