"""`ebbtide status` and `why pool|budget` on the controller's documents, and on unusual ones."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from controllers.adapters.server import Page, Server, document
from ebbtide.cli.__main__ import app
from ebbtide.operate.status import BudgetState, ServerView, budget_state
from ebbtide.operate.status_text import head_lines, pool_table, server_lines, server_tables, warning_lines
from ebbtide.operate.why.pools_and_budgets import budget_lines, pool_lines
from ebbtide.operate.wording import REASONS, demand_text, reading_state
from ebbtide.vocabulary.controller_config import BudgetPolicy
from ebbtide.vocabulary.labels import CLOSED_MINIMUM
from tests.builders.components import pool_policy
from tests.unit.operate.raw_objects import NOW, budget

KNOWN: dict[str, Any] = {
    "waiting": 7,
    "inTransit": 1,
    "running": 2,
    "stale": 0,
    "dueSoon": 0,
    "oldestWait": 65.0,
    "idle": [],
}
POOL: dict[str, Any] = {
    "name": "train",
    "reading": KNOWN,
    "workers": 3,
    "wanted": 5,
    "reason": "demand-above-capacity",
    "running": 2,
    "pending": 1,
    "failing": 1,
    "unreachable": 0,
    "idle": 0,
    "note": "",
}
DOCUMENT: Mapping[str, Any] = {
    "report": {
        "at": "2026-11-20T15:00:00+00:00",
        "windowOpen": False,
        "windowReason": "business-hours",
        "pools": [POOL],
        "budgets": [{"name": "api", "maxUnavailable": 1, "wanted": 0, "reason": "business-hours"}],
        "trouble": ["the holiday list has ended"],
    },
    "leader": {"identity": "ebbtide-controller-a", "held": True},
    "config": {"good": False, "why": "bad since 09:00"},
    "wake": "tracking",
    "probe": ["eviction policy is allkeys-lru"],
    "tzdata": "2026b",
    "window": {
        "open": False,
        "reason": "business-hours",
        "until": "2026-11-21T00:00:00Z",
        "nextOpening": "2026-11-23T13:00:00Z",
    },
    "measures": {"drainP99": 340.0, "startupP99": None},
}


@pytest.fixture
def controller() -> Iterator[str]:
    """The controller's own HTTP server with that document, and its address."""

    def page() -> Page:
        return document(DOCUMENT)

    server = Server("127.0.0.1", 0, {"/status": page})
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def ebbtide(*arguments: str, columns: int = 200) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, list(arguments))


@pytest.mark.process
def test_everything_that_the_controller_reports_is_shown(controller: str) -> None:
    result = ebbtide("status", "--url", controller)

    assert result.exit_code == 0
    for words in (
        "closed: business hours; opens Sat 2026-11-21 00:00 UTC",
        "ebbtide-controller-a",
        "bad since 09:00",
        "tzdata   2026b",
        "drain 5 min, start-up not measured yet",
        "7 waiting, 1 in transit, 2 running, oldest 1 min",
        "3 → 5",
        "2 running, 1 pending, 1 failing",
        "open → closed",
        "warning: the holiday list has ended",
        "warning: eviction policy is allkeys-lru",
    ):
        assert words in result.output


@pytest.mark.process
def test_a_narrow_terminal_loses_a_column_and_no_name(controller: str) -> None:
    lines = ebbtide("status", "--url", controller, columns=70).output.splitlines()
    table = [line for line in lines if "train" in line or line.startswith("pool")]

    assert "pods" not in table[0]
    assert all(len(line.rstrip()) <= 70 for line in table)


@pytest.mark.process
def test_json_is_the_document_itself(controller: str) -> None:
    assert json.loads(ebbtide("status", "--url", controller, "--json").output) == DOCUMENT


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (("status", "--url", "127.0.0.1:8080"), "wanted http://host:port", 1),
        (("status", "--url", "http://127.0.0.1:1"), "no status at http://127.0.0.1:1/status", 1),
        (("status", "--kubeconfig", "/does/not/exist"), "no cluster:", 2),
        (("keep",), "--until", 2),
        (("pause", "--why", " "), "--why: wanted a reason", 2),
        (("maintenance", "--for", "two hours", "--why", "x"), "wanted a duration", 2),
        (("maintenance", "--for", "13h", "--why", "x"), "at most 12h", 2),
        (("why", "pod", "x"), "'pod' is not one of", 2),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(arguments: tuple[str, ...], said: str, code: int) -> None:
    result = ebbtide(*arguments)

    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("reading", "state", "shown"),
    [
        (KNOWN, "known", "7 waiting, 1 in transit, 2 running, oldest 1 min"),
        ({"kind": "known", "waiting": 0}, "known", "none"),
        ({"kind": "known", "waiting": 0, "running": 2, "oldestWait": 65.0}, "known", "2 running"),
        ({"why": "timeout"}, "unknown", "-"),
        ({"why": "restarted", "seen": KNOWN}, "untrusted", "7 waiting, 1 in transit, 2 running, oldest 1 min"),
        ({"kind": "Untrusted", "why": "restarted", "seen": {"waiting": 0}}, "untrusted", "none"),
        (None, "unknown", "-"),
    ],
)
def test_a_reading_is_recognised_however_it_is_marked(reading: object, state: str, shown: str) -> None:
    assert (reading_state(reading), demand_text(reading)) == (state, shown)


@pytest.mark.parametrize("document", [{}, {"report": None}, {"report": {"pools": "x"}, "config": [], "window": 3}])
def test_an_odd_document_is_shown_as_far_as_it_goes(document: Mapping[str, Any]) -> None:
    assert head_lines(document) == ["window   not known: this pod does not act"]
    assert warning_lines(document) == []


