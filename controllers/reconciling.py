"""The memory of the reconcile loops: writes that no cache shows yet, and noted conditions. Pure.

A cache may lag behind this process's own writes. Remembering them prevents repeated writes and waits that would never
end. This memory is no protection, since a restart forgets it: the version to which a write is bound is the protection.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from controllers.ports import NO_LONGER, Action, BudgetReport, PoolReport

LAG_LIMIT = timedelta(seconds=30)  # if no cache shows a write by then, another writer has overwritten it
ReportT = TypeVar("ReportT", PoolReport, BudgetReport)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result(Generic[ReportT]):
    """One reconcile of the scaler: its actions, the latest time of the next one (None: the resync), and a report."""

    actions: tuple[Action, ...]
    due: datetime | None
    report: ReportT
    noted: bool = True  # False: too little is known to begin or end a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation(Generic[T]):
    """A write that the caches are expected to show."""

    value: T
    before: str  # the object's version on which the write was decided
    at: datetime


class Expectations(Generic[T]):
    """Open expectations, by kind and name of the object."""

    def __init__(self) -> None:
        self._open: defaultdict[str, dict[str, Expectation[T]]] = defaultdict(dict)

    def __bool__(self) -> bool:
        return any(self._open.values())

    def record(self, kind: str, name: str, written: Expectation[T]) -> None:
        self._open[kind][name] = written

    def outstanding(self, kind: str, name: str, shown: tuple[str, T | None], now: datetime) -> Expectation[T] | None:
        """Return the write that the caches do not show yet. `shown`: their version and value (None: not comparable).

        Another version, the written value, or `LAG_LIMIT` ends an expectation.
        """
        written = self._open[kind].get(name)
        if written is None:
            return None
        version, value = shown
        arrived = version != written.before or value == written.value
        if arrived or not timedelta() <= now - written.at < LAG_LIMIT:
            del self._open[kind][name]
            return None
        return written

    def drop_gone(self, kind: str, present: Iterable[str]) -> Container[str]:
        """Drop expectations for objects that no longer exist; return the names of objects with an open expectation."""
        if self._open[kind]:
            for name in self._open[kind].keys() - set(present):
                del self._open[kind][name]
        return self._open[kind]


class Notes:
    """The present condition of each subject; `report` is called when a condition begins, changes or ends."""

    def __init__(self, report: Callable[[datetime, str, str], None]) -> None:
        self._report = report
        self._conditions: dict[str, str] = {}

    def note(self, at: datetime, subject: str, condition: str) -> None:
        """Set the subject's condition, empty if there is none, and report a change."""
        previous = self.condition(subject)
        if condition != previous:
            self._conditions[subject] = condition
            self._report(at, subject, condition or f"{NO_LONGER}{previous}")

    def condition(self, subject: str) -> str:
        return self._conditions.get(subject, "")
