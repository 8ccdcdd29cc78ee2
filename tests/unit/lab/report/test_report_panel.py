"""Charts as values: where they put values, panels and words, and what of them is drawn."""

import math
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.report.charts.axes import Axis, Tick, axis_with, value_axis
from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.panel import (
    Bar,
    Chart,
    ChartView,
    Curve,
    Key,
    Level,
    Line,
    Mark,
    Panel,
    Points,
    Run,
    Shade,
    Text,
    runs_of,
    sums_from_below,
)
from ebbtide.lab.report.charts.scales import Box
from tests.unit.lab.report.looking import SVG, paths, words_in, words_outside

VIEW = ChartView(ident="x", width=572)  # a plot area of 500 by 200 pixels, from (58, 30)
BOX = Box(left=10, top=20, width=100, height=50)
SHARES = st.lists(st.floats(0.1, 10), min_size=1, max_size=6)


def chart(*panels: Panel) -> Chart:
    return Chart(title="Ones", desc="Only ones.", height=274.0, x=Axis(high=10.0), panels=panels)


def panel(*marks: Mark) -> Panel:
    return Panel(y=Axis(high=4.0), marks=marks)


def elements(picture: str, tag: str) -> list[dict[str, str]]:
    return [element.attrib for element in ElementTree.fromstring(picture).iter(f"{SVG}{tag}")]


@pytest.mark.parametrize(
    "axis", [Axis(high=8.0), Axis(low=-3.0, high=8.0), Axis(low=90.0, high=0.0), Axis(low=0.1, high=30, bend=math.log)]
)
def test_an_axis_goes_from_edge_to_edge(axis: Axis) -> None:
    assert (axis.x(axis.low, BOX), axis.x(axis.high, BOX)) == pytest.approx((10, 110))
    assert (axis.y(axis.low, BOX), axis.y(axis.high, BOX)) == pytest.approx((70, 20))


def test_equal_ratios_are_equally_far_apart_on_a_logarithmic_axis() -> None:
    axis = Axis(low=1.0, high=100.0, bend=math.log)

    assert axis.x(10.0, BOX) == pytest.approx(60)
    assert axis.y(10.0, BOX) == pytest.approx(45)


def test_an_axis_of_values_reaches_the_highest_one_and_begins_at_nothing() -> None:
    axis = value_axis(7.3, "jobs", count=4)

    assert axis.low == axis.ticks[0].at == 0
    assert axis.high == axis.ticks[-1].at >= 7.3
    assert [tick.text for tick in axis_with([-2.0, 0.0, 20_000.0], "jobs").ticks] == ["-2", "0", "20k"]


@given(shares=SHARES, between=st.floats(0, 20))
def test_panels_share_the_height_and_stay_apart(shares: list[float], between: float) -> None:
    area = Box(left=5, top=7, width=90, height=400)
    panels = [replace(panel(), share=share) for share in shares]

    boxes = replace(chart(*panels), between=between).boxes(area)

    assert (boxes[0].top, boxes[-1].bottom) == pytest.approx((area.top, area.bottom))
    assert all(lower.top - upper.bottom == pytest.approx(between) for upper, lower in pairwise(boxes))
    assert [box.height / boxes[0].height for box in boxes] == pytest.approx([share / shares[0] for share in shares])


@given(st.lists(st.one_of(st.none(), st.integers(0, 3))))
def test_runs_are_the_known_values_in_their_places(values: list[int | None]) -> None:
    runs = runs_of(values, 60.0)
    known = {at / 60: value for run in runs for at, value in zip(run.x, run.y, strict=False)}

    assert [known.get(place) for place in range(len(values))] == values
    assert all(len(run.x) == len(run.y) + 1 for run in runs)
    assert all(after - before == 60 for run in runs for before, after in pairwise(run.x))
    assert all(after.x[0] > before.x[-1] for before, after in pairwise(runs))


def test_the_highest_sum_comes_first() -> None:
    assert sums_from_below([[1, 2], [10, 20], [100, 200]]) == [(111, 222), (11, 22), (1, 2)]


