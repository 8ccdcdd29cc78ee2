"""`ebbtide simulate`: figures, complete files, and one clear line for each fault."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.simulate import command
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, Strategy
from tests.paths import STACK_FILES

DEMO = str(STACK_FILES / "Pulumi.demo.yaml")


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
    assert list(document["strategies"]) == [
        strategy.value for strategy in Strategy if strategy in (*DEFAULT_STRATEGIES, Strategy.KARPENTER)
    ]
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


def test_queues_of_the_trace_are_renamed_and_the_jobs_of_the_others_left_out(tmp_path: Path, trace: str) -> None:
    figures = tmp_path / "figures.json"
    Path(trace).write_text(Path(trace).read_text("utf-8").replace("601,600,q", "601,600,mails"), encoding="utf-8")

    result = simulate("--trace", trace, "--queues", "q=train", "--json", str(figures), "--strategy", "fixed-fleet")

    document = json.loads(figures.read_text(encoding="utf-8"))
    assert "No pool serves these queues, so their jobs were left out: mails 1." in " ".join(result.stdout.split())
    assert (document["by_queue"], document["queues_not_served"]) == (True, {"mails": 1})
    assert document["jobs_unfit"] == {"no-pool-for-its-queue": 1}
    assert document["strategies"]["fixed-fleet"]["pools"]["train"]["jobs"] == 11


def test_jobs_without_a_queue_and_jobs_too_large_for_their_pool_are_named(trace: str) -> None:
    text = Path(trace).read_text("utf-8").replace("601,600,q", "601,600,").replace("1202,600,q,4", "1202,600,q,99")
    Path(trace).write_text(text, encoding="utf-8")

    result = simulate("--trace", trace, "--queues", "q=train", "--strategy", "fixed-fleet")

    said = " ".join(result.stdout.split())
    assert "No pool serves these queues, so their jobs were left out: (no name) 1." in said
    assert "Jobs that do not fit their pool were left out: 1 too-much-cpu." in said


def test_jobs_go_by_fit_where_no_pool_serves_a_queue_and_the_output_says_so(trace: str) -> None:
    result = simulate("--trace", trace, "--strategy", "fixed-fleet")

    assert "No pool serves a queue of the trace: jobs go to the smallest pool that fits." in " ".join(
        result.stdout.split()
    )


@pytest.mark.parametrize(
    ("queues", "code", "message"),
    [
        ("x=train", 1, "--queues x=train: wanted a queue of the trace, found 'x'; known here: q\n"),
        ("q=trai", 1, "wanted a queue that a pool serves (source.queues), found 'trai'; did you mean train?\n"),
        ("q", 2, "wanted a queue of the trace and one new name for it, found 'q' (for example mails=prep)"),
        ("q=train,q=prep", 2, "found 'q=prep'"),
    ],
)
def test_a_queue_that_does_not_exist_is_one_message(trace: str, queues: str, code: int, message: str) -> None:
    result = simulate("--trace", trace, "--queues", queues)

    assert result.exit_code == code
    assert message in result.stderr


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
