"""When a worker that has missed its deadline counts as dead: an outage of Redis lets living ones miss theirs, too."""

from collections.abc import Iterable
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class LastChance(Generic[Entry]):
    """The overdue entries that this worker sees. Each is judged alone, by the `seconds` for which it is seen."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Entry, float] = {}
        self._looked_at = float("-inf")

    def abandoned(self, overdue: Iterable[Entry], now: float, *, longest_gap: float) -> set[Entry]:
        """Take in the entries that are overdue now, and return those that have been so for long enough.

        After more than `longest_gap` seconds between two looks Redis or this worker was away: all get their time again.
        """
        if now - self._looked_at > longest_gap:
            self.restart()
        self._looked_at = now
        self._since = {entry: self._since.get(entry, now) for entry in overdue}
        return {entry for entry, since in self._since.items() if now - since >= self._seconds}

    def restart(self) -> None:
        """Give all entries their time again: Redis could not be used."""
        self._since = {}
