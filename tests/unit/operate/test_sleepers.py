"""`ebbtide status` and `why workload`: workloads that sleep, and the targets of commands."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from controllers.adapters.kube_api import ApiError, Json
from controllers.workloads.sleep.calendar import ScaleState, decide_replicas, sleep_at
from controllers.workloads.sleep.idle import Use
from ebbtide.operate import sleepers as module
from ebbtide.operate.api import CannotOperate
from ebbtide.operate.release import release
from ebbtide.operate.sleepers import (
    LeftAsleep,
    SleeperRow,
    ending_targets,
    explain_sleeper,
    kept_targets,
    left_asleep,
    named_targets,
    sleeper_rows,
    sleeper_targets,
)
from ebbtide.operate.status import NoStatus
from ebbtide.operate.wording import REASONS
from ebbtide.vocabulary.controller_config import BudgetPolicy
from ebbtide.vocabulary.labels import PAUSED, SLEEP_UNTIL, WAKE_UNTIL
from ebbtide.vocabulary.workloads import PlannedNight, SleepPolicy, WorkloadsConfig
from tests.builders.controllers import OFFICE
from tests.builders.controllers import config as controller_config
from tests.builders.monitoring.cluster_objects import deployment

HUB = SleepPolicy(name="hub", namespace="ebbtide", kind="StatefulSet", replicas=2, asleep=0, lead=timedelta(minutes=15))
CONFIG = WorkloadsConfig(namespace="ebbtide", hours=OFFICE, sleepers=(HUB,))
NIGHT = datetime(2026, 3, 4, 23, tzinfo=UTC)


class Api:
    """Has one object, with these annotations."""

    def __init__(self, **annotations: str) -> None:
        self._annotations = annotations

    def get(self, path: str, **_: str) -> Any:
        if path != HUB.path:
            raise ApiError(404, path)
        return {"metadata": {"name": "hub", "annotations": self._annotations}, "spec": {"replicas": 0}}


def reports(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    def read(*_: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return {"workloads": answer}

    monkeypatch.setattr(module, "from_pods", read)


REPORT = {
    "kind": "StatefulSet",
    "namespace": "ebbtide",
    "name": "hub",
    "state": "asleep",
    "why": "outside-business-hours",
    "note": "",
    "replicas": 0,
    "until": "2026-03-05T07:45:00+00:00",
}


def test_each_has_its_state_pods_next_change_and_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    reports(monkeypatch, [{**REPORT, "kind": "Deployment", "state": "awake"}, REPORT])
    rows, unread = sleeper_rows(Api(), CONFIG, "UTC")  # pyright: ignore[reportArgumentType] - its one method suffices

    assert not unread
    assert rows[0]._replace(until="") == SleeperRow("hub", "asleep", "0 of 2", "", "outside business hours")
    assert "07:45" in rows[0].until


def test_a_controller_that_does_not_answer_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    reports(monkeypatch, NoStatus("no pod runs"))
    rows, unread = sleeper_rows(Api(), CONFIG, "UTC")  # pyright: ignore[reportArgumentType] - its one method suffices

    assert (rows, unread) == ([SleeperRow("hub", "unknown", "? of 2", "", "")], "no pod runs")


def test_without_a_reason_no_colon_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    reports(monkeypatch, NoStatus("no pod runs"))
    state, *_ = explain_sleeper(Api(), CONFIG, "hub", NIGHT)  # pyright: ignore[reportArgumentType] - its one method suffices

    assert state == "hub: unknown, ? of 2 pods."


def test_a_stack_without_sleep_asks_nobody() -> None:
    assert sleeper_rows(Api(), None, "UTC") == ([], "")  # pyright: ignore[reportArgumentType] - as above


def test_it_is_explained_with_the_calendar_and_the_operators_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    reports(monkeypatch, [REPORT])
    ended = "2026-03-04T22:00:00Z"
    api: Any = Api(**{PAUSED: "disk full", SLEEP_UNTIL: "2026-03-05T12:00:00Z", WAKE_UNTIL: ended})
    state, calendar, paused, asleep = explain_sleeper(api, CONFIG, "hub", NIGHT)

    assert state == "hub: asleep, 0 of 2 pods: outside business hours."
    assert "asleep until" in calendar
    assert "disk full" in paused
    assert SLEEP_UNTIL in asleep


def test_what_sleeps_when_idle_says_what_keeps_it_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {"state": "awake", "why": "in-use", "activity": "hub-0: 0.31 cores"}
    config = replace(CONFIG, sleepers=(replace(HUB, idle_after=timedelta(hours=2)),))
    reports(monkeypatch, [{**REPORT, **used}])
    state, calendar = explain_sleeper(Api(), config, "hub", NIGHT)  # pyright: ignore[reportArgumentType] - as above

    assert state == "hub: awake, 0 of 2 pods: it is in use; hub-0: 0.31 cores."
    assert "asleep once idle for 2h until" in calendar
    reports(monkeypatch, [{**REPORT, "activity": "Prometheus: away", "note": "Prometheus: away"}])
    assert sleeper_rows(Api(), config, "UTC")[0][0].reason.count("away") == 1  # pyright: ignore[reportArgumentType] - as above


class Apps:
    """The Deployments and StatefulSets of some namespaces, and a Lease that another process may hold."""

    def __init__(self, holder: str = "", **deployments: Json) -> None:
        self.deployments, self.patched = deployments, list[Json]()
        now = datetime.now(UTC).isoformat()
        self._lease = {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": now}}

    def get(self, path: str, **_: str) -> Any:
        folder, name = path.rsplit("/", 1)
        if folder.endswith("/leases"):
            return self._lease
        if "/namespaces/hidden/" in path:
            raise ApiError(403, "forbidden")
        if name in ("deployments", "statefulsets"):
            mine = path == "/apis/apps/v1/namespaces/ebbtide/deployments"
            return {"items": [*self.deployments.values()] if mine else []}
        return self.deployments[name]

    def patch(self, path: str, body: Json, **_: str) -> None:
        self.patched.append({path: body})


def test_a_workload_without_pods_and_without_an_entry_is_listed_with_what_to_do() -> None:
    api: Any = Apps(
        notes=deployment("notes"), hub=deployment("hub"), api=deployment("api", 2), parked=deployment("parked", 0, "me")
    )
    config = replace(CONFIG, sleepers=(replace(HUB, kind="Deployment"),))
    chart = BudgetPolicy(name="chart", namespace="team", object_name="charts-own")
    budgets = (BudgetPolicy(name="notes", namespace="ebbtide"), BudgetPolicy(name="lab", namespace="hidden"), chart)
    left, unread = left_asleep(api, controller_config(budgets=budgets), config, "ebbtide")

    assert left == [LeftAsleep("Deployment", "ebbtide", "notes")]
    assert "sleep: { when: never }" in str(left[0])
    assert "ebbtide release --autoscaler notes --namespace ebbtide" in str(left[0])
    assert [line.partition(":")[0] for line in unread] == ["deployments of hidden", "statefulsets of hidden"]
    assert [it.name for it in left_asleep(api, controller_config(), None, "ebbtide")[0]] == ["notes", "hub"]


def test_what_sleeps_no_more_is_released_beside_a_running_controller_once_it_is_awake() -> None:
    config = replace(CONFIG, sleepers=(replace(HUB, kind="Deployment", never=True, replicas=2, asleep=1),))
    (target,) = targets = sleeper_targets(config)
    awake = Apps("ebbtide-workloads-a", hub=deployment("hub", 2))

    (released,) = release(awake, "ebbtide", targets, ending_targets(config))  # pyright: ignore[reportArgumentType] - its two methods suffice
    assert released.done
    assert awake.patched
    for pods in (0, 1):
        asleep: Any = Apps("ebbtide-workloads-a", hub=deployment("hub", pods))
        (refused,) = release(asleep, "ebbtide", targets, ending_targets(config))
        assert (refused.done, asleep.patched) == (False, [])
        assert f"it has {pods} of 2 pods" in refused.detail
    with pytest.raises(CannotOperate, match="pause hub"):
        next(release(awake, "ebbtide", [target]))  # pyright: ignore[reportArgumentType] - as above


def test_a_chart_whose_number_a_policy_keeps_is_not_released_while_it_sleeps_whoever_owns_the_number() -> None:
    chart = replace(HUB, kind="Deployment", never=True, adopted=True, kept=True, name="notebooks", object_name="hub")
    chart = replace(chart, replicas=2, asleep=1)
    config = replace(CONFIG, sleepers=(), adopted_sleepers=(chart,))
    targets = sleeper_targets(config)
    for writer, pods in product(("helm", "ebbtide-workloads"), (0, 1)):
        api: Any = Apps("ebbtide-workloads-a", hub=deployment("hub", pods, writer))
        (refused,) = release(api, "ebbtide", targets, ending_targets(config), kept_targets(config))
        assert (refused.done, refused.target.name, api.patched) == (False, "notebooks", [])
        assert f"it has {pods} of 2 pods" in refused.detail
    api = Apps("ebbtide-workloads-a", hub=deployment("hub", 2, "helm"))
    (released,) = release(api, "ebbtide", targets, ending_targets(config), kept_targets(config))
    assert released.done
    assert kept_targets(replace(config, adopted_sleepers=(replace(chart, kept=False),))) == []


def test_a_rule_with_another_name_than_its_object_has_the_objects_report(monkeypatch: pytest.MonkeyPatch) -> None:
    chart = replace(HUB, adopted=True, name="notebooks", object_name="hub")
    report = {
        "kind": "StatefulSet",
        "namespace": "ebbtide",
        "name": "hub",
        "state": "asleep",
        "why": "outside-business-hours",
    }
    reports(monkeypatch, [{**report, "replicas": 0}])
    api: Any = Api()
    rows, _ = sleeper_rows(api, replace(CONFIG, sleepers=(), adopted_sleepers=(chart,)), "UTC")

    assert [(row.name, row.state, row.pods) for row in rows] == [("notebooks", "asleep", "0 of 2")]


def test_what_is_left_asleep_is_looked_for_beside_charts_that_sleep() -> None:
    api: Any = Apps(hub=deployment("hub"))
    chart = replace(HUB, adopted=True, namespace="hidden")
    _, unread = left_asleep(
        api, controller_config(budgets=()), replace(CONFIG, sleepers=(), adopted_sleepers=(chart,)), "ebbtide"
    )

    assert [line.partition(":")[0] for line in unread] == ["deployments of hidden", "statefulsets of hidden"]


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(CannotOperate, match=r"board.*there are: hub"):
        named_targets(sleeper_targets(CONFIG), ["board"], "workload")
    with pytest.raises(CannotOperate, match="there are: none"):
        named_targets(sleeper_targets(None), ["board"], "workload")


def test_every_reason_has_words() -> None:
    midnight = PlannedNight(at=0, lasting=timedelta(hours=1), pods=2)
    idler, ending = replace(HUB, idle_after=timedelta(hours=2)), replace(HUB, never=True)
    night = replace(HUB, overnight=(midnight,), after=timedelta(hours=1))
    hours = [
        datetime(2026, 3, 4, hour, minute, tzinfo=UTC)
        for hour, minute in product((0, 1, 7, 8, 12, 18, 19, 23), (0, 50))
    ]
    reasons = {"workload-unknown", "no-such-workload", *(sleep_at(now, night, OFFICE).reason for now in hours)}
    for now, replicas, flags in product(hours, (0, 2, 3), product((True, False), repeat=6)):
        paused, kept, wake, sleep, doubt, recent = flags
        state = ScaleState(
            replicas=replicas,
            paused=paused,
            kept=kept,
            wake_asked=wake,
            sleep_asked=sleep,
            doubt="clock" if doubt else "",
            other_writer="argocd" if doubt and recent else "",
            changed_recently=recent,
        )
        reasons.add(decide_replicas(state, night, sleep_at(now, night, OFFICE)).reason)
        for use in Use:
            reasons.add(decide_replicas(replace(state, use=use), idler, sleep_at(now, idler, OFFICE)).reason)
        reasons.add(decide_replicas(replace(state, ours=wake), ending, sleep_at(now, ending, OFFICE)).reason)
        reasons.add(decide_replicas(replace(state, blind="HTTP 403"), night, sleep_at(now, night, OFFICE)).reason)

    assert reasons <= {*REASONS}
    assert len(reasons) == 22
