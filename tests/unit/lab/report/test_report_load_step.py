"""The picture of a step of load: three panels over the same seconds, and gaps where nothing was answered."""

import re
from dataclasses import replace
from xml.etree import ElementTree

from ebbtide.lab.report import LoadStep, load_step_picture
from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.panel import ChartView
from ebbtide.lab.report.charts.services import load_step_chart

STEP = LoadStep(step=1.0, rate=[5, 50, 5], wanted=[1, 4, 4], ready=[1, 1, 4], p95=[0.1, None, 0.2])


def chart(load: LoadStep = STEP) -> str:
    view = ChartView(ident="step", width=900)
    return draw(load_step_chart(load, view), view)


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
    one, four = (float(y) for y in re.findall(r"V([\d.]+)H", ready))

    assert one > four


def test_the_picture_stands_alone() -> None:
    picture = load_step_picture(STEP, "A <step>", ["5 sent, 5 answered."])

    assert "var(" not in picture
    assert "A &lt;step&gt;." in picture
    assert "5 sent, 5 answered." in picture
