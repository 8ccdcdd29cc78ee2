"""Advice about services on the command line: text, JSON, patch, and one clear line for each fault."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.advise import command
from tests.builders.monitoring.recorded_requests import ANSWERS, MEDIAN, RecordedRequests
from tests.builders.settings import shortest
from tests.builders.workloads.tuned import SMALL, a_stack, an_afternoon

OWN = (SMALL, "cpu: 3, memory: 12Gi, scale: { metrics: { inFlight: 3 }, min: 6, max: 12 } } # since the launch\n")


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stack by its path from the working folder, with a comment on the line that changes."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "stacks" / "Pulumi.acme.yaml"
    path.parent.mkdir()
    path.write_text(a_stack(OWN).text, encoding="utf-8")
    return "stacks/Pulumi.acme.yaml"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "requests.csv"
    rows = [f"{place * 600},600,chat,{count:.0f}" for place, count in enumerate(an_afternoon(hours=2).totals) if count]
    path.write_text("\n".join(["t_s,window_s,queue,requests", *rows]) + "\n", encoding="utf-8")
    return str(path)


def advise(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def refusal(result: Result, code: int = 1) -> str:
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    return result.stderr


@pytest.mark.process
def test_a_patch_for_a_pull_request_is_taken_by_git_and_leaves_nothing_to_do(
    tmp_path: Path, stack: str, trace: str
) -> None:
    before = Path(stack).read_text(encoding="utf-8")

    first = advise("targets", stack, "embedder-small", "--trace", trace, "--patch", "change.patch")

    assert first.exit_code == 0, first.output
    assert "a month before" in first.stdout
    assert Path(stack).read_text(encoding="utf-8") == before
    subprocess.run(["git", "apply", "change.patch"], cwd=tmp_path, check=True)
    assert Path(stack).read_text(encoding="utf-8") == before.replace(
        "min: 6, max: 12 } } # since the launch", "min: 2, max: 12 } } # since the launch"
    )
    again = advise("targets", stack, "embedder-small", "--trace", trace, "--patch", "again.patch")
    assert "Nothing to do" in again.stdout
    assert Path("again.patch").read_text(encoding="utf-8") == ""


def test_what_json_holds_can_be_applied_and_a_patch_may_be_all_that_is_shown(stack: str, trace: str) -> None:
    shown = advise("targets", stack, "embedder-small", "--trace", trace, "--json", "advice.json", "--patch", "-")
    assert shown.stdout.startswith("--- a/stacks/Pulumi.acme.yaml\n+++ b/stacks/Pulumi.acme.yaml\n")
    document = json.loads(Path("advice.json").read_text(encoding="utf-8"))
    assert [(change["at"][-1], change["before"], change["after"]) for change in document["changes"]] == [("min", 6, 2)]

    applied = advise("apply", stack, "advice.json")

    assert applied.exit_code == 0, applied.output
    assert "min: 2, max: 12 } } # since the launch" in Path(stack).read_text(encoding="utf-8")


def test_variants_stand_side_by_side(stack: str, trace: str) -> None:
    asked = ["--trace", trace, "--service-time", "large=200ms", "--share", "large=20%", "--json", "variants.json"]

    result = advise("variants", stack, "embedder", *asked)

    assert result.exit_code == 0, result.output
    assert "Cheapest within the SLO: small" in result.stdout
    document = json.loads(Path("variants.json").read_text(encoding="utf-8"))
    assert (document["shares"], document["variants"]["large"]["request_s"]) == ({"small": 0.8, "large": 0.2}, 0.2)


@pytest.mark.parametrize("advice", ["targets", "variants"])
def test_a_name_that_is_not_there_is_one_line_with_those_that_are(stack: str, trace: str, advice: str) -> None:
    line = refusal(advise(advice, stack, "nobody", "--trace", trace))

    assert "found 'nobody' (they are embedder" in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("advice", ["targets", "variants"])
def test_a_stack_without_services_says_so(tmp_path: Path, trace: str, advice: str) -> None:
    path = tmp_path / "Pulumi.plain.yaml"
    groups = "ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 } }\n"
    path.write_text(shortest(more=groups), encoding="utf-8")

    assert "found 'embedder' (it has no services)" in refusal(advise(advice, str(path), "embedder", "--trace", trace))


@pytest.mark.parametrize(("advice", "name"), [("targets", "embedder-small"), ("variants", "embedder")])
def test_without_a_trace_and_a_prometheus_one_line_says_what_is_wanted(tmp_path: Path, advice: str, name: str) -> None:
    path = tmp_path / "Pulumi.acme.yaml"
    by_cpu = a_stack(scale="scale: { metrics: { cpu: 70% }, min: 2, max: 12 }")
    text = by_cpu.text.replace("ebbtide:monitoring: { prometheus: bundled }\n", "ebbtide:monitoring: {}\n")
    path.write_text(text, encoding="utf-8")

    line = refusal(advise(advice, str(path), name))

    assert "found neither --trace nor a Prometheus (for example --trace requests.csv" in line
    assert line.count("\n") == 1


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of five requests of the last two hours went to small; large answers in a quarter of a second."""
    rates = {"small": dict.fromkeys(range(12), 0.8), "large": dict.fromkeys(range(12), 0.2)}
    medians = {"small": dict.fromkeys(range(12), 2.0), "large": dict.fromkeys(range(12), 0.25)}
    series = {
        (name, variant): each[variant] for name, each in ((ANSWERS, rates), (MEDIAN, medians)) for variant in each
    }
    link = RecordedRequests(series, datetime.now(UTC))

    def named_link(*_: object) -> RecordedRequests:
        return link

    monkeypatch.setattr("ebbtide.operate.prometheus.named_link", named_link)


