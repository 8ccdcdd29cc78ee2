"""`ebbtide report live` on made-up days in a real Prometheus: sums, charts and gaps."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.panel import ChartView
from ebbtide.lab.report.live.charts import LiveChart, Series, hover, live_chart, panel_of, stacked
from ebbtide.lab.report.live.reading import step_of
from ebbtide.lab.report.live.record import Band, gaps_of
from ebbtide.monitoring.recorded import Recorded
from ebbtide.text.counts import DASH
from tests.builders.monitoring.canned_api import canned_api
from tests.builders.monitoring.day import Day, needs_promtool, nodes_at
from tests.builders.monitoring.servers import needs_prometheus, prometheus
from tests.builders.settings import shortest

pytestmark = pytest.mark.process

BERLIN = ZoneInfo("Europe/Berlin")
LEFT_OUT = (Recorded.USED_MEMORY, Recorded.DOLLARS, Recorded.EVICTIONS, "ebbtide_exporter_sees")
FIGURES = ("nodes", "workers", "cpu", "memory", "gpus", "dollars", "waits", "budgets", "evictions", "unremovable")


def live(folder: Path, *words: str, more: str = "") -> tuple[Result, Path]:
    stack, page = folder / "Pulumi.acme.yaml", folder / "live.html"
    stack.write_text(shortest(more=more))
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["report", "live", str(stack), "-o", str(page), *words])
    return result, page


def of_now() -> datetime:
    return datetime.now(BERLIN).replace(second=0, microsecond=0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Day, str]]:
    folder, day = tmp_path_factory.mktemp("whole"), Day(until=of_now())
    day.write(folder)
    with prometheus(folder, {}) as url:
        yield day, url


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With two holes, and without some of the series."""
    folder = tmp_path_factory.mktemp("torn")
    Day(until=of_now(), holes=[(5, 6.5), (14, 14.5)], left_out=LEFT_OUT).write(folder)
    with prometheus(folder, {}) as url:
        yield url


