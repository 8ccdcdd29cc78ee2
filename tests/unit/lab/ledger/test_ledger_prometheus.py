"""`ebbtide ledger` on made-up months in a real Prometheus."""

import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.lab.ledger.month import LedgerError, last_month
from ebbtide.lab.ledger.reading import read_month, read_nodes
from ebbtide.lab.ledger.running import running_of
from ebbtide.monitoring.client import Prometheus
from ebbtide.monitoring.links import HttpLink
from ebbtide.settings.load import stack_of_text
from tests.builders.monitoring.day import needs_promtool
from tests.builders.monitoring.month import KnownMonth, stack
from tests.builders.monitoring.servers import needs_prometheus, prometheus

pytestmark = [pytest.mark.process, needs_promtool, needs_prometheus]

LAST = last_month(datetime.now(UTC), "Europe/Berlin")
HOLES = [(60, 93.4), (300, 300.5)]
WHOLE, TORN = KnownMonth(month=LAST), KnownMonth(month=LAST, seed=2, holes=HOLES)


def ledger(folder: Path, *words: str, text: str = "") -> Result:
    return called(folder, ["ledger"], *words, text=text)


def called(folder: Path, command: list[str], *words: str, text: str = "") -> Result:
    file = folder / "Pulumi.acme.yaml"
    file.write_text(text or stack())
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [*command, str(file), *words])


@contextmanager
def served(known: KnownMonth, folder: Path, retention: str = "100d") -> Generator[str]:
    known.write(folder)
    with prometheus(folder, {}, retention=retention) as url:
        yield url


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(WHOLE, tmp_path_factory.mktemp("whole")) as url:
        yield url


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(TORN, tmp_path_factory.mktemp("torn")) as url:
        yield url


def connected(url: str, now: datetime | None = None) -> Prometheus:
    link = HttpLink(url, headers={}, timeout=timedelta(seconds=20))
    return Prometheus(link, "acme", lambda: now or datetime.now(UTC))


