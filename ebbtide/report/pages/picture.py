"""The nodes chart as one standalone SVG on light paper, for a page that shows pictures but runs no style of ours."""

from ebbtide.report.charts import over_time as charts
from ebbtide.report.charts import svg
from ebbtide.report.charts.over_time import ChartView
from ebbtide.report.charts.palette import CHART_CSS, LIGHT, literal
from ebbtide.report.pages import sentences
from ebbtide.simulator.results import Replay

_SIZE = (1000.0, 420.0)
_MARGIN = 20.0
_LINE = 18.0  # of the caption


def readme_picture(replay: Replay) -> str:
    """1000 by 420 pixels: legend, chart, and a caption with the result and its coverage. No variables, no script."""
    width, height = _SIZE
    told = sentences.main_strategy(replay)
    lines = _caption(replay)
    chart = ""
    if told is not None:
        view = ChartView(
            ident="nodes", width=width - 2 * _MARGIN, height=height - _MARGIN - 10 - _LINE * (len(lines) + 1)
        )
        chart = charts.nodes_chart(replay, told, view)
    style = svg.element("style", literal(CHART_CSS, LIGHT))
    content = [
        style,
        svg.element("rect", width=width, height=height, rx=8, class_="paper"),
        svg.element("g", chart, transform=f"translate({svg.number(_MARGIN)} {svg.number(_MARGIN)})") if chart else "",
        svg.label(f"{sentences.headline(replay)}.", _MARGIN, height - 12 - _LINE * len(lines), class_="strong"),
        *(svg.label(line, _MARGIN, height - 12 - _LINE * place) for place, line in enumerate(reversed(lines))),
    ]
    return svg.element(
        "svg",
        "".join(content),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {svg.number(width)} {svg.number(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=sentences.headline(replay),
    )


def _caption(replay: Replay) -> list[str]:
    """What a figure must not go without: which jobs it covers, and what nobody could save."""
    attainable = sentences.attainable_line(replay)
    covers = f"Covers {sentences.coverage_line(replay)}{f'; {attainable}' if attainable else ''}."
    return [covers, f"Replayed: {sentences.scope_line(replay)}."]
