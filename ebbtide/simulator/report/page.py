"""One self-contained HTML file: text, charts, style and a few lines of script, and nothing fetched from anywhere.

Each chart is drawn twice, for a wide and for a narrow page, and the style shows one: letters keep their size, which a
scaled picture would not give.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ebbtide.files import write_file
from ebbtide.simulator.report import charts, hover, sentences
from ebbtide.simulator.report.charts import View
from ebbtide.simulator.report.palette import CHART_CSS, DARK, LIGHT, variables
from ebbtide.simulator.report.table import HEADINGS, strategy_rows
from ebbtide.simulator.report.words import count, dollars, duration, glued, percent, several
from ebbtide.simulator.results import Replay, StrategyResult

_WIDTHS = {"wide": 1076.0, "narrow": 704.0}  # of the drawings: the page's text width at 1280 and at 800 pixels
_STRIP_ROW = 102.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    heading: str
    note: str
    pictures: Mapping[str, Markup]
    hover: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tile:
    figure: str
    what: str
    beside: str


def write_report(
    replay: Replay, path: Path, *, live: Mapping[str, str] | None = None, title: str = "Ebbtide replay"
) -> None:
    """Write the page, whole or not at all; `live` is what a live run found. Raises: `Unwritable`."""
    write_file(path, render(replay, live=live or {}, title=title))


def render(replay: Replay, *, live: Mapping[str, str], title: str) -> str:
    environment = Environment(
        loader=PackageLoader("ebbtide.simulator", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(glued=glued, reason=sentences.reason_text, whole_options=_whole_options)
    told = sentences.told_strategy(replay)
    return environment.get_template("page.html.j2").render(
        title=title,
        replay=replay,
        live=live,
        headline=sentences.headline(replay),
        scope=sentences.scope_line(replay),
        coverage=sentences.coverage_line(replay),
        attainable=sentences.attainable_line(replay),
        tiles=_tiles(replay, told) if told else [],
        figures=_figures(replay, told) if told else [],
        headings=HEADINGS,
        rows=strategy_rows(replay),
        command=sentences.command(replay),
        savings=sentences.savings_line(replay),
        chart_css=Markup(CHART_CSS),
        light=Markup(variables(LIGHT)),
        dark=Markup(variables(DARK)),
    )


def _whole_options(text: str) -> Markup:
    """Browsers break a line between the two hyphens of `--start`."""
    return Markup(re.sub(r"--[\w-]+", r'<span class="whole">\g<0></span>', str(escape(text))))


def _tiles(replay: Replay, told: str) -> list[Tile]:
    result, fleet = replay.strategies[told], replay.strategies.get(sentences.FLEET)
    if told == sentences.FLEET:
        fleet = None  # nothing to compare it with but itself

    def beside(figure: Callable[[StrategyResult], str]) -> str:
        return f"fixed fleet: {glued(figure(fleet))}" if fleet else ""

    return [
        Tile(dollars(result.usd), f"{told}, {several(replay.days, 'day')}", beside(lambda its: dollars(its.usd))),
        *_saving_tile(result),
        Tile(duration(result.wait_p95_s), "p95 wait", beside(lambda its: duration(its.wait_p95_s))),
        Tile(duration(result.wait_p50_s), "p50 wait", beside(lambda its: duration(its.wait_p50_s))),
        Tile(count(result.jobs_interrupted), "jobs interrupted", f"of {count(result.jobs_done)} done"),
        Tile(
            count(result.evictions_in_business_hours),
            "evictions in business hours",
            f"{count(result.evictions_in_window)} in the window",
        ),
    ]


def _saving_tile(result: StrategyResult) -> list[Tile]:
    saving = result.saving_vs_fixed_fleet
    if saving is None:
        return []
    return [Tile(percent(abs(saving)), "saved" if saving >= 0 else "extra cost", "against the fixed fleet")]


def _figures(replay: Replay, told: str) -> list[Figure]:
    rows = max(1, len(replay.strategies))
    data = hover.documents(replay, told)
    drawn: Mapping[str, Callable[[View], str]] = {
        "nodes": lambda view: charts.nodes_chart(replay, told, view),
        "jobs": lambda view: charts.jobs_chart(replay, told, view),
        "cost": lambda view: charts.cost_chart(replay, view),
        "strip": lambda view: charts.strip_chart(replay, view),
    }
    heights = {"nodes": 400.0, "jobs": 400.0, "cost": 340.0, "strip": 44.0 + _STRIP_ROW * rows}
    words = {
        "nodes": ("Nodes by group", sentences.nodes_line(replay, told)),
        "jobs": ("Jobs running and waiting", sentences.jobs_line(replay, told)),
        "cost": ("Cost of each local day", "What each strategy pays for the nodes of one calendar day."),
        "strip": ("Nodes by strategy", "All nodes of each strategy, on one scale."),
    }
    return [
        Figure(
            name=name,
            heading=words[name][0],
            note=words[name][1],
            pictures={
                form: Markup(draw(View(ident=f"{name}-{form}", width=width, height=heights[name])))
                for form, width in _WIDTHS.items()
            },
            hover=data[name],
        )
        for name, draw in drawn.items()
    ]