def test_a_row_without_anything_but_a_name_is_still_a_row() -> None:
    console = Console(width=80, record=True, file=None)

    with console.capture() as shown:
        console.print(pool_table([{"name": "train"}], None, wide=True))

    assert "train" in shown.get()


def test_a_budget_that_is_open_outside_the_window_is_shouted_when_the_controller_is_down() -> None:
    opened = (BudgetState(name="api", max_unavailable=1), BudgetState(name="web", max_unavailable=0))
    known = ServerView(leader="", window_open=False, window_until=None, timezone="UTC", budgets=opened)

    assert server_lines(known)[-1].startswith("OPEN OUTSIDE THE WINDOW: api (")


def with_minimum(least: int) -> dict[str, Any]:
    item = budget("log.pods", allowed=1)
    item["spec"] = {"selector": item["spec"]["selector"], "minAvailable": least}
    return item


@pytest.mark.parametrize(("least", "state"), [(CLOSED_MINIMUM, 0), (2, 1), (0, "minAvailable 0")])
def test_a_budget_with_a_minimum_is_open_at_the_number_of_its_rule(least: int, state: int | str) -> None:
    policy = BudgetPolicy(name="log", namespace="kafka", object_name="log.pods", open_minimum=2)

    shown = budget_state(policy, with_minimum(least), NOW)

    assert (shown.name, shown.max_unavailable) == ("log", state)


def test_a_budget_with_a_maximum_is_open_by_its_number() -> None:
    policy = BudgetPolicy(name="api", namespace="ebbtide")

    assert [budget_state(policy, budget(max_unavailable=most), NOW).max_unavailable for most in (0, 1)] == [0, 1]


def test_any_other_minimum_is_shown_and_shouted_outside_the_window() -> None:
    policy = BudgetPolicy(name="log", namespace="kafka", object_name="log.pods", open_minimum=2)
    shown = budget_state(policy, with_minimum(0), NOW)
    known = ServerView(leader="", window_open=False, window_until=None, timezone="UTC", budgets=(shown,))
    _, budgets = server_tables(known)

    assert [str(cell) for cell in budgets.columns[1].cells] == ["minAvailable 0"]
    assert server_lines(known)[-1].startswith("OPEN OUTSIDE THE WINDOW: log (")


def test_a_budget_with_a_minimum_is_explained_by_it() -> None:
    def line(least: int) -> str:
        return budget_lines(None, with_minimum(least), flexible=True, now=NOW)[0]

    assert line(2) == "Budget log.pods is open (minAvailable 2); 1 of its pods may be evicted now."
    assert line(CLOSED_MINIMUM).startswith("Budget log.pods is closed; ")


def deployment(replicas: int | None = 3) -> dict[str, Any]:
    return {"metadata": {"name": "train"}, "spec": {} if replicas is None else {"replicas": replicas}, "status": {}}


def test_a_pool_is_explained_by_demand_reason_and_rules() -> None:
    text = "\n".join(pool_lines(pool_policy(), POOL, deployment(), "kept until 23:00"))

    assert "The controller wants 5: more jobs than its workers take." in text
    assert "(train): 7 waiting, 1 in transit, 2 running, oldest 1 min; reading known." in text
    assert "0 to 30 workers, 1 job per worker; stabilization window 2 min before it shrinks." in text
    assert "An operator holds it: kept until 23:00." in text


def test_a_pool_without_replicas_in_the_answer_has_none() -> None:
    assert pool_lines(pool_policy(), None, deployment(None), "")[0] == "Pool train has 0 workers, 0 of them ready."
    assert "has no Deployment" in pool_lines(pool_policy(), None, None, "")[0]


def test_an_unread_queue_has_its_reason_in_the_pools_lines() -> None:
    row = {**POOL, "reading": {"why": "password refused"}, "wanted": None, "reason": "demand-unknown"}

    text = "\n".join(pool_lines(pool_policy(), row, deployment(), ""))

    assert "Nothing is decided: its queues could not be read" in text
    assert "Note: password refused." in text


def test_a_fixed_budget_that_is_open_names_who_will_close_it() -> None:
    def lines(until: str) -> str:
        marked = budget(max_unavailable=1, allowed=1, meta={"annotations": {"ebbtide.dev/maintenance-until": until}})
        return budget_lines(None, marked, flexible=False, now=NOW)[-1]

    assert "keeps it open for 1 h 00 min more" in lines("2026-11-20T16:00:00Z")
    assert "No maintenance is under way" in lines("2026-11-20T14:00:00Z")
    assert "No maintenance is under way" in lines("soon")


def test_every_reason_that_the_controller_can_give_has_words() -> None:
    from controllers.scaler.budgets import BudgetReason
    from controllers.scaler.workers.decision import Reason as PoolReason

    assert {*PoolReason, *BudgetReason} <= REASONS.keys()


def test_local_time_is_shown_where_the_zone_is_known() -> None:
    there = {**DOCUMENT, "window": {**DOCUMENT["window"], "timezone": "America/New_York"}}

    assert "opens Fri 2026-11-20 19:00 EST" in head_lines(there)[0]


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (["known", 0.2], "known"),
        (["unknown", 125.0], "unknown, last known 2 min ago"),
        (["unknown", None], "unknown, never known"),
        (None, "known"),
    ],
)
def test_the_age_of_the_last_good_reading_is_shown_beside_a_bad_one(told: object, shown: str) -> None:
    table = pool_table([POOL], {"train": told}, wide=True)

    assert [str(cell) for cell in table.columns[4].cells] == [shown]
