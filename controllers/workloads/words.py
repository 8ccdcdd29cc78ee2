"""What the frame and the kinds of workloads say to each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from controllers.adapters.journal import Object
from controllers.ports import Outcome

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One patch of one object. It carries the version that it was decided on, or it may not be sent."""

    path: str
    body: Json
    change: str  # what it does, for people: "spec.suspend true"
    reason: str  # why, in kebab case: it becomes the Event's reason
    applied: bool = False  # by server-side apply of what it names; otherwise it is a merge patch

    @property
    def version(self) -> str:
        return self.body["metadata"]["resourceVersion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one look at a workload came to. `due`: when to look again at the latest; `note`: a condition of it."""

    report: Mapping[str, Any]
    due: datetime
    write: Write | None = None
    note: str = ""


class Workload(Protocol):
    """One object that is looked after. `reconcile` may raise anything: it is told, and the others go on."""

    @property
    def subject(self) -> str: ...
    @property
    def about(self) -> Object: ...
    def reconcile(self, now: datetime, doubt: str) -> Verdict: ...

    def wrote(self, write: Write, outcome: Outcome, error: str) -> None:
        """What became of the write of the last verdict."""


class Kind(Protocol):
    """All workloads of one kind, with the caches that they are seen in."""

    @property
    def workloads(self) -> Sequence[Workload]: ...
    def start(self) -> None: ...
    def close(self) -> None: ...
    def trouble(self) -> str:
        """Why the caches cannot be believed; empty if they can."""
        ...


Notify: TypeAlias = Callable[[], None]
