"""Exports on the command line: a trace with dates keeps them, and a stack file's folder is known to what changes it."""

import json
import re
import shlex
from html import unescape
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from ebbtide.cli.advise import command as advise
from ebbtide.cli.preview import command as preview
from ebbtide.cli.simulate import command as simulate
from ebbtide.cli.sweep import command as sweep
from ebbtide.lab.advice.change import ChangeReplay
from ebbtide.lab.report.pages.sentences import command_options
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES
from ebbtide.preview.document import PreviewDocument
from ebbtide.preview.page import PageRequest
from ebbtide.settings import load_stack
from tests.builders.preview import document
from tests.builders.replay import a_replay
from tests.paths import ROOT, STACK_FILES

BERLIN = str(STACK_FILES / "Pulumi.example-berlin.yaml")
DEMO = str(STACK_FILES / "Pulumi.demo.yaml")
LABELLING = ROOT / "examples" / "labelling-platform" / "Pulumi.labelling.yaml"
READ = ["--columns", "submitted_at=born", "--columns", "queue=queue", "--from", "2026-05-05", "--days", "1"]
LINE = "12 jobs, 2026-05-05 to 2026-05-05, times read as ISO 8601 in Europe/Berlin (--timezone sets another zone)"


def run(command: object, *arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)  # type: ignore[arg-type]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "export.csv"
    rows = [f"2026-05-{day:02} {hour:02}:30;600;q;2;4Gi" for day in (6, 5, 4) for hour in range(6, 18)]
    path.write_text("\n".join(["born;duration;queue;cpus;memory", *rows]), encoding="utf-8")
    return str(path)


def test_simulate_replays_the_chosen_days_on_their_dates(tmp_path: Path, trace: str) -> None:
    figures = tmp_path / "figures.json"

    result = run(simulate, BERLIN, "--trace", trace, *READ, "--strategy", "fixed-flexible", "--json", str(figures))

    document = json.loads(figures.read_text(encoding="utf-8"))
    assert (document["start"], document["days"], document["jobs"]) == ("2026-05-05T00:00:00+02:00", 1, 12)
    assert LINE in result.stderr
    assert any(LINE in assumption for assumption in document["assumptions"])
    assert not any("aligned" in assumption for assumption in document["assumptions"])


