"""The loop of the workload controller, with scripted workloads."""

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from controllers.adapters import journal
from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.doubt import TRUST, Doubt
from controllers.ports import Outcome
from controllers.workloads.loop import (
    RESYNC,
    LoopCounters,
    ManagedWorkload,
    ReconcileResult,
    WorkloadsLoop,
    Write,
    metrics,
    status,
)
from controllers.workloads.ray.idle import IdleWorkers

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


@dataclass
class Scripted:
    name: str
    verdict: ReconcileResult | Exception
    outcomes: list[tuple[Outcome, str]] = field(default_factory=list[tuple[Outcome, str]])

    @property
    def subject(self) -> str:
        return f"thing x/{self.name}"

    @property
    def target(self) -> tuple[str, str, str, str]:
        return ("v1", "Thing", "x", self.name)

    def reconcile(self, now: datetime, doubt: Doubt) -> ReconcileResult:  # noqa: ARG002 - as the frame calls it
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    def wrote(self, write: Write, outcome: Outcome, error: str) -> None:  # noqa: ARG002 - as the frame calls it
        self.outcomes.append((outcome, error))


class Api:
    """Takes writes and Events, or refuses writes with `refuses`."""

    def __init__(self) -> None:
        self.patched: list[tuple[str, Any, str]] = []
        self.events: list[dict[str, Any]] = []
        self.refuses: ApiError | None = None

    def patch(self, path: str, body: Any, *, fieldManager: str) -> None:  # noqa: N803 - the API's name
        if self.refuses:
            raise self.refuses
        self.patched.append((path, body, fieldManager))

    def get(self, path: str, **query: str) -> dict[str, Any]:  # noqa: ARG002 - as KubeApi has it
        return {"items": []}

    def apply(self, path: str, body: dict[str, Any], *, manager: str, force: bool = True) -> None:  # noqa: ARG002 - as KubeApi has it
        self.events.append({**body, "manager": manager, **({} if force else {"force": False})})


class Scene:
    def __init__(self, *workloads: Scripted) -> None:
        self.api, self.tally, self.stream, self.leads = Api(), LoopCounters(), io.StringIO(), True
        self.workloads = workloads
        self.loop = WorkloadsLoop(
            cast("KubeApi", self.api),
            cast("tuple[ManagedWorkload, ...]", workloads),
            may_write=lambda: self.leads,
            tally=self.tally,
            stream=self.stream,
        )

    def reconcile(self, doubt: Doubt = TRUST) -> timedelta:
        return self.loop.reconcile(NOW, doubt)

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "PAUSE", 0.01)


def verdict(name: str, *, write: bool = False, note: str = "", **more: Any) -> ReconcileResult:
    body = {"metadata": {"resourceVersion": "7"}, "spec": {"suspend": True}}
    sent = Write(path=f"/things/{name}", body=body, change="spec.suspend true", reason="idle-for-long")
    report = {"kind": "Thing", "namespace": "x", "name": name, "state": "awake", "why": "so", "note": note, **more}
    return ReconcileResult(report=report, due=NOW + timedelta(minutes=5), write=sent if write else None, note=note)


def test_a_write_is_sent_once_told_in_a_line_and_an_event_and_looked_at_again_at_once() -> None:
    scene = Scene(Scripted("a", verdict("a", write=True)))
    pause = scene.reconcile()
    scene.loop.close()

    body = {"metadata": {"resourceVersion": "7"}, "spec": {"suspend": True}}
    assert scene.api.patched == [("/things/a", body, "ebbtide-workloads")]
    assert scene.workloads[0].outcomes == [(Outcome.DONE, "")]
    assert pause < timedelta(seconds=1)
    (line,) = scene.told()
    assert (line["event"], line["change"], line["outcome"]) == ("acted", "spec.suspend true", "done")
    (event,) = scene.api.events
    assert (event["reason"], event["type"], event["source"]) == (
        "IdleForLong",
        "Normal",
        {"component": "ebbtide-workloads"},
    )


@pytest.mark.parametrize(
    ("status_code", "outcome", "events"), [(409, Outcome.STALE, 0), (422, Outcome.REFUSED, 1), (503, Outcome.FAILED, 0)]
)
def test_the_workload_receives_the_outcome_of_a_write_that_was_not_done(
    status_code: int, outcome: Outcome, events: int
) -> None:
    scene = Scene(Scripted("a", verdict("a", write=True)))
    scene.api.refuses = ApiError(status_code, "no")
    scene.reconcile()
    scene.loop.close()

    assert scene.workloads[0].outcomes == [(outcome, "no")]
    assert [event["type"] for event in scene.api.events] == ["Warning"] * events


