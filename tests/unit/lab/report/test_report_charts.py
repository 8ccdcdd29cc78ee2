import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from ebbtide.lab.report.charts.by_strategy import cost_chart
from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.hover import cost_hover, documents, nodes_hover, values_at
from ebbtide.lab.report.charts.over_time import day_chart, jobs_chart, nodes_chart, strip_chart
from ebbtide.lab.report.charts.panel import ChartView
from ebbtide.lab.report.charts.scales import horizon_of
from ebbtide.lab.report.pages.picture import readme_picture
from ebbtide.lab.simulator.results import ClusterSeries, Replay
from tests.builders.replay import a_replay

SVG = "{http://www.w3.org/2000/svg}"
VIEW = ChartView(ident="x", width=1000)
REPLAY = a_replay(samples_per_day=200)
CHARTS = {
    "nodes": draw(nodes_chart(REPLAY, "fixed-flexible", VIEW), VIEW),
    "jobs": draw(jobs_chart(REPLAY, "fixed-flexible", VIEW), VIEW),
    "cost": draw(cost_chart(REPLAY, VIEW), VIEW),
    "strip": draw(strip_chart(REPLAY, VIEW), VIEW),
}
EVERY_CHART = pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)


def root_of(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart)


def texts(chart: str) -> list[str]:
    return [element.text or "" for element in root_of(chart).iter(f"{SVG}text")]


def nodes(replay: Replay, strategy: str = "fixed-flexible") -> str:
    return draw(nodes_chart(replay, strategy, VIEW), VIEW)


def product_only(series: ClusterSeries) -> Replay:
    product = REPLAY.strategies["fixed-flexible"]
    return replace(REPLAY, strategies={"fixed-flexible": replace(product, series=series)})


def highest_point(chart: str, ink: str) -> float:
    """The smallest y of the area of one ink."""
    path = next(p for p in root_of(chart).iter(f"{SVG}path") if p.get("class") == f"f-{ink}")
    return min(float(y) for y in re.findall(r"V([\d.]+)", path.get("d", "")))


@EVERY_CHART
def test_a_chart_tells_a_screen_reader_what_it_is(chart: str) -> None:
    root = root_of(chart)
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")

    assert root.get("role") == "img"
    assert title is not None
    assert desc is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"


@EVERY_CHART
def test_nothing_is_drawn_outside_the_picture(chart: str) -> None:
    root = root_of(chart)
    limits = {"x": float(root.get("width", 0)), "y": float(root.get("height", 0))}

    for element in root.iter():
        for name in ("x", "x1", "x2", "y", "y1", "y2"):
            assert 0 <= float(element.get(name, 0)) <= limits[name[0]]


@EVERY_CHART
def test_each_local_day_is_labelled_with_weekday_and_date(chart: str) -> None:
    assert {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "2 Mar", "8 Mar"} <= set(texts(chart))


def test_business_hours_are_shaded_where_the_replay_has_them() -> None:
    root = root_of(CHARTS["nodes"])
    left, right = float(root.get("data-left", 0)), float(root.get("data-right", 0))
    shades = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "open" and r.get("rx") is None]
    scale = horizon_of(REPLAY) / (right - left)

    spans = [
        ((float(r.get("x", 0)) - left) * scale, (float(r.get("x", 0)) + float(r.get("width", 0)) - left) * scale)
        for r in shades
    ]
    assert spans == [pytest.approx(span, abs=scale * 0.2) for span in REPLAY.open_spans]


def test_time_without_data_differs_from_idle_time() -> None:
    chart = nodes(replace(REPLAY, gaps=((86_400.0, 2 * 86_400.0),)))
    (band,) = [r for r in root_of(chart).iter(f"{SVG}rect") if r.get("class") == "gap" and r.get("rx") is None]
    root = root_of(chart)
    day = (float(root.get("data-right", 0)) - float(root.get("data-left", 0))) * 86_400 / horizon_of(REPLAY)

    assert float(band.get("width", 0)) == pytest.approx(day, abs=0.2)
    assert "nothing recorded" in texts(chart)
    assert "nothing recorded" not in texts(CHARTS["nodes"])