def said(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


@needs_promtool
@needs_prometheus
def test_node_hours_and_dollars_are_those_of_the_day(whole: tuple[Day, str], tmp_path: Path) -> None:
    day, url = whole
    hours = sum(sum(nodes_at(hour).values()) for _, hour in day.instants()) / 60

    result, page = live(tmp_path, "--prometheus", url)

    assert result.exit_code == 0, result.output
    match = re.search(r"acme, 24 h: (\d+) node-hours, \$(\d+) at list price", result.output)
    assert match is not None, result.output
    assert int(match[1]) == pytest.approx(hours, rel=0.01)
    assert int(match[2]) == pytest.approx(hours * 0.8, rel=0.01)
    assert "not recorded" not in result.output
    assert all(f'<figure id="{name}"' in page.read_text() for name in FIGURES)


@needs_promtool
@needs_prometheus
def test_where_no_gpu_was_paid_for_none_was_used(whole: tuple[Day, str], tmp_path: Path) -> None:
    """By night there are no nodes with GPUs, and no series of them."""
    _, page = live(tmp_path, "--prometheus", whole[1])
    table = page.read_text().split('<figure id="gpus"')[1].split("<tbody>")[1].split("</tbody>")[0]

    assert "<td>0</td>" in table
    assert f"<td>{DASH}</td>" not in table


@needs_promtool
@needs_prometheus
def test_the_page_asks_for_nothing_from_elsewhere(whole: tuple[Day, str], tmp_path: Path) -> None:
    _, page = live(tmp_path, "--prometheus", whole[1])
    text = page.read_text()

    assert "default-src 'none'" in text
    links = re.findall(r'(?:src|href|url)\s*[=(]\s*"?([^"\s)>]+)', text)
    assert links
    assert all(link.startswith("#") for link in links)


@needs_promtool
@needs_prometheus
def test_missing_data_is_named_in_its_place(torn: str, tmp_path: Path) -> None:
    result, page = live(tmp_path, "--prometheus", torn)
    text = said(page.read_text())

    assert result.exit_code == 0, result.output
    for name, series in (("dollars", Recorded.DOLLARS), ("evictions", Recorded.EVICTIONS)):
        place = text.split(f'<section id="{name}"')[1].split("</section>")[0]
        assert f"Not recorded: Prometheus at {torn} has nothing for {series}" in place
    memory = text.split('<figure id="memory"')[1].split("</figcaption>")[0]
    assert f"Not recorded: used: Prometheus at {torn} has nothing for {Recorded.USED_MEMORY}" in memory
    assert "at list price" not in result.output
    assert re.search(r"9[12] % of it recorded", text), "two hours of 24 are holes"


@needs_promtool
@needs_prometheus
def test_calm_is_no_gap_and_a_hole_is(torn: str, tmp_path: Path) -> None:
    """By day no budget is open and there is no series; in the holes nothing was recorded."""
    _, page = live(tmp_path, "--prometheus", torn)
    figure = page.read_text().split('<figure id="budgets"')[1].split("</figure>")[0]
    picture = ElementTree.fromstring(figure[figure.index("<svg") : figure.index("</svg>") + 6])

    gaps = [shape for shape in picture.iter() if shape.get("class") == "gap" and shape.get("height") != "12"]
    (plot,) = {float(picture.get("data-right", 0)) - float(picture.get("data-left", 0))}
    assert len(gaps) == 2
    shaded = sum(float(shape.get("width", 0)) for shape in gaps) / plot
    assert shaded == pytest.approx(2 / 24, abs=0.005), "the holes alone"


@needs_promtool
@needs_prometheus
def test_evictions_are_unknown_while_the_exporter_cannot_see_pods(tmp_path: Path) -> None:
    Day(until=of_now(), sees_pods=False, left_out=[Recorded.EVICTIONS]).write(tmp_path)
    with prometheus(tmp_path, {}) as url:
        _, page = live(tmp_path, "--prometheus", url)

    assert f"Not recorded: Prometheus at {url} has nothing for {Recorded.EVICTIONS}" in said(page.read_text())


@needs_promtool
@needs_prometheus
def test_waits_that_a_queue_does_not_show_are_unknown_while_jobs_wait(tmp_path: Path) -> None:
    """Lists and message brokers; at night nothing waits, which is known."""
    Day(until=of_now(), left_out=[Recorded.WAITS]).write(tmp_path)
    with prometheus(tmp_path, {}) as url:
        _, page = live(tmp_path, "--prometheus", url)
    text = said(page.read_text())

    tiles = re.findall(r"longest p95 wait</dt><dd>(.+?)</dd><dd class=.beside.>(.+?)</dd>", text)
    assert tiles == [("?", "of an hour; not all known for train")]
    assert 'class="gap"' not in text.split('<figure id="waits"')[1].split("</figure>")[0], "the controller was read"


@needs_prometheus
def test_a_prometheus_without_any_of_it_is_one_line_each_and_no_page(tmp_path: Path) -> None:
    with prometheus(tmp_path, {}) as url:
        result, page = live(tmp_path, "--prometheus", url)

    assert result.exit_code == 1
    assert f"Prometheus at {url} has nothing for {Recorded.NODES}" in result.output
    assert "Traceback" not in result.output
    assert not page.exists()


@needs_prometheus
def test_a_retention_that_is_too_short_is_one_line(tmp_path: Path) -> None:
    with prometheus(tmp_path, {}) as url:
        result, page = live(tmp_path, "--prometheus", url, "--since", "30d")

    assert (result.exit_code, result.output.count("\n")) == (1, 1), result.output
    assert f"Prometheus at {url} keeps 15 d 0 h, and " in result.output
    assert not page.exists()


def test_a_prometheus_that_is_away_is_asked_once(tmp_path: Path) -> None:
    result, page = live(tmp_path, "--prometheus", "http://127.0.0.1:1")

    assert (result.exit_code, result.output.count("\n")) == (1, 1), result.output
    assert "Prometheus at http://127.0.0.1:1: " in result.output
    assert not page.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--since", "1m"), "wanted 10m to 400d"),
        (("--since", "ages"), "wanted 10m to 400d, found 'ages'"),
        (("--prometheus", "here"), "wanted the address of a Prometheus"),
    ],
)
def test_wrong_use_is_reported(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result, page = live(tmp_path, *words)

    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not page.exists()


def test_a_stack_without_a_prometheus_is_reported(tmp_path: Path) -> None:
    with canned_api({}) as api:
        result, _ = live(tmp_path, "--kubeconfig", api.kubeconfig(tmp_path))

    assert (result.exit_code, result.output) == (
        2,
        "acme has no Prometheus: wanted monitoring.prometheus in its file, or --prometheus URL\n",
    )


@needs_promtool
@needs_prometheus
def test_the_page_can_be_read_through_the_api_servers_proxy(whole: tuple[Day, str], tmp_path: Path) -> None:
    service = "/api/v1/namespaces/monitoring/services/prometheus-operated:9090"
    with canned_api({}, {service: whole[1]}) as api:
        more = "ebbtide:monitoring: { prometheus: existing, namespace: monitoring }"
        result, page = live(tmp_path, "--kubeconfig", api.kubeconfig(tmp_path), more=more)

    assert result.exit_code == 0, result.output
    assert "Prometheus behind the service monitoring/prometheus-operated" in page.read_text()


# --- pure -------------------------------------------------------------------------------------------------------------


def chart(*values: float | None, is_line: bool = True) -> LiveChart:
    series = Series("one", "g1", values, is_line=is_line)
    return LiveChart(
        title="Ones",
        start=datetime(2026, 11, 23, tzinfo=BERLIN),
        step=120.0,
        open_spans=(),
        recorded=tuple(value is not None for value in values),
        panels=[panel_of("ones", [series], 120.0)],
        shown=[series],
    )


@pytest.mark.parametrize("is_line", [True, False])
def test_no_line_goes_through_a_gap(is_line: bool) -> None:
    view = ChartView(ident="x", width=500)
    picture = draw(live_chart(chart(1, 2, None, None, 2, 1, is_line=is_line), view), view)
    (path,) = re.findall(r'<path d="(M[^"]+)" class="(?:curve s|f)-g1"', picture)

    assert path.count("M") == 2
    first = [float(x) for x in re.findall(r"H([\d.]+)", path.split("M")[1])]
    second = float(path.split("M")[2].split()[0])
    assert max(first) < second


def test_the_crosshair_says_what_was_not_recorded() -> None:
    assert hover(chart(1, None, 2.5)).rows[0].values == ["1", "not recorded", "2.5"]


def test_neighbouring_gaps_are_joined() -> None:
    assert gaps_of([True, False, False, True, False], 60.0) == ((60.0, 180.0), (240.0, 300.0))


def test_a_band_of_many_keeps_the_largest_and_the_sum() -> None:
    values = {f"w{place}": (float(place), None) for place in range(12)}
    band = Band(values=values, recorded=(True, False))

    fewer = band.fewer(4)

    assert list(fewer.values) == ["w11", "w10", "w9", "others"]
    assert fewer.total == band.total == (66.0, None)
    painted, shown = stacked(band)
    assert painted[0].values == (66.0, None)
    assert len(shown) == 7


@pytest.mark.parametrize(("hours", "minutes"), [(1, 2), (24, 2), (48, 4), (24 * 30, 60)])
def test_steps_are_whole_minutes_and_never_so_short_that_a_rule_falls_between(hours: int, minutes: int) -> None:
    assert step_of(timedelta(hours=hours)) == timedelta(minutes=minutes)
