"""`ebbtide advise`: figures, complete files, and one clear line for each fault."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.advise import command
from tests.paths import STACK_FILES
from tests.unit.lab.sweep.stacks import HEADER, a_stack_file

DEMO = str(STACK_FILES / "Pulumi.demo.yaml")


@pytest.fixture
def usage(tmp_path: Path) -> str:
    path = tmp_path / "usage.csv"
    rows = [f"2026-06-01T{hour:02d}:00Z,fixed,2" for hour in range(24)]
    path.write_text("\n".join(["hour,group,nodes", *rows]) + "\n", encoding="utf-8")
    return str(path)


def advise(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def test_recorded_usage_gets_a_commitment_and_a_document(tmp_path: Path, usage: str) -> None:
    figures = tmp_path / "new" / "figures.json"

    result = advise("savings", DEMO, "--usage", usage, "--json", str(figures))

    assert result.exit_code == 0, result.output
    assert "Commit $" in result.stdout
    assert "(approximate)" in result.stdout
    document = json.loads(figures.read_text(encoding="utf-8"))
    assert (document["stack"], document["hours"], document["beyond_floor"]) == ("demo", 24, False)
    assert [path.name for path in figures.parent.iterdir()] == ["figures.json"]


def test_a_replay_gives_usage_too(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"

    result = advise("savings", DEMO, "--trace", "openb2023-a", "--days", "1", "--max-job", "8h", "--json", str(figures))

    assert result.exit_code == 0, result.output
    document = json.loads(figures.read_text(encoding="utf-8"))
    assert document["source"] == "a replay of openb2023-a"
    assert document["hours"] in (23, 24)  # clock hours


def test_beyond_the_floor_reaches_the_advice(tmp_path: Path, usage: str) -> None:
    figures = tmp_path / "figures.json"

    advise("savings", DEMO, "--usage", usage, "--beyond-floor", "--json", str(figures))

    assert json.loads(figures.read_text(encoding="utf-8"))["beyond_floor"] is True


@pytest.mark.parametrize("sources", [[], ["--trace", "openb2023-a", "--usage", "usage.csv"]])
def test_usage_has_one_source(sources: list[str]) -> None:
    result = advise("savings", DEMO, *sources)

    assert result.exit_code == 2
    assert "wanted one of --trace, --usage and --month" in " ".join(result.stderr.split())


def test_an_existing_cluster_is_refused_by_name(tmp_path: Path, usage: str) -> None:
    stack = tmp_path / "Pulumi.onprem.yaml"
    stack.write_text(
        """\
config:
  ebbtide:customer: onprem
  ebbtide:businessHours: { timezone: Europe/Berlin, week: { mon-fri: "08:00-18:00" } }
  ebbtide:cluster: { kind: existing, context: onprem }
  ebbtide:workers:
    train: { source: { queues: [train] }, image: "r.example/train:1", max: 4, cpu: 4, memory: 16Gi, longestJob: 12h }
""",
        encoding="utf-8",
    )

    result = advise("savings", str(stack), "--usage", usage)

    assert (result.exit_code, result.stdout) == (1, "")
    assert "wanted a stack on EKS, found an existing cluster: Savings Plans are for instances of AWS" in result.stderr


def test_demand_above_the_stack_is_one_line_and_no_plan_is_compared(tmp_path: Path) -> None:
    stack = Path(a_stack_file(tmp_path, "acme"))
    stack.write_text(stack.read_text().replace("max: 3", "max: 1"))
    trace = tmp_path / "much.csv"
    trace.write_text(HEADER + "".join(f"{1800 * number},3600,q,2,4,0\n" for number in range(47)))

    result = advise("savings", str(stack), "--trace", str(trace), "--json", str(tmp_path / "advice.json"))

    document = json.loads((tmp_path / "advice.json").read_text())
    line = "Demand exceeds the stack: pool train needs at least 2 workers, its max is 1. No plan is compared."
    assert line in " ".join(result.stdout.split())
    assert (document["offers"], document["chosen"]) == ([], None)
    assert "saves" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["savings", DEMO, "--usage", "nowhere.csv"], "nowhere.csv: no such file"),
        (["savings", DEMO, "--trace", "nowhere.csv"], "nowhere.csv: no such file"),
        (["savings", "nobody", "--usage", "nowhere.csv"], "nobody"),
        (["savings", DEMO, "--trace", "openb2023-a", "--days", "99"], "wanted 1 to 16 days, found 99"),
    ],
)
def test_what_cannot_be_advised_is_one_line_and_code_1(arguments: list[str], said: str) -> None:
    result = advise(*arguments)

    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_help_shows_an_example() -> None:
    assert "ebbtide advise savings demo --trace openb2023-a" in advise("savings", "--help").stdout
