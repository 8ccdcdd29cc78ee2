"""The closer and its clocks. On a real API server: tests/control_plane/adopted_charts/test_kept_budgets.py."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.closer import close, close_node_pool, main
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, CLOSER, MAINTENANCE_UNTIL
from ebbtide.vocabulary.node_pools import CLOSED, budgets_for
from ebbtide.vocabulary.windows import DatedInterval
from ebbtide.vocabulary.workloads import NodePoolPolicy, WorkloadsConfig
from tests.builders.components import controller_config

API = BudgetPolicy(name="api", namespace="ebbtide")
RAY = BudgetPolicy(name="ray", namespace="ebbtide")
# New York, 08:00 to 19:00 on weekdays, a guard of 15 minutes.
NOON = datetime(2026, 11, 18, 17, tzinfo=UTC)
NIGHT = datetime(2026, 11, 18, 6, tzinfo=UTC)
CLOSING_TIME = datetime(2026, 11, 18, 12, 45, tzinfo=UTC)
THANKSGIVING = datetime(2026, 11, 26, 12, 45, tzinfo=UTC)


class Budgets:
    """Stands for the two calls of `KubeApi` that the closer makes."""

    def __init__(self, max_unavailable: int = 1, annotations: Mapping[str, str] | None = None) -> None:
        self.seen: dict[str, Any] = {
            "metadata": {"annotations": annotations or {}},
            "spec": {"maxUnavailable": max_unavailable},
        }
        self.read: list[str] = []
        self.applied: list[tuple[str, Any]] = []
        self.refusal: ApiError | None = None

    def get(self, path: str) -> Mapping[str, Any]:
        self.read.append(path)
        if self.refusal is not None:
            raise self.refusal
        return self.seen

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> None:
        assert manager == CLOSER
        self.applied.append((path.rpartition("/")[2], body["spec"]))


def config() -> ControllerConfig:
    hours = replace(
        controller_config().hours,
        closed_dates=frozenset({date(2026, 11, 26)}),
        open_dates=frozenset({DatedInterval(date(2026, 11, 28), 8 * 60, 19 * 60)}),
    )
    return replace(controller_config(), hours=hours, budgets=(API,), never_opened=(RAY,))


def closes(budget: BudgetPolicy, *clocks: datetime, budgets: Budgets | None = None) -> bool:
    found = budgets or Budgets()
    assert close(budget, config(), cast("KubeApi", found), [*clocks])
    assert found.read == [f"/apis/policy/v1/namespaces/ebbtide/poddisruptionbudgets/{budget.name}"]
    assert found.applied in ([], [(budget.name, {"maxUnavailable": 0})])
    return bool(found.applied)


@pytest.mark.parametrize(
    ("at", "closed"),
    [
        (NOON, True),
        (CLOSING_TIME, True),
        (NIGHT, False),
        (THANKSGIVING, False),
        (datetime(2026, 11, 28, 12, 45, tzinfo=UTC), True),  # a working Saturday
        (datetime(2026, 11, 21, 12, 45, tzinfo=UTC), False),
    ],
)
def test_a_flexible_budget_is_closed_by_day_and_left_open_by_night_and_on_holidays(at: datetime, closed: bool) -> None:
    assert closes(API, at) is closed


@pytest.mark.parametrize(("least", "closed"), [(0, True), ("0%", True), (CLOSED_MINIMUM, False)])
def test_a_budget_without_scale_is_closed_by_its_minimum(least: object, closed: bool) -> None:
    budgets = Budgets()
    budgets.seen["spec"] = {"minAvailable": least}

    assert close(RAY, config(), cast("KubeApi", budgets), [NOON])
    assert budgets.applied == ([("ray", {"minAvailable": CLOSED_MINIMUM})] if closed else [])


def test_what_is_closed_is_not_written() -> None:
    assert not closes(API, NOON, budgets=Budgets(max_unavailable=0))


def test_a_clock_that_is_a_little_behind_the_cron_still_closes() -> None:
    assert closes(API, CLOSING_TIME.replace(minute=43, second=30))
    assert not closes(API, CLOSING_TIME.replace(minute=42))


@pytest.mark.parametrize("clocks", [(NIGHT, NOON), (NOON, NIGHT)])
def test_one_clock_that_says_day_is_enough(clocks: tuple[datetime, datetime]) -> None:
    assert closes(API, *clocks)


@pytest.mark.parametrize(
    ("until", "closed"),
    [
        ("2026-11-18T07:00:00Z", False),
        ("2026-11-18T05:59:59Z", True),
        ("tonight", True),
        ("2026-11-18T07:00:00", True),
        ("9999-12-31T23:59:59-05:00", True),  # later than any instant in UTC
    ],
)
def test_at_night_a_fixed_budget_stays_open_only_while_its_maintenance_runs(until: str, closed: bool) -> None:
    assert closes(RAY, NIGHT, budgets=Budgets(annotations={MAINTENANCE_UNTIL: until})) is closed


def test_a_fixed_budget_is_closed_at_any_other_time() -> None:
    assert closes(RAY, NIGHT)
    assert closes(RAY, NOON, budgets=Budgets(annotations={MAINTENANCE_UNTIL: "2026-11-18T23:00:00Z"}))


@pytest.mark.parametrize(("status", "good"), [(404, True), (403, False), (0, False)])
def test_a_budget_that_cannot_be_closed_is_reported(
    status: int, good: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    budgets = Budgets()
    budgets.refusal = ApiError(status, "no luck")

    assert close(API, config(), cast("KubeApi", budgets), [NOON]) is good
    assert capsys.readouterr().err == "closer: ebbtide/api: no luck\n"


def test_a_closed_budget_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert closes(API, NOON)
    assert capsys.readouterr().out == "closer: ebbtide/api closed\n"


def test_the_last_minutes_before_the_evening_are_day_whatever_comes_after_them() -> None:
    assert closes(API, datetime(2026, 11, 18, 23, 59, tzinfo=UTC))


def test_a_maintenance_runs_only_while_every_clock_says_so() -> None:
    until = Budgets(annotations={MAINTENANCE_UNTIL: "2026-11-18T06:30:00Z"})

    assert closes(RAY, NIGHT, NIGHT.replace(minute=45), budgets=until)


@pytest.mark.parametrize(("status", "code"), [(None, 0), (404, 0), (403, 1)])
def test_it_goes_through_all_budgets_and_its_exit_code_tells_whether_one_stayed(
    status: int | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = Budgets()
    budgets.refusal = None if status is None else ApiError(status, "no luck")
    given: list[str | None] = []

    def api(_configuration: None, _heard: object) -> Budgets:
        return budgets

    monkeypatch.setattr("controllers.closer.KubeApi", api)
    monkeypatch.setattr("controllers.closer.from_pod_or", given.append)
    monkeypatch.setattr("controllers.closer.SystemClock", lambda: SimpleNamespace(now=lambda: NOON))
    (tmp_path / "config.json").write_text(dump(config()))

    assert main(["--config", str(tmp_path / "config.json"), "--kubeconfig", "kube"]) == code
    assert [path.rpartition("/")[2] for path in budgets.read] == ["api", "ray"]
    assert budgets.applied == ([] if status else [("api", {"maxUnavailable": 0}), ("ray", {"maxUnavailable": 0})])
    assert given == ["kube"]


@pytest.mark.parametrize(
    ("pod", "applied"),
    [
        ("ebbtide-closer-0745-{minutes}-x7k2p", [("api", {"maxUnavailable": 0}), ("ray", {"maxUnavailable": 0})]),
        ("close-20261118-x7k2p", [("ray", {"maxUnavailable": 0})]),  # made by hand
        ("laptop", [("ray", {"maxUnavailable": 0})]),
    ],
)
def test_if_cron_says_that_it_is_time_the_budgets_are_closed(
    pod: str, applied: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the other clocks there is half an hour left."""
    budgets, now = Budgets(), CLOSING_TIME - timedelta(minutes=30)
    monkeypatch.setattr("controllers.closer.KubeApi", lambda *_: budgets)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - stands for a server
    monkeypatch.setattr("controllers.closer.from_pod_or", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - stands for an address
    monkeypatch.setattr("controllers.closer.SystemClock", lambda: SimpleNamespace(now=lambda: now))
    minutes = int(CLOSING_TIME.timestamp()) // 60
    monkeypatch.setattr("controllers.closer.gethostname", lambda: pod.format(minutes=minutes))
    (tmp_path / "config.json").write_text(dump(config()))

    assert main(["--config", str(tmp_path / "config.json")]) == 0
    assert budgets.applied == applied


def test_without_a_document_nothing_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([])

    assert left.value.code == 2
    assert "--config" in capsys.readouterr().err


def test_a_document_that_cannot_be_read_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")

    assert main(["--config", str(tmp_path / "config.json")]) == 2
    assert capsys.readouterr().err.startswith("closer: nothing was closed: wanted a JSON object with a schema number")


def test_what_may_be_open_by_day_is_not_the_closers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    always = BudgetPolicy(name="train", namespace="ebbtide-workers", always=True)
    asked: list[str] = []

    def seen(budget: BudgetPolicy, *_: object) -> bool:
        asked.append(budget.name)
        return True

    monkeypatch.setattr("controllers.closer.close", seen)
    monkeypatch.setattr("controllers.closer.from_pod_or", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - stands for an address
    monkeypatch.setattr("controllers.closer.KubeApi", lambda *_: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - is never called
    path = tmp_path / "config.json"
    path.write_text(dump(replace(config(), budgets=(API, always))))

    assert main(["--config", str(path)]) == 0
    assert asked == ["api", "ray"]


class NodePools(Budgets):
    """Stands for one NodePool."""

    def __init__(self, budgets: object) -> None:
        super().__init__()
        self.seen = {"metadata": {"resourceVersion": "1"}, "spec": {"disruption": {"budgets": budgets}}}

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str, force: bool = True) -> None:
        assert (manager, force) == ("ebbtide-workloads", False)
        self.applied.append((path, body["spec"]))


def closes_node_pool(pool: NodePools, *clocks: datetime) -> bool:
    nodes = WorkloadsConfig(
        namespace="ebbtide",
        hours=config().hours,
        node_pools=(NodePoolPolicy(name="general", drains=5),),
        drain_guard=timedelta(minutes=35),
    )
    assert close_node_pool("general", nodes, cast("KubeApi", pool), [*clocks])
    path = "/apis/karpenter.sh/v1/nodepools/general"
    assert pool.applied in ([], [(path, {"disruption": {"budgets": CLOSED}})])
    return bool(pool.applied)


@pytest.mark.parametrize(
    ("at", "closed"),
    [
        (NOON, True),
        (CLOSING_TIME - timedelta(minutes=20), True),
        (CLOSING_TIME - timedelta(minutes=21), True),  # cron's clock may be late
        (CLOSING_TIME - timedelta(minutes=23), False),
        (NIGHT, False),
        (THANKSGIVING, False),
    ],
)
def test_a_node_pool_closes_earlier_than_pods_budgets(at: datetime, closed: bool) -> None:
    assert closes_node_pool(NodePools(budgets_for(5)), at) is closed
    assert closes_node_pool(NodePools([{"nodes": "10%"}]), at, NIGHT) is closed
    assert not closes_node_pool(NodePools(CLOSED), at)


def test_a_missing_node_pool_counts_as_closed_and_a_conflict_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    pool = NodePools([])
    pool.refusal = ApiError(404, "not found")
    assert not closes_node_pool(pool, NOON)
    pool.refusal = ApiError(409, 'conflict with "flux"')
    with pytest.raises(AssertionError):
        closes_node_pool(pool, NOON)
    assert "flux" in capsys.readouterr().err
