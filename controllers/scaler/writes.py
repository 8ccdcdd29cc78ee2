"""What a reconcile wants written, and which writes the caches do not show yet.

A cache may lag behind our own writes. Remembering them prevents repeated writes and waits that would never end. It is
no protection (a restart forgets it): that is the version which every change of replicas is bound to.
"""

from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from controllers.ports import Action, BudgetReport, PoolReport

LAG_LIMIT = timedelta(seconds=30)  # a write that no cache shows by then was overwritten by someone else
ReportT = TypeVar("ReportT", PoolReport, BudgetReport)


@dataclass(frozen=True, slots=True)
class Result(Generic[ReportT]):
    """What to do now, when to look again at the latest (None: at the resync), and what to report."""

    actions: tuple[Action, ...]
    due: datetime | None
    report: ReportT
    noted: bool = True  # False: nothing is known that could begin or end a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    value: int
    before: str  # version of the object that the write was decided on
    at: datetime


class Expectations:
    """The open expectations, by kind and name of their object."""

    def __init__(self) -> None:
        self._open: defaultdict[str, dict[str, Expectation]] = defaultdict(dict)

    def __bool__(self) -> bool:
        return any(self._open.values())

    def record(self, kind: str, name: str, written: Expectation) -> None:
        self._open[kind][name] = written

    def outstanding(self, kind: str, name: str, seen: tuple[str, int], now: datetime) -> Expectation | None:
        """The write that the cluster does not show yet, given version and value seen; a shown or old one is dropped."""
        written = self._open[kind].get(name)
        if written is None:
            return None
        version, value = seen
        if version != written.before or value == written.value or not timedelta() <= now - written.at < LAG_LIMIT:
            del self._open[kind][name]
            return None
        return written

    def drop_gone(self, kind: str, present: Iterable[str]) -> Container[str]:
        """Forget the expectations about objects that are no longer there; returns whom the others are about."""
        if self._open[kind]:
            for name in self._open[kind].keys() - set(present):
                del self._open[kind][name]
        return self._open[kind]
