"""The loop of the workload controller: look at each workload, send at most one write for each, tell what happened.

Level-based, as the scaler's loop is. What goes wrong with one workload is told, and the others go on.
"""

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TextIO

from controllers.adapters.journal import Events, write_line
from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.kube_cluster import outcome_of
from controllers.adapters.metrics import family
from controllers.ports import NO_LONGER, Outcome
from controllers.workloads.words import Verdict, Workload, Write
from ebbtide.vocabulary.documents import encoded
from ebbtide.vocabulary.labels import WORKLOADS

RESYNC = timedelta(seconds=10)
RETRY = timedelta(seconds=1)
_AT_ONCE = timedelta(milliseconds=1)
_EVENTS = {Outcome.DONE: "Normal", Outcome.REFUSED: "Warning"}  # other outcomes make none


class Tally:
    """Outlives a term: what the metrics count."""

    def __init__(self) -> None:
        self.writes: Counter[tuple[str, str]] = Counter()  # by subject and outcome
        self.reconciles = 0


class Loop:
    def __init__(
        self,
        api: KubeApi,
        workloads: Sequence[Workload],
        *,
        may_write: Callable[[], bool],
        tally: Tally,
        stream: TextIO = sys.stdout,
    ) -> None:
        self._api, self._workloads, self._may_write, self._tally, self._stream = (
            api,
            workloads,
            may_write,
            tally,
            stream,
        )
        self._events = Events(api, {it.subject: it.about for it in workloads}, WORKLOADS)
        self._notes: dict[str, str] = {}
        self._since: dict[str, tuple[object, datetime]] = {}
        self.reports: tuple[Mapping[str, Any], ...] = ()

    def reconcile(self, now: datetime, doubt: str) -> timedelta:
        """All workloads once; returns after how long to do so again at the latest."""
        self._note(now, "doubt", doubt and f"nothing is suspended or lowered: {doubt}")
        dues, reports = [now + RESYNC], list[Mapping[str, Any]]()
        for workload in self._workloads:
            verdict = self._look(workload, now, doubt)
            self._note(now, workload.subject, verdict.note)
            reports.append({**verdict.report, "since": self._begun(workload.subject, verdict.report, now)})
            dues.append(verdict.due)
            if verdict.write is not None:
                dues.append(now + (_AT_ONCE if self._send(workload, verdict.write, now) is Outcome.DONE else RETRY))
        self.reports = tuple(reports)
        self._tally.reconciles += 1
        return max(min(dues) - now, _AT_ONCE)

    def close(self) -> None:
        self._events.close()

    def _look(self, workload: Workload, now: datetime, doubt: str) -> Verdict:
        try:
            return workload.reconcile(now, doubt)
        except Exception as error:
            traceback.print_exc()
            report = {"name": workload.subject, "state": "unknown", "why": "internal-error", "note": repr(error)}
            return Verdict(report=report, due=now + RESYNC, note=f"internal error: {error!r}")

    def _begun(self, subject: str, report: Mapping[str, Any], now: datetime) -> datetime:
        """Since when state and reason are what they are, as far back as this term saw."""
        what = (report["state"], report["why"])
        known, at = self._since.get(subject, (None, now))
        _, since = self._since[subject] = (what, at if known == what else now)
        return since

    def _send(self, workload: Workload, write: Write, now: datetime) -> Outcome:
        outcome, error = Outcome.FENCED, ""
        if self._may_write():
            try:
                if write.applied:
                    self._api.apply(write.path, write.body, manager=WORKLOADS)
                else:
                    self._api.patch(write.path, write.body, fieldManager=WORKLOADS)
                outcome = Outcome.DONE
            except ApiError as failure:
                outcome, error = outcome_of(failure), str(failure)
        workload.wrote(write, outcome, error)
        self._tally.writes[workload.subject, outcome.value] += 1
        told = {"subject": workload.subject, "change": write.change, "reason": write.reason, "outcome": outcome.value}
        write_line(self._stream, now, "acted", **told, **({"error": error} if error else {}))
        if outcome in _EVENTS:
            message = f"{write.change}: {write.reason}{f', refused by the cluster: {error}' if error else ''}"
            self._events.put(now, workload.subject, _EVENTS[outcome], write.reason.title().replace("-", ""), message)
        return outcome

    def _note(self, now: datetime, subject: str, message: str) -> None:
        """Tell a condition when it begins, changes or ends."""
        before = self._notes.get(subject, "")
        if message != before:
            self._notes[subject] = message
            told = message or f"{NO_LONGER}{before}"
            write_line(self._stream, now, "noted", subject=subject, message=told)
            self._events.noted(now, subject, told)


def status(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{key: encoded(value) for key, value in report.items()} for report in reports]


def metrics(reports: Sequence[Mapping[str, Any]], tally: Tally) -> str:
    """Return the state of each workload at the last reconciliation, and the counters since the process started."""
    names = [(_label(report), report) for report in reports]
    states = [({"workload": name, "state": str(it["state"]), "why": str(it["why"])}, 1) for name, it in names]
    pending = [({"workload": name}, len(it["pending"])) for name, it in names if "pending" in it]
    idle = [({"workload": name}, it["idleFor"].total_seconds()) for name, it in names if it.get("idleFor") is not None]
    groups = [
        ({"workload": name, "group": group.group}, group) for name, it in names for group in it.get("workers", ())
    ]
    floors = [({"workload": name}, it["floor"]) for name, it in names if "floor" in it]
    noted = [({"workload": name}, bool(it.get("note"))) for name, it in names]
    writes = [({"workload": name, "outcome": how}, count) for (name, how), count in sorted(tally.writes.items())]
    return "".join(
        [
            family("workload_state", "State of a workload and its reason", states),
            family(
                "workload_pending", "Differences of the spec that wait until the workload may be interrupted", pending
            ),
            family("workload_idle_seconds", "Time for which the workload has been idle", idle),
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
            family("workload_floor", "Current minimum of pods, by the calendar", floors),
            family("workload_noted", "1 if a condition of the workload needs attention", noted),
            family("workload_writes_total", "Writes by outcome", writes),
            family("workloads_reconciles_total", "Reconciliations", [({}, tally.reconciles)]),
        ]
    )


FLAGS = {
    "leader": "1 if this replica holds the Lease",
    "config_good": "1 if the config document is valid",
    "clocks_agree": "1 if its clock and the API server's agree",
}


def process_metrics(flags: Mapping[str, bool], calls: Mapping[str, int]) -> str:
    """Of the process itself: each of `FLAGS`, and its requests by verb."""
    families = [family(f"workloads_{name}", meaning, [({}, flags[name])]) for name, meaning in FLAGS.items()]
    requests = [({"verb": verb}, count) for verb, count in sorted(calls.items())]
    return "".join([*families, family("workloads_api_calls_total", "Requests to the API server", requests)])


def _label(report: Mapping[str, Any]) -> str:
    return (
        f"{str(report.get('kind', '')).lower()} {report['namespace']}/{report['name']}"
        if "kind" in report
        else str(report["name"])
    )
