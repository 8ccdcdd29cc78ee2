"""`ebbtide preview`: its formats, its exit codes, and its messages about wrong use."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.preview import command
from ebbtide.lab.advice.change import ChangeReplay
from ebbtide.preview.document import PreviewDocument, Simulated, StackVerdict
from ebbtide.preview.page import PageRequest
from tests.builders.preview import cost, customer, danger, document
from tests.paths import STACK_FILES

Answer = Callable[..., Result]
DEMO = str(STACK_FILES / "Pulumi.demo.yaml")


@pytest.fixture
def preview(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Run the command with a given page."""

    def run(*arguments: str, page: PreviewDocument | None = None) -> Result:
        def made(stacks: tuple[str, ...], root: Path, asked: PageRequest) -> PreviewDocument:
            return page or document(*[customer(stack) for stack in stacks])

        monkeypatch.setattr("ebbtide.cli.preview.preview", made)
        return CliRunner().invoke(command, arguments, catch_exceptions=False)

    return run


def test_text_in_short_shows_what_decides_and_where_the_rest_is(preview: Answer) -> None:
    result = preview("demo")
    lines = result.stdout.splitlines()

    assert "demo: needs attention" in lines[0]
    assert any("replaces node group" in line for line in lines)
    assert "US dollars a month: " in result.stdout
    assert "Fridays: the window opens at 17:00 instead of 19:00" in lines
    assert "ownership" not in result.stdout
    assert lines[-1] == "everything: --full"
    assert len(lines) < 30


def test_text_in_short_names_lines_whose_price_is_an_estimate(preview: Answer) -> None:
    line = replace(cost().lines[0], estimated=True)

    estimated = preview("demo", page=document(customer(cost=replace(cost(), lines=(line,)))))

    assert "by estimated prices of flexible (--full shows their source)" in estimated.stdout
    assert "by estimated prices" not in preview("demo").stdout


def test_text_in_short_has_the_note_of_a_replay(preview: Answer) -> None:
    simulated = Simulated(trace="t", node_hours=(1, 1), usd=(1, 1), p95_wait=(1, 1), note="Demand exceeds the stack.")

    assert "Demand exceeds the stack." in preview("demo", page=document(customer(simulated=simulated))).stdout


def test_a_stack_without_a_change_is_one_line(preview: Answer) -> None:
    safe = customer("same", verdict=StackVerdict.SAFE, changes=(), counts={}, dangers=())
    result = preview("same", "demo", page=document(safe, customer()))

    assert "same: safe, no change" in result.stdout.splitlines()
    assert result.stdout.index("same: safe") < result.stdout.index("demo: needs attention")


def test_text_in_full_shows_the_parts_in_their_order(preview: Answer) -> None:
    result = preview("demo", "--full")
    parts = [
        "needs attention",
        "replaces node group",
        "US dollars",
        "coming nights",
        "ownership",
        "policies",
        "services simulated over 7 of 14 days of requests",
        "hpa-only → calendar-floor",
        "changes",
    ]
    places = [result.stdout.index(part) for part in parts]

    assert (result.exit_code, places) == (0, sorted(places))
    assert "\x1b[" not in result.stdout  # no colour in a file


def test_text_cuts_nothing_in_a_narrow_terminal(preview: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    result = preview("demo", page=document(customer(dangers=(danger("word " * 40 + "last"),))))
    plain = "".join(part.split("m", 1)[-1] for part in result.stdout.split("\x1b["))

    assert "\x1b[" in result.stdout
    assert max(len(line.rstrip()) for line in plain.splitlines()) <= 60
    assert "last" in plain
    assert "…" not in plain


def test_several_customers_are_named_in_one_table(preview: Answer) -> None:
    result = preview("acme", "beta", "--full")

    assert result.stdout.startswith("2 customers: 2 need attention")
    assert "USD a month, always" in result.stdout


def test_markdown_and_json_are_the_same_page(preview: Answer) -> None:
    comment = preview("demo", "--format", "markdown")
    page = json.loads(preview("demo", "--format", "json").stdout)

    assert comment.stdout.startswith("### ")
    assert page["customers"][0]["dangers"][0]["what"] in comment.stdout


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (document(customer(verdict=StackVerdict.SAFE)), 0),
        (document(customer(verdict=StackVerdict.ATTENTION)), 0),
        (document(customer(verdict=StackVerdict.SAFE), customer("b", verdict=StackVerdict.BLOCKED)), 1),
        (document(customer(verdict=StackVerdict.ATTENTION, incomplete=True)), 1),
        (PreviewDocument(against="", customers=(customer(),), problems=("a plan of stack x",)), 1),
        (PreviewDocument(against="", customers=(customer(),), notes=("the code differs too",)), 0),
    ],
)
def test_the_exit_code_is_no_when_blocked_or_half_blind(preview: Answer, page: PreviewDocument, code: int) -> None:
    for format_ in ("text", "markdown", "json"):
        assert preview("demo", "--format", format_, page=page).exit_code == code


@pytest.mark.parametrize("arguments", [(), ("demo", "--all"), ("demo", "--format", "html")])
def test_wrong_use_is_one_clear_line(preview: Answer, arguments: tuple[str, ...]) -> None:
    result = preview(*arguments)

    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_days_of_no_trace_are_wrong_use(preview: Answer) -> None:
    result = preview("demo", "--days", "3")

    assert result.exit_code == 2
    assert "--trace" in result.output


def test_all_without_stacks_is_wrong_use(preview: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert preview("--all").exit_code == 2


def test_a_trace_of_requests_is_read_as_jobs_for_pools_and_as_requests_for_services(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[PageRequest] = []

    def made(_stacks: tuple[str, ...], _root: Path, request: PageRequest) -> PreviewDocument:
        asked.append(request)
        return document(customer())

    monkeypatch.setattr("ebbtide.cli.preview.preview", made)
    for trace in ("requests-azure2023-code", "openb2023-a"):
        CliRunner().invoke(command, [DEMO, "--trace", trace], catch_exceptions=False)

    replays = [request.replay for request in asked if isinstance(request.replay, ChangeReplay)]
    assert [len(replay.traces) for replay in replays] == [1, 1]
    assert [replay.requests is not None for replay in replays] == [True, False]


@pytest.mark.parametrize("option", ["--plan", "--trace"])
def test_a_file_that_cannot_be_used_is_one_line_beside_the_page(preview: Answer, option: str) -> None:
    result: Any = preview(DEMO, option, "nowhere.json", "--format", "json")
    page = json.loads(result.stdout)

    assert result.exit_code == 1
    assert len(page["problems"]) == 1
    assert "nowhere.json" in page["problems"][0]
    assert page["customers"][0]["cost"] is not None
