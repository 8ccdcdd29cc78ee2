"""`ebbtide simulate`: figures, complete files, and one clear line for each fault."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.simulate import command
from ebbtide.simulator.results import DEFAULT_STRATEGIES
from tests.paths import ROOT

DEMO = str(ROOT / "stacks" / "Pulumi.demo.yaml")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "small.csv"
    rows = [f"{at},600,q,4,8,{at % 2}" for at in range(0, 7200, 601)]
    path.write_text("\n".join(["submitted_at,duration_s,queue,cpu,memory_gib,gpu", *rows]) + "\n", encoding="utf-8")
    return str(path)


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(command, [DEMO, *arguments], catch_exceptions=False)


def test_a_replay_prints_a_table_and_writes_its_files_whole(tmp_path: Path, trace: str) -> None:
    figures, page = tmp_path / "new" / "figures.json", tmp_path / "page.html"

    result = simulate("--trace", trace, "--json", str(figures), "--report", str(page))

    assert result.exit_code == 0, result.output
    assert "fixed-flexible" in result.stdout
    document = json.loads(figures.read_text(encoding="utf-8"))
    assert list(document["strategies"]) == [strategy.value for strategy in DEFAULT_STRATEGIES]
    assert document["strategies"]["fixed-flexible"]["jobs_done"] == 12
    assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert [path.name for path in figures.parent.iterdir()] == ["figures.json"]  # nothing partial is left


def test_what_was_assumed_is_said_in_full_and_else_where_it_is(trace: str) -> None:
    short, full = (simulate("--trace", trace, "--strategy", "fixed-fleet", *more).stdout for more in ((), ("--full",)))

    assert short.rstrip().endswith("Assumptions: --full, or the page of --report.")
    assert "Assumed:" in full
    assert "Assumed:" not in short


def test_options_reach_the_replay(tmp_path: Path, trace: str) -> None:
    figures = tmp_path / "figures.json"
    options = ["--start", "2026-03-03T07:00", "--max-job", "8h", "--seed", "5", "--days", "1"]

    simulate("--trace", trace, "--json", str(figures), "--strategy", "fixed-fleet", *options)

    document = json.loads(figures.read_text(encoding="utf-8"))
    assert (document["start"], document["seed"], document["max_job_s"]) == ("2026-03-03T07:00:00-05:00", 5, 28800)
    assert list(document["strategies"]) == ["fixed-fleet"]


def test_without_rollouts_the_services_are_never_deployed(tmp_path: Path, trace: str) -> None:
    figures = tmp_path / "figures.json"

    simulate("--trace", trace, "--json", str(figures), "--strategy", "fixed-fleet", "--no-rollouts")

    document = json.loads(figures.read_text(encoding="utf-8"))
    assert document["rollouts"] is False
    assert any("--no-rollouts" in said for said in document["assumptions"])


@pytest.mark.process
def test_only_a_report_needs_jinja(trace: str, tmp_path: Path) -> None:
    arguments = [DEMO, "--trace", trace, "--strategy", "fixed-fleet"]
    program = "import sys; sys.modules['jinja2'] = None\nfrom ebbtide.cli.simulate import command\ncommand({})"

    plain = ran(program.format(arguments))
    page = ran(program.format([*arguments, "--report", str(tmp_path / "page.html")]))

    assert plain.returncode == 0, plain.stderr
    assert "fixed-fleet" in plain.stdout
    assert (page.returncode, page.stdout) == (2, "")
    assert page.stderr.strip() == "--report needs jinja2, which is not installed; pip install 'ebbtide[simulate]'"


def ran(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--trace", "nowhere.csv"], "nowhere.csv: no such file (bundled traces: itp2021-a, openb2023-a, "),
        (["--trace", "openb2023-a", "--days", "17"], "trace openb2023-a: wanted 1 to 16 days, found 17"),
    ],
)
def test_what_cannot_be_replayed_is_one_line_and_code_1(arguments: list[str], said: str) -> None:
    result = simulate(*arguments)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.strip().startswith(said)
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["--start", "soon"], ["--max-job", "8"], ["--max-job", "0s"], ["--strategy", "best"], ["--days", "0"]],
)
def test_wrong_use_is_code_2(arguments: list[str]) -> None:
    given = arguments if not arguments else ["--trace", "openb2023-a", *arguments]

    assert simulate(*given).exit_code == 2


def test_an_unknown_stack_is_code_1() -> None:
    result = CliRunner().invoke(command, ["nobody", "--trace", "openb2023-a"])

    assert result.exit_code == 1
    assert "nobody" in result.stderr


def test_a_file_that_cannot_be_written_is_code_1_and_leaves_nothing(tmp_path: Path, trace: str) -> None:
    (tmp_path / "file").touch()

    result = simulate("--trace", trace, "--strategy", "fixed-fleet", "--json", str(tmp_path / "file" / "figures.json"))

    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


def test_help_shows_an_example() -> None:
    assert "ebbtide simulate demo --trace openb2023-a" in simulate("--help").stdout
