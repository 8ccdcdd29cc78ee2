"""What was asked of the cluster and is not yet seen in its caches.

A cache may lag behind our own writes. Remembering them prevents repeated writes and waits that would never end. It is
no protection (a restart forgets it): that is the version which every change of replicas is bound to.
"""

from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

LAG_LIMIT = timedelta(seconds=30)  # a write that no cache shows by then was overwritten by someone else


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    value: int
    before: str  # version of the object that the ask was decided on
    at: datetime


class Asks:
    """The open asks, by kind and name of their object."""

    def __init__(self) -> None:
        self._open: defaultdict[str, dict[str, Ask]] = defaultdict(dict)

    def __bool__(self) -> bool:
        return any(self._open.values())

    def record(self, kind: str, name: str, ask: Ask) -> None:
        self._open[kind][name] = ask

    def outstanding(self, kind: str, name: str, seen: tuple[str, int], now: datetime) -> Ask | None:
        """The ask that the cluster does not show yet, given version and value seen; a shown or old one is dropped."""
        ask = self._open[kind].get(name)
        if ask is None:
            return None
        version, value = seen
        if version != ask.before or value == ask.value or not timedelta() <= now - ask.at < LAG_LIMIT:
            del self._open[kind][name]
            return None
        return ask

    def drop_gone(self, kind: str, present: Iterable[str]) -> Container[str]:
        """Forget the asks about objects that are no longer there; returns whom the others are about."""
        if self._open[kind]:
            for name in self._open[kind].keys() - set(present):
                del self._open[kind][name]
        return self._open[kind]