def test_preview_replays_the_export_in_each_stacks_zone_with_its_queues_renamed(
    trace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[PageRequest] = []

    def page(_stacks: object, _root: Path, request: PageRequest) -> PreviewDocument:
        asked.append(request)
        return document()

    monkeypatch.setattr("ebbtide.cli.preview.preview", page)
    lisbon = BERLIN.replace("berlin", "lisbon")

    result = run(preview, BERLIN, lisbon, "--trace", trace, *READ, "--queues", "q=embed")

    assert result.exit_code == 0, result.output
    replay = asked[0].replay
    assert isinstance(replay, ChangeReplay)
    starts = {zone: str(jobs.start) for zone, jobs in replay.traces.items()}
    assert starts == {"Europe/Berlin": "2026-05-04 22:00:00+00:00", "Europe/Lisbon": "2026-05-04 23:00:00+00:00"}
    assert [jobs.queues for jobs in replay.traces.values()] == [{"embed"}, {"embed"}]
    assert LINE in result.stderr


def test_preview_in_another_zone_moves_the_jobs(tmp_path: Path, trace: str) -> None:
    def node_hours(*options: str) -> float:
        result = run(preview, BERLIN, "--trace", trace, *READ, "--format", "json", *options)
        (stack,) = json.loads(result.stdout)["customers"]
        return stack["simulated"]

    assert node_hours() == node_hours("--timezone", "Europe/Berlin")
    assert node_hours() != node_hours("--timezone", "Asia/Tokyo")


def test_a_start_overrides_the_dates(tmp_path: Path, trace: str) -> None:
    figures = tmp_path / "figures.json"

    run(
        simulate, BERLIN, "--trace", trace, *READ, "--start", "2026-01-05", "--strategy", "peak-fleet",
        "--json", str(figures),
    )  # fmt: skip

    assert json.loads(figures.read_text(encoding="utf-8"))["start"] == "2026-01-05T00:00:00+01:00"


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (simulate, ["--describe", "TRACE", DEMO, "--suggest", "new.yaml"]),
        (advise, ["savings", BERLIN, "--trace", "TRACE"]),
        (sweep, [BERLIN, "--trace", "TRACE", "--results", "results", "--processes", "1"]),
    ],
)
def test_every_command_reads_the_export_in_the_same_way(
    tmp_path: Path, trace: str, monkeypatch: pytest.MonkeyPatch, command: object, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run(command, *[trace if word == "TRACE" else word for word in arguments], *READ)

    assert result.exit_code == 0, result.output
    assert LINE.partition(" in ")[0] in result.stderr


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--columns", "born", "wanted FIELD=NAME, with the fields submitted_at, started_at,"),
        ("--columns", "submitted_at=", "found 'submitted_at='"),
        ("--columns", "birth=born", "found 'birth=born'"),
        ("--columns", "gpu=a,gpu=b", "wanted one column for gpu, which has a, found 'gpu=b'"),
        ("--columns", "cpu=a,gpu=a", "wanted one field for the column a, found 'gpu=a'"),
        ("--timezone", "Berlin", "wanted a time zone, found 'Berlin' (for example Europe/Berlin)"),
        ("--from", "monday", "wanted an ISO date and time, found 'monday'"),
        ("--from", "0001-01-01", "wanted an ISO date and time, found '0001-01-01'"),
    ],
)
def test_an_option_that_cannot_be_read_is_refused(trace: str, option: str, value: str, message: str) -> None:
    result = run(simulate, BERLIN, "--trace", trace, option, value)

    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_a_suggestion_for_a_stack_with_files_reads_them_in_its_folder(tmp_path: Path, trace: str) -> None:
    text = Path(DEMO).read_text(encoding="utf-8")
    assert "\n  ebbtide:workloads:\n" in text
    folder = tmp_path / "stacks"
    folder.mkdir()
    (folder / "a.conf").write_text("level: info\n", encoding="utf-8")
    pod = "    web: { category: fixed, cpu: 100m, memory: 1Gi, image: a:1, volumes: VOLUMES }\n".replace(
        "VOLUMES", "{ conf: { at: /conf, files: { a.conf: { file: a.conf } } } }"
    )
    stack = folder / "Pulumi.acme.yaml"
    stack.write_text(text.replace("\n  ebbtide:workloads:\n", f"\n  ebbtide:workloads:\n{pod}"), encoding="utf-8")
    adapted = folder / "Pulumi.adapted.yaml"

    result = run(simulate, str(stack), "--describe", trace, "--suggest", str(adapted), *READ)

    assert result.exit_code == 0, result.output
    assert load_stack(str(adapted)).all_workloads["web"] == load_stack(str(stack)).all_workloads["web"]


@pytest.mark.parametrize(
    ("arguments", "zone", "hour"),
    [([BERLIN], "Europe/Berlin", "09"), (["--timezone", "Asia/Tokyo"], "Asia/Tokyo", "16"), ([], "UTC", "07")],
)
def test_a_description_has_the_hours_and_weekdays_of_the_stacks_or_the_stated_zone(
    tmp_path: Path, arguments: list[str], zone: str, hour: str
) -> None:
    trace, figures = tmp_path / "jobs.csv", tmp_path / "figures.json"
    trace.write_text("created,duration,queue,cpus\n2026-05-05T07:30Z,60,q,2\n2026-05-06T07:30Z,60,q,2\n", "utf-8")

    shown = run(simulate, *arguments, "--describe", str(trace), "--json", str(figures)).output

    assert f"by hour of the day in {zone}\n" in shown
    assert re.search(rf"^  {hour} +1\.0  #+", shown, re.MULTILINE)
    assert re.findall(r"^  (Mon|Tue|Wed)  1\.0", shown, re.MULTILINE) == ["Tue", "Wed"]
    document = json.loads(figures.read_text(encoding="utf-8"))["arrivals"]
    assert (document["zone"], document["first_day"]) == (zone, "2026-05-05")


