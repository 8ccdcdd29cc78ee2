"""The loop of the workload controller: reconcile each workload, send at most one write for each, report the result.

It is level-based, like the scaler's loop. If one workload fails, the failure is reported and the others continue.
"""

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TextIO, TypeAlias

from controllers.adapters.journal import Events, ObjectReference, write_line
from controllers.adapters.kube_api import ApiError, Json, KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.adapters.kube_cluster import outcome_of
from controllers.adapters.metrics import family
from controllers.doubt import Doubt
from controllers.ports import Outcome
from controllers.reconciling import Notes
from ebbtide.vocabulary.documents import encoded
from ebbtide.vocabulary.labels import WORKLOADS

RESYNC = timedelta(seconds=10)
RETRY = timedelta(seconds=1)
_AT_ONCE = timedelta(milliseconds=1)

Notify: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One patch of one object, bound to the version on which it was decided."""

    path: str
    body: Json
    change: str  # text for operators: "spec.suspend true"
    reason: str  # in kebab case; becomes the Event's reason
    applied: bool = False  # True: a server-side apply of the fields in `body`; False: a merge patch
    forced: bool = True  # True if an apply may take over fields from other managers

    @property
    def version(self) -> str:
        return self.body["metadata"]["resourceVersion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    """The result of one reconcile of a workload: `due` is the latest time of the next one, `note` the condition."""

    report: Mapping[str, Any]
    due: datetime
    write: Write | None = None
    note: str = ""


def verdict_by_calendar(
    target: ObjectReference,
    due: datetime,
    state: str,
    why: str,
    *,
    note: str,
    write: Write | None = None,
    **known: Any,
) -> ReconcileResult:
    """Return the verdict on an object whose number of pods follows the calendar.

    `known`: facts from the calendar for the report; `until` is the calendar's next change, None if there is none.
    """
    _, kind, namespace, name = target
    report = {"kind": kind, "namespace": namespace, "name": name, "state": state, "why": why, "note": note, **known}
    until = known.get("until")
    return ReconcileResult(report=report, due=due if until is None else min(due, until), write=write, note=note)


class ManagedWorkload(Protocol):
    """One managed object. `reconcile` may raise anything: the loop reports it."""

    @property
    def subject(self) -> str: ...
    @property
    def target(self) -> ObjectReference: ...
    def reconcile(self, now: datetime, doubt: Doubt) -> ReconcileResult: ...

    def wrote(self, write: Write, outcome: Outcome, error: str) -> None:
        """Record the outcome of the last verdict's write."""


@dataclass(frozen=True)
class Kind:
    """All workloads of one kind, and the caches that show them."""

    workloads: Sequence[ManagedWorkload]
    caches: Sequence[KubeCache[Any]]
    of_teams: Sequence[KubeCache[Any]] = ()  # in namespaces that a team may delete; workloads report these troubles

    def start(self) -> None:
        for cache in (*self.caches, *self.of_teams):
            cache.start()

    def close(self) -> None:
        for cache in (*self.caches, *self.of_teams):
            cache.close()

    def trouble(self) -> str:
        """Return why the caches may be stale; empty if they are current."""
        return next(filter(None, (cache.trouble() for cache in self.caches)), "")


class LoopCounters:
    """Counters for the metrics. They outlive a term."""

    def __init__(self) -> None:
        self.writes: Counter[tuple[str, str]] = Counter()  # by subject and outcome
        self.reconciles = 0


