"""One chart as a standalone SVG on light paper, for a page that shows pictures but runs no style of ours."""

from collections.abc import Callable, Sequence
from textwrap import wrap

from ebbtide.report.charts import svg
from ebbtide.report.charts.over_time import nodes_chart
from ebbtide.report.charts.palette import CHART_CSS, LIGHT, literal
from ebbtide.report.charts.services import LoadStep, load_step_chart, served_day, service_day_chart, service_day_height
from ebbtide.report.charts.svg import ChartView
from ebbtide.report.pages import sentences
from ebbtide.report.pages.services import scope_line, verdict
from ebbtide.simulator.results import Replay
from ebbtide.simulator.services.results import ServiceReplay

_WIDTH = 1000.0
_MARGIN = 20.0
_LINE = 18.0  # of the caption
_LETTERS = 140  # of one line


def readme_picture(replay: Replay) -> str:
    """1000 by 420 pixels: legend, chart, and a caption with the result and its coverage. No variables, no script."""
    strategy = sentences.main_strategy(replay)

    def draw(view: ChartView) -> str:
        return nodes_chart(replay, strategy, view) if strategy is not None else ""

    return _on_paper(420.0, sentences.headline(replay), _caption(replay), "nodes", draw)


def load_step_picture(step: LoadStep, headline: str, caption: Sequence[str]) -> str:
    """1000 by 620 pixels: requests, replicas and latency, with a caption."""
    return _on_paper(620.0, headline, caption, "step", lambda view: load_step_chart(step, view))


def served_day_picture(replay: ServiceReplay, number: int | None = None) -> str:
    """1000 pixels wide: a day of a service, and under it what the strategies cost. Raises: `NoSuchDay`."""
    day = served_day(replay, number)
    caption = f"{verdict(replay)}. Replayed: {scope_line(replay)}."
    lines = wrap(caption.replace(" %", "\N{NO-BREAK SPACE}%"), _LETTERS)
    return _on_paper(
        service_day_height(day) + _MARGIN + 10 + _LINE * (len(lines) + 1),
        f"{replay.service} of {replay.stack} on {day.day.weekday} {day.day.date}",
        lines,
        "day",
        lambda view: service_day_chart(day, view),
    )


def _on_paper(height: float, headline: str, lines: Sequence[str], ident: str, draw: Callable[[ChartView], str]) -> str:
    view = ChartView(ident=ident, width=_WIDTH - 2 * _MARGIN, height=height - _MARGIN - 10 - _LINE * (len(lines) + 1))
    chart = draw(view)
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
