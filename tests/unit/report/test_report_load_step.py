"""The picture of a step of load: three panels over the same seconds, and gaps where nothing was answered."""

import re
from dataclasses import replace
from xml.etree import ElementTree

from ebbtide.report import LoadStep, load_step_picture
from ebbtide.report.charts.services import load_step_chart
from ebbtide.report.charts.svg import ChartView

STEP = LoadStep(step=1.0, rate=[5, 50, 5], wanted=[1, 4, 4], ready=[1, 1, 4], p95=[0.1, None, 0.2])


def chart(load: LoadStep = STEP) -> str:
    return load_step_chart(load, ChartView(ident="step", width=900, height=500))


def paths(markup: str, ink: str) -> list[str]:
    elements = ElementTree.fromstring(markup).iter("{http://www.w3.org/2000/svg}path")
    return [path.attrib["d"] for path in elements if path.attrib["class"] == ink]


def test_each_panel_has_its_unit_and_time_is_in_seconds() -> None:
    texts = [text.text for text in ElementTree.fromstring(chart()).iter("{http://www.w3.org/2000/svg}text")]

    assert {"requests a second", "replicas", "milliseconds, p95"} <= set(texts)
    assert next(text for text in texts if text and text.endswith(" s")) == "0 s"


def test_where_nothing_was_answered_the_line_has_a_gap() -> None:
    (line,) = paths(chart(), "curve s-g3")
    (unbroken,) = paths(chart(replace(STEP, p95=[0.1, 0.1, 0.2])), "curve s-g3")

    assert (line.count("M"), unbroken.count("M")) == (2, 1)


def test_more_replicas_are_drawn_higher() -> None:
    (ready,) = paths(chart(), "f-g5")
    heights = [float(y) for y in re.findall(r"M[\d.]+ [\d.]+V([\d.]+)H", ready)]

    assert heights[0] == heights[1] > heights[2]


def test_the_picture_stands_alone() -> None:
    picture = load_step_picture(STEP, "A <step>", ["5 sent, 5 answered."])

    assert "var(" not in picture
    assert "A &lt;step&gt;." in picture
    assert "5 sent, 5 answered." in picture
