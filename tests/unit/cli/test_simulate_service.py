"""Services on the command line: strategies, advice about floors, descriptions of a load, and bad input."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.advise import command as advise
from ebbtide.cli.simulate import command as simulate
from tests.builders.workloads.played import clear_week
from tests.builders.workloads.services import with_services

pytestmark = pytest.mark.whole

SLOW = (
    ("requestTakes: 150ms", "requestTakes: 2s"),
    ("p95: 400ms", "p95: 6s"),
    ("{ inFlight: 3, latency: 300ms }", "{ inFlight: 3 }"),
)
TOO_SHORT = (
    "trace monday: wanted at least 12 days (to learn a shape, to tune, and a week to judge), found 1 "
    "(for example requests-servegen-m-small)"
)
ALONE = ["--service", "embedder-small"]


@pytest.fixture
def stack(tmp_path: Path) -> str:
    path = tmp_path / "Pulumi.acme.yaml"
    path.write_text(with_services(*SLOW), encoding="utf-8")
    return str(path)


def trace_of(tmp_path: Path, name: str, rates: list[float], window: int = 600) -> str:
    path = tmp_path / f"{name}.csv"
    rows = [f"{place * window},{window},chat,{rate * window:.0f}" for place, rate in enumerate(rates)]
    path.write_text("\n".join(["t_s,window_s,queue,requests", *rows]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def day(tmp_path: Path) -> str:
    return trace_of(tmp_path, "monday", [0.4 + 0.3 * (60 <= place < 100) for place in range(144)])


@pytest.fixture
def weeks(tmp_path: Path) -> str:
    return trace_of(tmp_path, "weeks", [rate or 0 for rate in clear_week(days=12, noise=0).rates[::2]], window=120)


def run(command: object, *arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)  # pyright: ignore[reportArgumentType]


def test_a_trace_of_less_than_a_day_has_one_day(tmp_path: Path, stack: str) -> None:
    hour = trace_of(tmp_path, "hour", [0.4] * 6)

    assert run(simulate, stack, *ALONE, "--trace", hour, "--days", "1").exit_code == 0
    assert "wanted 1 to 1 days, found 2" in run(simulate, stack, *ALONE, "--trace", hour, "--days", "2").stderr


def test_the_ways_to_have_pods_stand_side_by_side(tmp_path: Path, stack: str, weeks: str) -> None:
    figures = tmp_path / "figures.json"
    asked = ["--days", "1", "--requests-per-second", "0.9", "--json", str(figures)]
    asked += ["--report", str(tmp_path / "page.html"), "--day", "1"]
    result = run(simulate, stack, *ALONE, "--trace", weeks, *asked)

    assert result.exit_code == 0, result.output
    document = json.loads(figures.read_text(encoding="utf-8"))
    found = document["strategies"]
    assert list(found) == [
        "hpa-only",
        "calendar-floor",
        "forecast-floor",
        "constant-headroom",
        "fixed-replicas",
        "keda-defaults",
    ]
    assert all(name in result.stdout for name in found)
    for its in found.values():
        assert its["sent"] == its["answered"] + its["lost"] + its["turned_away"] > 70_000
        assert 2 <= its["least_pods"] <= its["most_pods"] <= 12
        assert its["usd"] > 0
    assert document["left_out"] == {}
    assert found["fixed-replicas"]["pod_hours"] > found["hpa-only"]["pod_hours"]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f"{name}: p95 latency" in page for name in ("hpa-only", "calendar-floor", "forecast-floor"))
    assert "predictable" in page
    assert "--requests-per-second</span> 0.9" in page


def test_with_one_day_there_is_no_forecast_and_the_others_are_played(stack: str, day: str) -> None:
    result = run(simulate, stack, *ALONE, "--trace", day, "--requests-per-second", "0.3")

    assert result.exit_code == 0, result.output
    assert "forecast-floor is left out: trace monday: wanted at least 12 days" in result.stdout.replace("\n", " ")
    assert "hpa-only" in result.stdout


def test_the_advice_names_a_line_for_the_stack_file(tmp_path: Path, stack: str, weeks: str) -> None:
    figures = tmp_path / "figures.json"
    result = run(advise, "floors", stack, *ALONE, "--trace", weeks, "--json", str(figures))

    assert result.exit_code == 0, result.output
    document = json.loads(figures.read_text(encoding="utf-8"))
    assert (document["choice"], document["line"]) == ("forecast", "floor: forecast, margin: 1.4")
    assert "Offered: the forecast's floor keeps " in result.stdout
    assert "  floor: forecast, margin: 1.4\n" in result.stdout
    assert set(document["tuned"]) == {"forecast-floor", "calendar-floor", "constant-headroom", "hpa-only"}


def test_a_load_of_requests_is_described_with_what_one_pod_bears(tmp_path: Path, stack: str) -> None:
    figures = tmp_path / "figures.json"
    days = trace_of(tmp_path, "days", [0.4 + 0.3 * (60 <= place % 144 < 100) for place in range(3 * 144)])
    result = run(simulate, stack, *ALONE, "--describe", days, "--json", str(figures))

    assert result.exit_code == 0, result.output
    found = json.loads(figures.read_text(encoding="utf-8"))["requests"]
    (load,) = found["loads"]
    assert load["verdict"] == "predictable"
    assert load["like_the_day_before"] > 0.99
    assert 0.5 < found["borne"]["busy"] < 1
    assert found["borne"]["p95_s"] <= 6
    by_pods = {pods: [it["p95_s"] for it in found["latencies"] if it["pods"] == pods] for pods in (1, 4, 12)}
    assert all(of == sorted(of) for of in by_pods.values()), "busier is slower"
    assert all(one > several for one, several in zip(by_pods[1], by_pods[12], strict=True)), "pods share a load"
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[lines.index(["busy", "1", "pod", "4", "pods", "12", "pods"]) + 1][0] == "50%"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--trace", "DAY", "--service", "chat"], "wanted the name of a service"),
        (["--trace", "DAY", "--service", "ranker"], "services.ranker: wanted requestTakes"),
        (["--trace", "openb2023-a", *ALONE], "(requests per window)"),
        (["--trace", "DAY", *ALONE, "--queue", "mail"], "wanted one of its queues, found 'mail'"),
        (["--trace", "DAY", *ALONE, "--days", "3"], "trace monday: wanted 1 to 1 days, found 3"),
        (["--describe", "openb2023-a", *ALONE], "wanted requests per window with --service"),
        (
            ["--trace", "DAY", *ALONE, "--requests-per-second", "0.1", "--report", "page.html", "--day", "9"],
            "--day: wanted 1 to 2, the days that are replayed, found 9 (for example 1)",
        ),
    ],
)
def test_what_cannot_be_played_is_one_line(stack: str, day: str, arguments: list[str], wanted: str) -> None:
    result = run(simulate, stack, *(day if it == "DAY" else it for it in arguments))

    assert result.exit_code == 1
    assert wanted in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([*ALONE], "wanted one stack and --trace with --service"),
        ([*ALONE, "--trace", "x", "--shift", "6h", "--no-rollouts"], "--shift, --no-rollouts: for a replay of jobs"),
        (["--trace", "x", "--queue", "mail"], "are for --service"),
        (["--trace", "x", "--day", "2"], "are for --service"),
        ([*ALONE, "--trace", "x", "--day", "2"], "--day is the day that --report draws"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_use(stack: str, arguments: list[str], wanted: str) -> None:
    result = run(simulate, stack, *arguments)

    assert result.exit_code == 2
    assert wanted in " ".join(result.stderr.replace("│", " ").split())


def test_a_forecast_without_history_is_one_line(stack: str, day: str) -> None:
    result = run(advise, "floors", stack, *ALONE, "--trace", day)

    assert result.exit_code == 1
    assert result.stderr.splitlines() == [TOO_SHORT]
