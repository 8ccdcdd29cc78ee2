"""Back-off while the cluster refuses to create pods. Memory of one pool; the time is an argument.

Two traps. Requesting fewer pods ends the refusal, and without memory the next reconcile would request them again. And a
lagging cache shows fewer pods than exist, so replicas are lowered only if the Deployment, whose status counts its pods,
has not changed for a while. While there is demand, at least one worker is requested: the ReplicaSet retries by itself.
"""

from datetime import datetime, timedelta

from controllers.ports import ObservedPool

PATIENCE = timedelta(seconds=30)
"""The same refusal must last this long: meanwhile caches catch up, and a webhook may only be restarting."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=5), timedelta(minutes=40)


class Refusals:
    """The limit of a pool's replicas after a refusal; `why` is the cluster's first message."""

    def __init__(self) -> None:
        self._forget()

    def observe(self, now: datetime, pool: ObservedPool, existing: int) -> int | None:
        """Record the pool and its `existing` pods; return the most pods that may be requested, None without a limit."""
        refused = bool(pool.refused) and existing < pool.replicas
        since: datetime | None = self._since
        lasts = refused and since is not None and pool.version == self._version and now - since >= PATIENCE
        if not refused:
            self._since = None
            if self._until is None or existing > self._granted or now >= self._until + self._pause:
                self._forget()  # pods were created, or nothing was refused for another pause
        elif since is None or pool.version != self._version:
            self.why = self.why or pool.refused
            self._since, self._version = now, pool.version
        elif lasts and (self._until is None or (not self._pauses(now) and pool.replicas > self._granted)):
            self._pause = FIRST_PAUSE if self._until is None else min(2 * self._pause, LONGEST_PAUSE)
            self._until, self._granted = now + self._pause, max(existing, 1)
        return max(self._granted, existing, 0 if lasts else pool.replicas) if self._pauses(now) else None

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
