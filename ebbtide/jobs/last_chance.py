"""Decide when a worker that has missed its deadline counts as dead: in an outage, living ones miss it, too."""

from collections.abc import Iterable
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class LastChance(Generic[Entry]):
    """The overdue entries that this worker sees. Each is abandoned once it has been overdue for `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Entry, float] = {}
        self._looked_at = float("-inf")

    def abandoned(self, overdue: Iterable[Entry], now: float, *, longest_gap: float) -> set[Entry]:
        """Record the entries that are overdue now, and return those that have been overdue for long enough.

        After more than `longest_gap` seconds between two calls, Redis or this worker was away: all entries start again.
        """
        if now - self._looked_at > longest_gap:
            self.restart()
        self._looked_at = now
        self._since = {entry: self._since.get(entry, now) for entry in overdue}
        return {entry for entry, since in self._since.items() if now - since >= self._seconds}

    def restart(self) -> None:
        """Start the time of all entries again, since Redis could not be used."""
        self._since = {}