class WorkloadsLoop:
    def __init__(
        self,
        api: KubeApi,
        workloads: Sequence[ManagedWorkload],
        *,
        may_write: Callable[[], bool],
        tally: LoopCounters,
        stream: TextIO = sys.stdout,
    ) -> None:
        self._api, self._workloads, self._may_write = api, workloads, may_write
        self._tally, self._stream = tally, stream
        self._events = Events(api, {workload.subject: workload.target for workload in workloads}, WORKLOADS)
        self._notes = Notes(self._report_note)
        self._since: dict[str, tuple[object, datetime]] = {}
        self.reports: tuple[Mapping[str, Any], ...] = ()

    def reconcile(self, now: datetime, doubt: Doubt) -> timedelta:
        """Reconcile every workload once; return the longest pause until the next reconcile."""
        self._notes.note(now, "doubt", f"nothing is suspended, lowered or opened: {doubt.why}" if doubt else "")
        dues, reports = [now + RESYNC], list[Mapping[str, Any]]()
        for workload in self._workloads:
            verdict = self._reconcile_one(workload, now, doubt)
            self._notes.note(now, workload.subject, verdict.note)
            reports.append({**verdict.report, "since": self._state_since(workload.subject, verdict.report, now)})
            dues.append(verdict.due)
            if verdict.write is not None:
                dues.append(now + (_AT_ONCE if self._send(workload, verdict.write, now) is Outcome.DONE else RETRY))
        self.reports = tuple(reports)
        self._tally.reconciles += 1
        return max(min(dues) - now, _AT_ONCE)

    def close(self) -> None:
        self._events.close()

    def _reconcile_one(self, workload: ManagedWorkload, now: datetime, doubt: Doubt) -> ReconcileResult:
        try:
            return workload.reconcile(now, doubt)
        except Exception as error:
            traceback.print_exc()
            report = {"name": workload.subject, "state": "unknown", "why": "internal-error", "note": repr(error)}
            return ReconcileResult(report=report, due=now + RESYNC, note=f"internal error: {error!r}")

    def _state_since(self, subject: str, report: Mapping[str, Any], now: datetime) -> datetime:
        """Return the time since which state and reason are unchanged, within this term."""
        state = (report["state"], report["why"])
        previous, since = self._since.get(subject, (None, now))
        since = since if previous == state else now
        self._since[subject] = (state, since)
        return since

    def _send(self, workload: ManagedWorkload, write: Write, now: datetime) -> Outcome:
        outcome, error = Outcome.FENCED, ""
        if self._may_write():
            try:
                if write.applied:
                    self._api.apply(write.path, write.body, manager=WORKLOADS, force=write.forced)
                else:
                    self._api.patch(write.path, write.body, fieldManager=WORKLOADS)
                outcome = Outcome.DONE
            except ApiError as failure:
                outcome, error = outcome_of(failure), str(failure)
        workload.wrote(write, outcome, error)
        self._tally.writes[workload.subject, outcome.value] += 1
        fields = {"subject": workload.subject, "change": write.change, "reason": write.reason, "outcome": outcome.value}
        write_line(self._stream, now, "acted", **fields, **({"error": error} if error else {}))
        self._events.wrote(now, workload.subject, write.change, write.reason, outcome, error)
        return outcome

    def _report_note(self, at: datetime, subject: str, message: str) -> None:
        write_line(self._stream, at, "noted", subject=subject, message=message)
        self._events.noted(at, subject, message)


def status(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{key: encoded(value) for key, value in report.items()} for report in reports]


def metrics(reports: Sequence[Mapping[str, Any]], tally: LoopCounters) -> str:
    """Return the state of each workload at the last reconciliation, and the counters since the process started."""
    labelled = [({"workload": _label(report)}, report) for report in reports]
    groups = [
        ({**labels, "group": group.group}, group) for labels, report in labelled for group in report.get("workers", ())
    ]
    writes = [({"workload": name, "outcome": outcome}, n) for (name, outcome), n in sorted(tally.writes.items())]
    return "".join(
        [
            family(
                "workload_state",
                "State of a workload and its reason",
                [({**labels, **{key: str(report[key]) for key in ("state", "why")}}, 1) for labels, report in labelled],
            ),
            family(
                "workload_pending",
                "Differences of the spec that wait until the workload may be interrupted",
                [(labels, len(report["pending"])) for labels, report in labelled if "pending" in report],
            ),
            family(
                "workload_idle_seconds",
                "Time for which the workload has been idle",
                [
                    (labels, idle.total_seconds())
                    for labels, report in labelled
                    if (idle := report.get("idleFor")) is not None
                ],
            ),
            family(
                "workload_worker_idle_seconds",
                "Time for which workers of a group have been idle",
                [(labels, group.idle_for.total_seconds()) for labels, group in groups],
            ),
            family(
                "workload_workers_overdue",
                "Idle workers of a group that exceed its idle timeout",
                [(labels, group.overdue) for labels, group in groups],
            ),
            family(
                "workload_floor",
                "Current minimum of pods, by the calendar",
                [(labels, report["floor"]) for labels, report in labelled if "floor" in report],
            ),
            family(
                "workload_noted",
                "1 if a condition of the workload needs attention",
                [(labels, bool(report.get("note"))) for labels, report in labelled],
            ),
            family("workload_writes_total", "Writes by outcome", writes),
            family("workloads_reconciles_total", "Reconciliations", [({}, tally.reconciles)]),
        ]
    )


def _label(report: Mapping[str, Any]) -> str:
    if "kind" not in report:
        return str(report["name"])
    return f"{report['kind'].lower()} {report['namespace']}/{report['name']}".replace(" /", " ")  # no namespace