def test_values_lie_where_the_axes_say() -> None:
    picture = draw(
        chart(
            panel(
                Line(x=(0, 10), y=(4, 0), ink="axis"),
                Bar(x=(5, 7), y=(0, 1), ink="f-g1"),
                Points(at=[(2.5, 3)], shape="h1", ink="f-g2"),
                Curve(runs=[Run([0, 5, 10], [1, 3])], ink="curve s-g3"),
                Curve(runs=[Run([0, 5, 10], [1, 3])], ink="f-g4"),
                Curve(runs=[Run([0, 5], [1, 3])], ink="curve s-g5", joined=True),
            )
        ),
        VIEW,
    )

    assert {key: elements(picture, "line")[0][key] for key in ("x1", "y1", "x2", "y2")} == {
        "x1": "58",
        "y1": "30",
        "x2": "558",
        "y2": "230",
    }
    assert "stroke-dasharray" not in picture
    assert [elements(picture, "rect")[0][key] for key in ("x", "y", "width", "height")] == ["308", "180", "100", "50"]
    assert paths(picture, "f-g2") == ["M183 80h1z"]
    assert paths(picture, "curve s-g3") == ["M58 180V180H308V80H558"]
    assert paths(picture, "f-g4") == ["M58 230V180H308V80H558V230Z"]
    assert paths(picture, "curve s-g5") == ["M58 180L308 80"]


def test_a_shade_is_behind_everything_in_each_panel() -> None:
    shaded = replace(chart(panel(), panel()), shades=[Shade(5, 10, "open")], between=100)
    tags = [element.tag.removeprefix(SVG) for element in ElementTree.fromstring(draw(shaded, VIEW))]

    assert tags[2] == "rect"
    assert [rect["x"] for rect in elements(draw(shaded, VIEW), "rect")] == ["308", "308"]
    assert [rect["height"] for rect in elements(draw(shaded, VIEW), "rect")] == ["50", "50"]


def test_a_level_goes_from_edge_to_edge_with_its_text_over_its_end() -> None:
    picture = draw(chart(panel(Level(y=2, text="enough"))), VIEW)
    line = next(line for line in elements(picture, "line") if line["class"] == "level")
    (text,) = elements(picture, "text")

    assert (line["x1"], line["y1"], line["x2"], line["y2"]) == ("58", "130", "558", "130")
    assert (text["x"], text["y"], text["text-anchor"]) == ("554", "125", "end")


def test_no_label_of_time_leaves_the_picture() -> None:
    axis = Axis(high=10.0, ticks=[Tick(10.0, "Wed", "30 November")])

    assert words_outside(draw(replace(chart(panel()), x=axis), VIEW), VIEW.width) == []


def test_notches_stand_below_the_panel_and_grid_lines_in_it() -> None:
    axis = Axis(high=10.0, lines=[5.0])
    charts = [replace(chart(panel()), x=each) for each in (axis, replace(axis, notched=True))]
    grid, notch = (elements(draw(each, VIEW), "line")[0] for each in charts)

    assert (grid["class"], grid["y1"], grid["y2"]) == ("grid", "30", "230")
    assert (notch["class"], notch["y1"], notch["y2"]) == ("axis", "230", "234")


def test_only_a_chart_with_a_crosshair_says_where_it_may_be() -> None:
    with_it, without = (draw(replace(chart(panel()), has_crosshair=has), VIEW) for has in (True, False))

    assert 'data-left="58" data-right="558"' in with_it
    assert "crosshair" in with_it
    assert "data-left" not in without
    assert "crosshair" not in without


def test_a_legend_takes_its_rows_from_the_panels() -> None:
    keys = [Key(f"a rather long name {place}", "f-g1") for place in range(4)]
    with_legend = replace(chart(panel()), keys=keys)

    assert chart(panel()).area(VIEW).top == 30
    assert with_legend.area(VIEW).top == 30 + 2 * 20
    assert [word.text for word in words_in(draw(with_legend, VIEW))] == [key.text for key in keys]


def test_words_of_others_stay_words() -> None:
    hostile = '<b>"&'
    marks = [Bar(x=(0, 1), y=(0, 1), ink="f-g1", title=hostile), Text(at=(0, 0), text=hostile)]

    picture = draw(replace(chart(panel(*marks)), title=hostile, keys=[Key(hostile, "f-g1")]), VIEW)

    texts = [element.text for element in ElementTree.fromstring(picture).iter() if element.text]
    assert texts.count(hostile) == 4
