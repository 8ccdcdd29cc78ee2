"""For how long a cluster has been known to be idle. Pure; what is remembered is lost at a restart, which delays."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

LONGEST_GAP = timedelta(minutes=1)  # between two readings that may be joined: in a longer one anything may have run


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is attached and nothing runs. `last`: when something that has ended since was last seen to run."""

    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    why: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The head counts as busy, because its answer proves nothing. `silent`: no connection was accepted."""

    why: str
    silent: bool = False


Activity: TypeAlias = Idle | Busy | Unreadable


class IdleTime:
    """Counts from the first of an unbroken row of readings that say idle, or from the last end that they tell."""

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._at: datetime | None = None

    def observe(self, now: datetime, activity: Activity) -> timedelta | None:
        """For how long it has been idle; None if it is not known to be."""
        joined = self._at is not None and timedelta() <= now - self._at <= LONGEST_GAP
        if not isinstance(activity, Idle):
            self.forget()
            return None
        since = self._since if joined and self._since is not None else now
        self._since = since if activity.last is None else max(since, activity.last)
        self._at = now
        return max(now - self._since, timedelta())

    def forget(self) -> None:
        self._since = self._at = None
