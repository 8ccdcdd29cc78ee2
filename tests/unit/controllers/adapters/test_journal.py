"""Lines and Events. That Events arrive and are shown is tested on a real API server; here, which and how many."""

import io
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controllers.adapters import journal
from controllers.adapters.journal import Events, LineJournal, objects_of
from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.metrics import Meter
from controllers.ports import Action, Mark, Outcome, Scale, SetBudget
from tests.builders.controllers import NIGHT, NOON, budgets, config, pool_policy
from tests.builders.redis import wait_until

GROW = Scale(pool="train", replicas=3, version="1", reason="demand-above-capacity")
OPEN = SetBudget(budget="api", max_unavailable=1, version="1", reason="disruption-window-open")
MARK = Mark(pool="train", pod="train-1", idle=True, reason="shrink")


class RecordingApi:
    """Takes what Events needs of `KubeApi`; refuses while `away`."""

    def __init__(self) -> None:
        self.away = False
        self.applied: dict[str, dict[str, Any]] = {}
        self.writes = 0

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return {"items": [{"metadata": {"uid": f"uid of {path} {query['fieldSelector']}"}}]}

    def apply(self, path: str, body: dict[str, Any], *, manager: str) -> None:  # noqa: ARG002 - as KubeApi has it
        self.writes += 1
        if self.away:
            raise ApiError(0, "away")
        self.applied[path] = body


class Scene:
    def __init__(self) -> None:
        self.api = RecordingApi()
        settings = config(pool_policy(), budgets=budgets("api"))
        self.events, self.error = Events(cast("KubeApi", self.api), objects_of(settings)), ""
        self.journal = LineJournal(io.StringIO(), Meter(), self.events, lambda: self.error)

    def act(self, action: Action, outcome: Outcome = Outcome.DONE) -> None:
        self.journal.acted(NOON, action, outcome)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(journal, "PAUSE", 0.01)
    scene = Scene()
    yield scene
    scene.events.close()


def test_a_change_is_an_event_on_its_object_with_the_reason(scene: Scene) -> None:
    scene.act(GROW)
    scene.act(OPEN)
    scene.events.close()

    path = "/api/v1/namespaces/workers/events/train.demandabovecapacity.normal"
    event = scene.api.applied[path]
    assert (event["reason"], event["type"], event["count"]) == ("DemandAboveCapacity", "Normal", 1)
    assert event["message"] == "replicas 3: demand-above-capacity"
    assert event["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "workers",
        "name": "train",
        "uid": "uid of /apis/apps/v1/namespaces/workers/deployments metadata.name=train",
    }
    assert "/api/v1/namespaces/apps/events/api.disruptionwindowopen.normal" in scene.api.applied


def test_the_same_reason_on_the_same_object_is_counted(scene: Scene) -> None:
    for _ in range(50):
        scene.act(GROW)
    scene.events.close()

    (event,) = scene.api.applied.values()
    assert event["count"] == 50


def test_a_refusal_is_a_warning(scene: Scene) -> None:
    scene.error = "exceeded quota"
    scene.act(GROW, Outcome.REFUSED)
    scene.events.close()

    (event,) = scene.api.applied.values()
    assert (event["type"], event["message"]) == (
        "Warning",
        "replicas 3: demand-above-capacity, refused by the cluster: exceeded quota",
    )


def test_marks_and_what_did_not_happen_make_no_event(scene: Scene) -> None:
    scene.act(MARK)
    for outcome in (Outcome.STALE, Outcome.FAILED, Outcome.FENCED):
        scene.act(GROW, outcome)
    scene.events.close()

    assert scene.api.writes == 0


def test_what_is_noted_of_a_pool_or_budget_is_an_event_on_it_and_its_end_another(scene: Scene) -> None:
    scene.events.noted(NOON, "pool train", "workers on silent nodes: 1")
    scene.events.noted(NOON, "pool train", "no longer: workers on silent nodes: 1")
    scene.events.noted(NOON, "budget api", "not in the cluster")
    scene.events.noted(NOON, "cluster", "away")  # of no object
    scene.events.close()

    told = {path.rpartition("/")[2]: (event["type"], event["message"]) for path, event in scene.api.applied.items()}
    assert told == {
        "train.condition.warning": ("Warning", "workers on silent nodes: 1"),
        "train.conditionover.normal": ("Normal", "no longer: workers on silent nodes: 1"),
        "api.condition.warning": ("Warning", "not in the cluster"),
    }


def test_an_api_that_is_away_costs_events_and_nothing_else(scene: Scene) -> None:
    scene.api.away = True
    scene.act(GROW)
    wait_until(lambda: scene.api.writes, "the try")
    scene.api.away = False
    scene.act(OPEN)
    wait_until(lambda: scene.api.applied, "the next Event")

    assert [event["reason"] for event in scene.api.applied.values()] == ["DisruptionWindowOpen"]


def test_lines_are_json_objects_with_time_reason_and_outcome() -> None:
    stream = io.StringIO()
    reported: list[str] = []

    def wrote(_: datetime, subject: str, change: str, *__: object) -> None:
        reported.append(f"{subject}: {change}")

    def noted_too(_: datetime, subject: str, message: str) -> None:
        reported.append(f"{subject}: {message}")

    events = SimpleNamespace(wrote=wrote, noted=noted_too)
    words = iter(["modified", ""])
    lines = LineJournal(stream, Meter(), cast("Events", events), lambda: next(words))
    lines.acted(NIGHT, OPEN, Outcome.STALE)
    lines.acted(NIGHT, GROW, Outcome.DONE)
    lines.noted(NIGHT + timedelta(milliseconds=5), "cluster", "away")

    acted, done, noted = (json.loads(line) for line in stream.getvalue().splitlines())
    assert acted == {
        "at": "2026-03-04T23:00:00.000+00:00",
        "event": "acted",
        "budget": "api",
        "maxUnavailable": 1,
        "reason": "disruption-window-open",
        "outcome": "stale",
        "error": "modified",
    }
    assert "error" not in done
    assert noted["message"] == "away"
    assert reported == ["budget api: opened", "pool train: replicas 3", "cluster: away"]