def test_without_the_lease_nothing_is_sent() -> None:
    scene = Scene(Scripted("a", verdict("a", write=True)))
    scene.leads = False
    scene.reconcile()
    scene.loop.close()

    assert scene.api.patched == []
    assert scene.workloads[0].outcomes == [(Outcome.FENCED, "")]


def test_a_failing_workload_is_reported_once_and_the_others_continue(capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(Scripted("bad", RuntimeError("a bug")), Scripted("good", verdict("good", write=True)))
    for _ in range(3):
        scene.reconcile()
    scene.loop.close()

    assert len(scene.api.patched) == 3
    assert [line["message"] for line in scene.told() if line["event"] == "noted"] == [
        "internal error: RuntimeError('a bug')"
    ]
    assert [report["state"] for report in status(scene.loop.reports)] == ["unknown", "awake"]
    assert "RuntimeError: a bug" in capsys.readouterr().err


def test_a_condition_is_reported_when_it_begins_and_when_it_ends() -> None:
    scripted = Scripted("a", verdict("a", note="odd"))
    scene = Scene(scripted)
    assert scene.reconcile(Doubt("clock skew")) == RESYNC
    scene.reconcile(Doubt("clock skew"))
    scripted.verdict = verdict("a")
    scene.reconcile()
    scene.loop.close()

    assert [(line["subject"], line["message"]) for line in scene.told()] == [
        ("doubt", "nothing is suspended, lowered or opened: clock skew"),
        ("thing x/a", "odd"),
        ("doubt", "no longer: nothing is suspended, lowered or opened: clock skew"),
        ("thing x/a", "no longer: odd"),
    ]


def test_metrics_tell_states_and_leave_out_what_is_not_known() -> None:
    tally = LoopCounters()
    tally.writes["thing x/a", "done"] = 2
    workers = (IdleWorkers(group="gpu", workers=2, idle_for=timedelta(seconds=90), overdue=1),)
    known = verdict("a", pending=("p", "q"), idleFor=timedelta(seconds=90), workers=workers).report
    unknown = verdict("b", pending=(), idleFor=None).report
    text = metrics([known, unknown], tally)

    assert 'ebbtide_workload_state{workload="thing x/a",state="awake",why="so"} 1.0\n' in text
    assert 'ebbtide_workload_pending{workload="thing x/a"} 2.0\n' in text
    assert 'ebbtide_workload_idle_seconds{workload="thing x/a"} 90.0\n' in text
    assert 'idle_seconds{workload="thing x/b"}' not in text
    assert 'ebbtide_workload_writes_total{workload="thing x/a",outcome="done"} 2.0\n' in text
    assert 'ebbtide_workload_worker_idle_seconds{workload="thing x/a",group="gpu"} 90.0\n' in text
    assert 'ebbtide_workload_workers_overdue{workload="thing x/a",group="gpu"} 1.0\n' in text
    assert status([known])[0]["idleFor"] == 90.0
    assert status([known])[0]["workers"] == [{"group": "gpu", "workers": 2, "idleFor": 90.0, "overdue": 1}]


def test_a_state_is_reported_with_the_instant_at_which_it_began() -> None:
    scripted = Scripted("a", verdict("a"))
    scene, later = Scene(scripted), NOW + timedelta(minutes=5)

    def since(now: datetime) -> list[datetime]:
        scene.loop.reconcile(now, TRUST)
        return [report["since"] for report in scene.loop.reports]

    assert since(NOW) == [NOW]
    assert since(later) == [NOW]
    scripted.verdict = verdict("a", why="other")
    assert since(later) == [later]


def test_a_write_that_is_an_apply_takes_its_fields_over() -> None:
    body = {"apiVersion": "v1", "kind": "Thing", "metadata": {"resourceVersion": "7"}, "spec": {"least": 4}}
    sent = Write(path="/things/a", body=body, change="spec.least 4", reason="business-hours", applied=True)
    report = {"name": "thing x/a", "state": "raised", "why": "business-hours", "floor": 4}
    scene = Scene(Scripted("a", ReconcileResult(report=report, due=NOW, write=sent)))

    scene.reconcile()

    assert scene.api.patched == []
    assert {**body, "manager": "ebbtide-workloads"} in scene.api.events
    assert 'ebbtide_workload_floor{workload="thing x/a"} 4' in metrics(scene.loop.reports, scene.tally)


def test_an_apply_may_leave_other_managers_their_fields() -> None:
    body = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}}
    sent = Write(path="/things/a", body=body, change="x", reason="night", applied=True, forced=False)
    report = {"kind": "Thing", "namespace": "", "name": "a", "state": "open", "why": "night"}
    scene = Scene(Scripted("a", ReconcileResult(report=report, due=NOW, write=sent)))

    scene.reconcile()

    assert {**body, "manager": "ebbtide-workloads", "force": False} in scene.api.events
    assert 'workload_state{workload="thing a",state="open"' in metrics(scene.loop.reports, scene.tally)
