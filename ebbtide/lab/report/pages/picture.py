"""One chart as a standalone SVG on light paper, for a page that shows pictures but does not apply our styles."""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap

from ebbtide.lab.report.charts import svg
from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.over_time import nodes_chart
from ebbtide.lab.report.charts.palette import CHART_CSS, LIGHT, literal
from ebbtide.lab.report.charts.panel import ChartView
from ebbtide.lab.report.charts.services import LoadStep, load_step_chart, served_day, service_day_chart
from ebbtide.lab.report.pages import sentences
from ebbtide.lab.report.pages.services import scope_line, verdict
from ebbtide.lab.simulator.results import Replay
from ebbtide.lab.simulator.services.results import ServiceReplay

_WIDTH = 1000.0
_MARGIN = 20.0
_CHART = _WIDTH - 2 * _MARGIN
_LINE = 18.0  # of the caption
_LETTERS = 140  # of one line


def readme_picture(replay: Replay) -> str:
    """1000 by 420 pixels: legend, chart, and a caption with the result and its coverage. No variables, no script."""
    strategy, lines = sentences.main_strategy(replay), _caption(replay)
    view = ChartView(ident="nodes", width=_CHART)
    height = 420.0 - _caption_height(lines)
    chart = "" if strategy is None else draw(replace(nodes_chart(replay, strategy, view), height=height), view)
    return _on_paper(chart, height, sentences.headline(replay), lines)


def load_step_picture(step: LoadStep, headline: str, caption: Sequence[str]) -> str:
    """1000 by 620 pixels: requests, replicas and latency, with a caption."""
    view = ChartView(ident="step", width=_CHART)
    height = 620.0 - _caption_height(caption)
    return _on_paper(draw(replace(load_step_chart(step, view), height=height), view), height, headline, caption)


def served_day_picture(replay: ServiceReplay, number: int | None = None) -> str:
    """1000 pixels wide: a day of a service, and under it what the strategies cost. Raises: `NoSuchDay`."""
    day = served_day(replay, number)
    caption = f"{verdict(replay)}. Replayed: {scope_line(replay)}."
    lines = wrap(caption.replace(" %", "\N{NO-BREAK SPACE}%"), _LETTERS)
    view = ChartView(ident="day", width=_CHART)
    chart = service_day_chart(day, view)
    headline = f"{replay.service} of {replay.stack} on {day.day.weekday} {day.day.date}"
    return _on_paper(draw(chart, view), chart.height, headline, lines)


def _caption_height(lines: Sequence[str]) -> float:
    """Headline, lines and margins."""
    return _MARGIN + 10 + _LINE * (len(lines) + 1)


def _on_paper(chart: str, chart_height: float, headline: str, lines: Sequence[str]) -> str:
    height = chart_height + _caption_height(lines)
    content = [
        svg.element("style", literal(CHART_CSS, LIGHT)),
        svg.element("rect", width=_WIDTH, height=height, rx=8, class_="paper"),
        svg.element("g", chart, transform=f"translate({svg.number(_MARGIN)} {svg.number(_MARGIN)})") if chart else "",
        svg.label(f"{headline}.", _MARGIN, height - 12 - _LINE * len(lines), class_="strong"),
        *(svg.label(line, _MARGIN, height - 12 - _LINE * place) for place, line in enumerate(reversed(lines))),
    ]
    return svg.element(
        "svg",
        "".join(content),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {svg.number(_WIDTH)} {svg.number(height)}",
        width=_WIDTH,
        height=height,
        role="img",
        aria_label=headline,
    )


def _caption(replay: Replay) -> list[str]:
    """State which jobs the figure covers, and the saving that is attainable at all."""
    attainable = sentences.attainable_line(replay)
    covers = f"Covers {sentences.coverage_line(replay)}{f'; {attainable}' if attainable else ''}."
    return [covers, f"Replayed: {sentences.scope_line(replay)}."]