def test_every_group_and_the_fixed_fleet_are_in_the_legend() -> None:
    assert {"fixed", "flexible", "gpu", "gpu-large", "business hours", "fixed fleet"} <= set(texts(CHARTS["nodes"]))
    assert "fixed fleet: 22 nodes" in texts(CHARTS["nodes"])


def test_the_fixed_fleet_is_not_compared_with_itself() -> None:
    assert "fixed fleet" not in texts(nodes(REPLAY, "fixed-fleet"))


def test_the_picture_of_one_day_has_no_level_of_the_fixed_fleet() -> None:
    assert not any("fixed fleet" in text for text in texts(draw(day_chart(REPLAY, "fixed-flexible", VIEW), VIEW)))


def test_the_sum_of_the_groups_reaches_its_true_height() -> None:
    replay = product_only(ClusterSeries(at=(0.0, 10.0, 11.0), nodes={"fixed": (2, 2, 2), "flexible": (0, 8, 0)}))

    chart = nodes(replay)

    bottom = max(float(e.get("y1", 0)) for e in root_of(chart).iter(f"{SVG}line") if e.get("class") == "axis")
    full, fixed = highest_point(chart, "g1"), highest_point(chart, "g0")
    assert (bottom - full) / (bottom - fixed) == pytest.approx(10 / 2, rel=0.01)


def test_the_bars_stand_for_the_dollars_of_their_days() -> None:
    bars = [r for r in root_of(CHARTS["cost"]).iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    paid = [usd for result in REPLAY.strategies.values() for usd in result.usd_per_day]
    heights = [float(bar.get("height", 0)) for bar in bars]

    assert [high / heights[0] for high in heights] == pytest.approx([usd / paid[0] for usd in paid], abs=0.002)


def test_each_strategy_has_a_panel_with_its_sums() -> None:
    assert set(REPLAY.strategies) <= set(texts(CHARTS["strip"]))
    assert sum("node-hours" in text for text in texts(CHARTS["strip"])) == len(REPLAY.strategies)


def test_names_are_escaped() -> None:
    series = ClusterSeries(at=(0.0,), nodes={"<script>&": (1,)})

    assert "<script>&" in texts(nodes(product_only(series)))


def test_pointing_at_a_short_peak_names_the_peak_and_its_minute() -> None:
    replay = product_only(ClusterSeries(at=(0.0, 7200.0, 7260.0, 7320.0), nodes={"flexible": (1, 2, 9, 1)}))
    hover = nodes_hover(replay, "fixed-flexible")
    totals = next(row.values for row in hover.rows if row.name == "total nodes")

    assert hover.labels[totals.index(9)] == "Mon 2 Mar 02:01"


def test_lower_sums_are_painted_over_higher_ones() -> None:
    areas = [path.get("class") for path in root_of(CHARTS["nodes"]).iter(f"{SVG}path")]

    assert [ink for ink in areas if ink != "level"] == ["f-g3", "f-g2", "f-g1", "f-g0"]


def test_the_tooltip_has_an_entry_of_every_row_for_every_place() -> None:
    for hover in documents(REPLAY, "fixed-flexible").values():
        assert {len(hover["places"])} == {len(hover["labels"]), *(len(row["values"]) for row in hover["rows"])}
        assert hover["places"] == sorted(hover["places"])


def test_a_value_holds_until_the_next_change() -> None:
    assert values_at([5.0, 10.0], [3, 4], [0.0, 5.0, 9.9, 10.0, 99.0]) == [0, 3, 3, 4, 4]


def test_the_cost_tooltip_names_the_day() -> None:
    assert cost_hover(REPLAY).labels[0] == "Mon 2 Mar"


def test_the_readme_picture_stands_alone() -> None:
    picture = readme_picture(REPLAY)
    root = root_of(picture)

    assert (root.get("width"), root.get("height")) == ("1000", "420")
    assert "var(" not in picture
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    assert any(
        "an equally good fixed fleet costs" in text.replace("\N{NO-BREAK SPACE}", " ") for text in texts(picture)
    )
    assert any("87 % of the trace's jobs" in text for text in texts(picture))
