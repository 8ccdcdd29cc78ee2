"""`ebbtide simulate` with several stacks, shifted starts, and the description of a trace."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.simulate import command
from ebbtide.settings import load_stack
from tests.paths import STACK_FILES

DEMO = str(STACK_FILES / "Pulumi.demo.yaml")
PRODUCT = ["--strategy", "fixed-flexible"]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "small.csv"
    rows = [f"{at},600,q,4,8,0" for at in range(0, 7200, 601)]
    path.write_text("\n".join(["submitted_at,duration_s,queue,cpu,memory_gib,gpu", *rows]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def smaller(tmp_path: Path) -> str:
    """The demo's stack with shorter hours, and half the size of its flexible nodes and workers."""
    text = Path(DEMO).read_text(encoding="utf-8")
    for old, new in (
        ("[m7i.4xlarge, m6i.4xlarge]", "[m7i.2xlarge, m6i.2xlarge]"),
        ("cpu: 15\n", "cpu: 7\n"),
        ("memory: 55Gi", "memory: 28Gi"),
        ("08:00-19:00", "10:00-16:00"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "Pulumi.smaller.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def document_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def test_two_stacks_are_replayed_from_one_start_and_their_difference_is_told(
    tmp_path: Path, trace: str, smaller: str
) -> None:
    figures = tmp_path / "both.json"

    result = run(DEMO, smaller, "--trace", trace, *PRODUCT, "--json", str(figures))

    assert result.exit_code == 0, result.output
    assert "smaller changes" in result.stdout
    document = document_of(figures)
    demo, other = document["stacks"]
    (change,) = document["differences"]
    assert demo["start"] == other["start"] == document["start"]
    assert (change["stack"], change["against"]) == ("smaller", "demo")
    before, after = (stack["strategies"]["fixed-flexible"] for stack in (demo, other))
    assert change["strategies"]["fixed-flexible"]["usd"] == pytest.approx(after["usd"] - before["usd"])
    assert after["usd"] != before["usd"]


def test_one_stack_twice_differs_in_nothing(tmp_path: Path, trace: str) -> None:
    figures = tmp_path / "both.json"

    run(DEMO, DEMO, "--trace", trace, *PRODUCT, "--json", str(figures))

    change = document_of(figures)["differences"][0]["strategies"]["fixed-flexible"]
    assert set(change.values()) == {0}


def test_both_comparisons_can_be_written_as_one_page(tmp_path: Path, trace: str, smaller: str) -> None:
    page = tmp_path / "page.html"

    for compared, said in (([DEMO, smaller], "smaller costs"), ([DEMO, "--shift", "6h"], "at 2 starts")):
        result = run(*compared, "--trace", trace, *PRODUCT, "--report", str(page))
        assert result.exit_code == 0, result.output
        assert said in page.read_text(encoding="utf-8").partition("</h1>")[0]


def test_shifts_move_the_start_and_stand_beside_the_replay(tmp_path: Path, trace: str) -> None:
    figures = tmp_path / "shifts.json"
    shifts = ["--shift", "6h", "--shift", "-6h"]

    result = run(DEMO, "--trace", trace, *PRODUCT, "--start", "2026-03-03T12:00", *shifts, "--json", str(figures))

    document = document_of(figures)
    assert [document["start"], *(shift["replay"]["start"] for shift in document["shifts"])] == [
        "2026-03-03T12:00:00-05:00",
        "2026-03-03T18:00:00-05:00",
        "2026-03-03T06:00:00-05:00",
    ]
    assert [shift["hours"] for shift in document["shifts"]] == [6, -6]
    assert "Tue 18:00 (+6 h)" in result.stdout


def test_a_trace_is_described_and_a_stack_made_for_it_passes_the_check(tmp_path: Path, trace: str) -> None:
    figures, stack = tmp_path / "load.json", tmp_path / "Pulumi.my-load.yaml"

    result = run("--describe", trace, "--suggest", str(stack), "--json", str(figures))

    assert result.exit_code == 0, result.output
    assert "max. saving" in result.stdout
    assert load_stack(str(stack)).customer == "my-load"
    document = document_of(figures)
    assert (document["jobs"], document["suggested_stack"]) == (12, stack.read_text(encoding="utf-8"))


def test_a_stack_is_adapted_to_a_trace_and_keeps_its_services(tmp_path: Path, trace: str) -> None:
    stack = tmp_path / "Pulumi.adapted.yaml"

    result = run(DEMO, "--describe", trace, "--suggest", str(stack))

    assert result.exit_code == 0, result.output
    before, after = load_stack(DEMO), load_stack(str(stack))
    assert (after.workloads, after.business_hours, after.customer) == (
        before.workloads,
        before.business_hours,
        before.customer,
    )
    assert [name.partition("-")[0] for name in after.workers] == ["jobs"]


def test_a_stack_that_cannot_be_adapted_is_left_alone_and_says_which_lines(tmp_path: Path, trace: str) -> None:
    stack = tmp_path / "Pulumi.adapted.yaml"

    result = run(str(Path(DEMO).with_name("Pulumi.example-berlin.yaml")), "--describe", trace, "--suggest", str(stack))

    assert (result.exit_code, stack.exists()) == (1, False)
    assert "change these first" in result.stderr
    assert "overnight[0].pool: wanted one of the worker pools, found 'finetune'" in result.stderr


def test_a_trace_that_no_node_runs_is_described_all_the_same_and_gets_no_stack(tmp_path: Path) -> None:
    path, stack = tmp_path / "giant.csv", tmp_path / "Pulumi.giant.yaml"
    path.write_text("submitted_at,duration_s,queue,cpu,memory_gib,gpu\n0,60,q,4000,8,0\n", encoding="utf-8")

    described, asked = run("--describe", str(path)), run("--describe", str(path), "--suggest", str(stack))

    assert (described.exit_code, asked.exit_code) == (0, 1)
    assert "none of its 1 jobs fits a node of the price tables" in described.stdout
    assert "none of its 1 jobs fits a node of the price tables" in asked.stderr
    assert not stack.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "wanted a stack and --trace, or --describe"),
        ([DEMO], "wanted a stack and --trace, or --describe"),
        (["--trace", "openb2023-a"], "wanted a stack and --trace, or --describe"),
        ([DEMO, DEMO, "--describe", "openb2023-a"], "--describe is about a trace: no --trace"),
        (["--describe", "openb2023-a", "--trace", "openb2023-a"], "--describe is about a trace: no --trace"),
        ([DEMO, DEMO, "--trace", "openb2023-a", "--shift", "6h"], "--shift is for one stack"),
        ([DEMO, "--trace", "openb2023-a", "--suggest", "x.yaml"], "--suggest requires --describe"),
        (
            [DEMO, "--trace", "openb2023-a", "--failed-boots", "1"],
            "--failed-boots: wanted a finite number, 0 or more, bel",
        ),
        ([DEMO, "--trace", "openb2023-a", "--shift", "6"], "wanted a duration, found '6' (for example 6h or -6h)"),
    ],
)
def test_what_does_not_go_together_is_wrong_use_and_says_what_does(arguments: list[str], said: str) -> None:
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())


def test_failures_reach_the_replay_and_are_named(tmp_path: Path, trace: str) -> None:
    calm, rough = tmp_path / "calm.json", tmp_path / "rough.json"
    failures = ["--slow-boots", "0.1", "--failed-boots", "0.1", "--image-pull", "10m", "--spot-interruptions", "1"]

    run(DEMO, "--trace", trace, *PRODUCT, "--json", str(calm))
    run(DEMO, "--trace", trace, *PRODUCT, *failures, "--json", str(rough))

    waits = [document_of(path)["strategies"]["fixed-flexible"]["wait_p95_s"] for path in (calm, rough)]
    assert waits[1] > waits[0] + 500  # most of the ten minutes
    assert set(document_of(rough)["assumptions"]) - set(document_of(calm)["assumptions"])


def test_the_second_of_two_stacks_may_be_the_wrong_one(trace: str) -> None:
    result = run(DEMO, "nobody", "--trace", trace)

    assert result.exit_code == 1
    assert "nobody" in result.stderr