@pytest.mark.usefixtures("recorded")
def test_shares_and_times_are_as_prometheus_recorded_them_unless_they_are_said(stack: str) -> None:
    asked = ["variants", stack, "embedder", "--prometheus", "http://recorded", "--json", "variants.json"]

    def figures(*more: str) -> dict[str, Any]:
        assert advise(*asked, *more).exit_code == 0
        return json.loads(Path("variants.json").read_text(encoding="utf-8"))

    found, said = figures(), figures("--service-time", "large=100ms", "--share", "large=50%")

    assert found["requests_per_second"] == pytest.approx(1.0)
    assert found["shares"] == pytest.approx({"small": 0.8, "large": 0.2})
    assert [found["variants"][name]["request_s"] for name in ("small", "large")] == [2.0, 0.25]
    assert found["variants"]["large"]["request_s_from"] == "at quiet times, by Prometheus"
    assert said["shares"] == {"small": 0.5, "large": 0.5}
    assert [said["variants"][name]["request_s"] for name in ("small", "large")] == [2.0, 0.1]


@pytest.mark.usefixtures("recorded")
def test_targets_are_advised_by_what_prometheus_recorded_of_that_variant(stack: str) -> None:
    result = advise("targets", stack, "embedder-small", "--prometheus", "http://recorded", "--json", "advice.json")

    assert result.exit_code == 0, result.output
    document = json.loads(Path("advice.json").read_text(encoding="utf-8"))
    assert document["requests_per_second"] == pytest.approx(0.8)
    begun = datetime.now(UTC) - datetime.fromisoformat(document["start"])
    assert timedelta(hours=2) <= begun < timedelta(hours=2, minutes=5)


def test_a_prometheus_that_is_away_is_one_line_that_names_the_other_way(stack: str) -> None:
    line = refusal(advise("targets", stack, "embedder-small", "--prometheus", "http://127.0.0.1:9"))

    assert line.startswith("Prometheus at http://127.0.0.1:9: ")
    assert "or give a history: --trace requests.csv" in line
    assert line.count("\n") == 1


def test_a_public_trace_needs_a_size(stack: str) -> None:
    line = refusal(advise("targets", stack, "embedder-small", "--trace", "requests-servegen-m-small"))

    assert "wanted --requests-per-second with a public trace" in line


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--service-time", "huge=60ms", "with one of small, large, found 'huge=60ms'"),
        ("--service-time", "large=soon", "found 'large=soon'"),
        ("--share", "large", "wanted VARIANT=20%"),
        ("--share", "large=120%", "found 'large=120%'"),
    ],
)
def test_what_is_said_of_a_variant_is_checked(stack: str, trace: str, option: str, value: str, told: str) -> None:
    line = refusal(advise("variants", stack, "embedder", "--trace", trace, option, value), code=2)

    assert told in " ".join(line.split())


def test_shares_are_not_more_than_all(stack: str, trace: str) -> None:
    asked = ["--share", "large=70%", "--share", "small=50%"]

    line = refusal(advise("variants", stack, "embedder", "--trace", trace, *asked), code=2)

    assert "wanted at most 100% in all" in line


def test_a_queue_is_of_a_trace(stack: str) -> None:
    assert "wanted only with --trace" in refusal(advise("targets", stack, "embedder-small", "--queue", "chat"), code=2)


def test_how_far_back_is_checked(stack: str) -> None:
    line = refusal(advise("targets", stack, "embedder-small", "--since", "2m"), code=2)

    assert "wanted 1h to 400d, found '2m'" in line