def document(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.timeout(240)
def test_the_ledger_of_a_known_month_is_within_one_percent_of_the_truth(whole: str, tmp_path: Path) -> None:
    page = tmp_path / "ledger.html"
    found = document(ledger(tmp_path, "--prometheus", whole, "--json", "-", "--report", str(page)))

    assert found["recorded_usd"] == pytest.approx(WHOLE.usd(), rel=0.01)
    for group in ("fixed", "flexible", "spot"):
        dollars = sum(row["usd"] for row in found["paid"] if row["group"] == group)
        assert dollars == pytest.approx(WHOLE.usd_of(group), rel=0.01), group
    assert found["gaps"] == []
    assert sum(row["boots"] for row in found["paid"]) == sum(run.created >= WHOLE.begin for run in WHOLE.runs)
    slept = f"api {10 * (len(WHOLE.naps) // 2)} hours"  # and not in the night of an operator's command
    assert any(slept in text for entry in found["alternatives"] for text in entry["assumptions"])
    assert all(entry["low_usd"] is not None for entry in found["alternatives"]), found["alternatives"]
    workloads = {share["workload"] for share in found["shares"]}
    assert {"train", "hub", "idle"} < workloads
    assert LAST.name in page.read_text()


@pytest.mark.timeout(240)
def test_with_missing_days_the_truth_lies_in_the_range_of_the_ledger(torn: str, tmp_path: Path) -> None:
    found = document(ledger(tmp_path, "--prometheus", torn, "--json", "-"))
    boots = found["boot_usd"]

    assert len(found["gaps"]) == 2
    assert found["low_usd"] - boots <= TORN.usd() <= found["high_usd"] - boots


@pytest.mark.timeout(240)
def test_the_max_of_groups_is_read(tmp_path: Path) -> None:
    """The file says 24; the series says 30 until the hundredth hour, and 20 after that."""
    steps = {"flexible": ((0.0, 30.0), (100.0, 20.0))}
    known = KnownMonth(month=LAST, scale=0.2, holes=[(60, 80)], max_nodes=steps)
    with served(known, tmp_path) as url:
        recording = read_month(connected(url), "acme", LAST)

    (before, after) = recording.most_nodes["flexible"]
    assert (before[1], after[1]) == (30, 20)
    assert after[0] == pytest.approx(known.begin + 100 * 3600, abs=900)


@pytest.mark.timeout(240)
def test_a_month_is_read_until_an_instant(whole: str) -> None:
    until = LAST.begin + timedelta(days=12, hours=7)

    recording = read_nodes(connected(whole), "acme", LAST, until)

    assert until.timestamp() - 120 < max(recording.sightings.looks) <= until.timestamp() + 300
    settings = stack_of_text(stack(), stack="acme", file="Pulumi.acme.yaml")
    month = running_of(recording, settings, LAST, until, "not read")
    assert month.at_end_usd is not None
    assert month.at_end_usd[0] <= WHOLE.usd() <= month.at_end_usd[1]


@pytest.mark.timeout(240)
def test_savings_are_advised_on_the_recorded_hours_of_a_month(torn: str, tmp_path: Path) -> None:
    """Plans never cover spot. Hours in a gap are missing, not idle."""
    words = ("--month", LAST.name, "--prometheus", torn, "--json", "-")
    found = document(called(tmp_path, ["advise", "savings"], *words))

    assert found["hours"] == pytest.approx(LAST.hours - sum(end - begin for begin, end in HOLES), abs=4)  # whole hours
    hours = sum(layer["node_hours"] for layer in found["layers"])
    assert hours == pytest.approx(sum(TORN.recorded_hours(group) for group in ("fixed", "flexible")), rel=0.02)
    assert found["chosen"] is not None


@pytest.mark.timeout(240)
def test_days_that_prometheus_no_longer_keeps_are_a_gap(tmp_path: Path) -> None:
    """Prometheus states its retention, and a query beyond it is not asked."""
    kept = (datetime.now(UTC) - LAST.begin).days - 5
    with served(WHOLE, tmp_path, retention=f"{kept}d") as url:
        found = document(ledger(tmp_path, "--prometheus", url, "--json", "-"))

    assert len(found["gaps"]) == 1
    asked = re.search(rf"keeps {kept} d 0 h, and (\d+) d ", found["gaps"][0]["why"])
    assert asked is not None
    assert int(asked[1]) in (kept + 5, kept + 6)  # of the first day, rounded
    fixed = {share["workload"]: share["usd"] for share in found["shares"] if share["group"] == "fixed"}
    assert fixed["hub"] == pytest.approx(fixed["idle"], rel=0.005)  # also in the hours in which a day begins
    assert datetime.fromisoformat(found["gaps"][0]["begin"]) == LAST.begin


@pytest.mark.timeout(240)
def test_no_month_is_refused_for_what_real_months_have(tmp_path: Path) -> None:
    """Nodes without labels at first; Fargate; a name with another type within the lookback; replicas of Prometheus."""
    known = KnownMonth(month=LAST, scale=0.1, bare=180.0, fargate=True, renamed=True, replicas=2)
    with served(known, tmp_path) as url:
        found = document(ledger(tmp_path, "--prometheus", url, "--json", "-"))

    assert found["recorded_usd"] == pytest.approx(known.usd(), rel=0.001)
    caused = {share["workload"]: share["usd"] for share in found["shares"] if share["group"] == "fixed"}
    assert caused["hub"] == pytest.approx(caused["idle"], rel=0.01)


@pytest.mark.timeout(240)
def test_labels_of_pods_divide_the_recorded_dollars_and_before_them_nothing_is_guessed(tmp_path: Path) -> None:
    known = KnownMonth(month=LAST, scale=0.1, replicas=2, labelled_from=300.0)
    with served(known, tmp_path) as url:
        text = stack(costs="labels: [team, absent]")
        found = document(ledger(tmp_path, "--prometheus", url, "--json", "-", text=text))

    usd = {share["value"]: share["usd"] for share in found["labels"]["team"]}
    caused = {share["workload"]: share["usd"] for share in found["shares"] if not share["idle"]}
    later = 1 - 301 / known.month.hours
    assert usd["team-of-hub"] == pytest.approx(caused["hub"] * later, rel=0.1)
    assert set(usd) == {"team-of-hub", "team-of-train", "requested by no pod", "not recorded"}
    assert sum(usd.values()) == pytest.approx(found["recorded_usd"])
    (absent,) = found["labels"]["absent"]
    assert (absent["value"], absent["usd"]) == ("not recorded", pytest.approx(found["recorded_usd"]))


@pytest.mark.timeout(240)
def test_two_clusters_with_the_label_of_one_customer_are_refused(tmp_path: Path) -> None:
    with served(KnownMonth(month=LAST, clusters=2, scale=0.1), tmp_path) as url:
        result = ledger(tmp_path, "--prometheus", url)

    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "several controllers of acme led at once" in line


def test_a_prometheus_without_the_series_is_one_line(tmp_path: Path) -> None:
    with prometheus(tmp_path, {}) as url:
        result = ledger(tmp_path, "--prometheus", url)

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr


def test_a_prometheus_that_is_away_is_one_line(tmp_path: Path) -> None:
    result = ledger(tmp_path, "--prometheus", "http://127.0.0.1:9")

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr


def test_a_clock_in_the_future_is_one_line(whole: str) -> None:
    """Ours, so that a month seems to have ended, or Prometheus' own."""
    ahead = datetime.now(UTC) + timedelta(days=40)

    with pytest.raises(LedgerError, match="its clock and ours are 40 d") as refused:
        read_month(connected(whole, ahead), "acme", LAST.after)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(("month", "words"), [("2099-01", "has begun"), ("november", "wanted a month")])
def test_a_month_that_has_not_begun_is_refused(month: str, words: str, tmp_path: Path) -> None:
    result = ledger(tmp_path, "--prometheus", "http://127.0.0.1:9", "--month", month)

    assert result.exit_code == 2
    assert words in result.stderr
