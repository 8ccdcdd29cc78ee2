"""The charts whose rows are strategies or reasons: waits, cost in panels, nodes that were kept."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from ebbtide.lab.report.charts.by_strategy import cost_chart, retained_chart, wait_chart
from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.panel import ChartView
from ebbtide.lab.simulator.results import Replay
from tests.builders.replay import a_replay

SVG = "{http://www.w3.org/2000/svg}"
REPLAY = a_replay(samples_per_day=40)
PRODUCT = REPLAY.strategies["fixed-flexible"]


def only(**changed: object) -> Replay:
    product = replace(PRODUCT, **changed)  # pyright: ignore[reportArgumentType] - the fields are the test's
    return replace(REPLAY, strategies={"fixed-flexible": product})


def elements(chart: str, tag: str, **attributes: str) -> list[ElementTree.Element]:
    candidates = ElementTree.fromstring(chart).iter(f"{SVG}{tag}")
    return [
        element
        for element in candidates
        if all(element.get(key.rstrip("_")) == value for key, value in attributes.items())
    ]


def texts(chart: str) -> list[str]:
    return [element.text or "" for element in elements(chart, "text")]


def waits(replay: Replay, width: float = 1000) -> str:
    view = ChartView(ident="x", width=width)
    return draw(wait_chart(replay, view), view)


def kept(replay: Replay, width: float = 1000) -> str:
    view = ChartView(ident="x", width=width)
    return draw(retained_chart(replay, "fixed-flexible", view), view)


def costs(replay: Replay, width: float) -> str:
    view = ChartView(ident="x", width=width)
    return draw(cost_chart(replay, view), view)


def test_longer_percentiles_lie_further_to_the_right() -> None:
    marks = elements(waits(only(wait_p50_s=0.0, wait_p95_s=224.0, wait_p99_s=7500.0)), "path", class_="f-k3 point")
    x = [float((mark.get("d") or "")[1:].split()[0]) for mark in marks]

    assert x == sorted(x, reverse=True)
    assert len(set(x)) == 3
    assert x[-1] == 58


def test_a_percentile_that_is_not_known_has_no_mark() -> None:
    assert len(elements(waits(only()), "path", class_="f-k3 point")) == 2


def test_the_bound_has_no_waits_to_show() -> None:
    labels = texts(waits(replace(REPLAY, strategies={**REPLAY.strategies, "zero-wait-bound": PRODUCT})))

    assert "zero-wait-bound" not in labels
    assert "fixed-flexible" in labels


def test_a_curve_rises_from_no_jobs_to_all_of_them() -> None:
    drawn = only(wait_p99_s=900.0, wait_quantiles_s=tuple(max(0.0, 10.0 * (share - 40)) for share in range(101)))
    curve = elements(waits(drawn), "path", class_="curve s-k3")[-1].get("d") or ""
    x = [float(part) for part in re.findall(r"H([\d.]+)", curve)]
    y = [float(part) for part in re.findall(r"V([\d.]+)", curve)]

    assert x == sorted(x)
    assert y == sorted(y, reverse=True)
    assert y[0] - y[-1] == pytest.approx(190)
    assert x[40] < x[41]


def test_without_a_distribution_there_is_no_panel_for_it() -> None:
    assert "% of jobs that waited no longer" not in texts(waits(REPLAY))


def test_no_wait_at_all_still_has_an_axis() -> None:
    labels = texts(waits(only(wait_p50_s=0.0, wait_p95_s=0.0, wait_p99_s=0.0)))

    assert {"0", "10 s", "1 min", "p50 0s · p95 0s · p99 0s"} <= set(labels)


def test_bars_too_thin_to_tell_apart_become_a_panel_for_each_strategy() -> None:
    four_weeks = a_replay(days=28, samples_per_day=10)

    assert set(REPLAY.strategies) <= set(texts(costs(four_weeks, 336)))
    assert texts(costs(four_weeks, 336)).count("$0") == 4
    assert texts(costs(REPLAY, 1076)).count("$0") == 1


@pytest.mark.parametrize("width", [336, 1076])
def test_a_bar_of_any_chart_of_costs_says_its_day_and_dollars(width: float) -> None:
    four_weeks = a_replay(days=28, samples_per_day=10)
    labels = [title.text or "" for title in elements(costs(four_weeks, width), "title")]

    assert sum(text.startswith("fixed-flexible, Mon 2 Mar: $") for text in labels) == 1


def test_what_kept_most_nodes_comes_first_and_has_the_longest_bar() -> None:
    chart = kept(only(survivors={"above-threshold": 30.0, "pod with local storage present: cache": 90.0, "none": 0.0}))
    bars = [float(bar.get("width", 0)) for bar in elements(chart, "rect", class_="f-g1")]

    assert texts(chart)[::2] == ["pod with local storage present: cache", "above threshold"]
    assert texts(chart)[1::2] == ["90 node-h · 75 %", "30 node-h · 25 %"]
    assert bars[0] == pytest.approx(3 * bars[1], rel=0.01)


def test_many_reasons_are_summed_up_in_the_last_bar() -> None:
    chart = kept(only(survivors={f"reason {place}": 100.0 - place for place in range(20)}))

    assert len(elements(chart, "rect", class_="f-g1")) == 8
    assert texts(chart)[-2:] == ["other reasons", f"{sum(100 - place for place in range(7, 20)):,} node-h · 62 %"]


def test_reasons_of_a_few_minutes_are_left_to_the_table() -> None:
    chart = kept(only(survivors={"above-threshold": 30.0, "the budget of api is closed or used up": 0.01}))

    assert texts(chart) == ["above threshold", "30 node-h · 100 %"]


def test_a_long_reason_is_cut_and_complete_in_its_tooltip() -> None:
    reason = "not enough pod disruption budget to move " + "a-service-of-a-long-name" * 3
    chart = kept(only(survivors={reason: 2.0}), width=336)

    assert texts(chart)[0].endswith("…")
    assert any(reason in (title.text or "") for title in elements(chart, "title"))