def test_the_shipped_example_with_files_can_be_adapted(tmp_path: Path, trace: str) -> None:
    result = run(simulate, str(LABELLING), "--describe", trace, "--suggest", str(tmp_path / "new.yaml"), *READ)

    assert result.exit_code == 0, result.output


NO_PART = {"--report", "--json", "--full", "--describe", "--suggest", "--shift"}  # what is shown, and the other starts
OF_SERVICES = {"--service", "--queue", "--requests-per-second", "--at-once", "--day"}


def test_the_command_of_a_report_has_every_option_that_changes_a_replay() -> None:
    options = {name for option in get_command(simulate).params for name in option.opts if name.startswith("--")}

    shown = command_options(a_replay(samples_per_day=20, strategies=DEFAULT_STRATEGIES)).keys()

    assert options - NO_PART - OF_SERVICES - {"--help"} == shown - {"--prices"}, "--prices is an option of all commands"


def shown_commands(page: Path) -> list[list[str]]:
    text = unescape(re.sub(r"<[^>]*>", "", "\n".join(re.findall("<pre><code>(.*?)</code>", page.read_text("utf-8")))))
    return [shlex.split(line) for line in text.splitlines()]


def test_the_command_of_a_report_repeats_a_replay_of_an_export(tmp_path: Path, trace: str) -> None:
    figures, page = tmp_path / "figures.json", tmp_path / "page.html"
    chosen = ["--where", "cpus=2", "--where", "cpus=3", "--where", "queue=q"]
    rows = Path(trace).read_text(encoding="utf-8").replace(" 06:30;600;q;2;", " 06:30;600;q;3;")
    Path(trace).write_text(rows.replace(" 07:30;600;q;2;", " 07:30;600;q;4;"), encoding="utf-8")
    options = [*READ, *chosen, "--timezone", "Asia/Tokyo", "--strategy", "fixed-flexible", "--seed", "3"]

    run(simulate, BERLIN, "--trace", trace, *options, "--report", str(page), "--json", str(figures))
    first = json.loads(figures.read_text(encoding="utf-8"))
    ((_, _, *words),) = shown_commands(page)
    result = run(simulate, *words[: words.index("--report")], "--json", str(figures))

    assert result.exit_code == 0, result.output
    again = json.loads(figures.read_text(encoding="utf-8"))
    assert {**again, "replay_seconds": 0} == {**first, "replay_seconds": 0}
    assert "Left out: 3 rows without cpus = 2 or 3 and queue = q (--where)." in "\n".join(first["assumptions"])


def test_each_command_of_a_comparison_reads_the_trace_in_the_zone_of_the_first_stack(
    tmp_path: Path, trace: str
) -> None:
    figures, page, lisbon = tmp_path / "figures.json", tmp_path / "page.html", BERLIN.replace("berlin", "lisbon")
    zoned = Path(trace)
    zoned.write_text(zoned.read_text(encoding="utf-8").replace(":30;", ":30Z;"), encoding="utf-8")

    run(
        simulate, BERLIN, lisbon, "--trace", trace, *READ, "--strategy", "fixed-flexible",
        "--report", str(page), "--json", str(figures),
    )  # fmt: skip
    _, compared = json.loads(figures.read_text(encoding="utf-8"))["stacks"]
    _, (_, _, *words) = shown_commands(page)
    run(simulate, *words[: words.index("--report")], "--json", str(figures))

    alone = json.loads(figures.read_text(encoding="utf-8"))
    assert alone["stack"] == compared["stack"]
    assert (alone["start"], alone["jobs"]) == (compared["start"], compared["jobs"])
    assert alone["strategies"] == compared["strategies"]
