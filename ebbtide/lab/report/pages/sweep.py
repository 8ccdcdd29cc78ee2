"""The page of a sweep: the trade-off, what one setting for all costs each stack, and every figure as a table."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from math import isfinite

from ebbtide.lab.report.charts.axes import Axis, Tick, axis_with
from ebbtide.lab.report.charts.panel import (
    OVER,
    SHAPES,
    Chart,
    ChartView,
    Key,
    Line,
    Mark,
    Panel,
    Points,
    Text,
    legend_height,
)
from ebbtide.lab.report.charts.scales import ranged_ticks
from ebbtide.lab.report.charts.svg import shortened
from ebbtide.lab.report.pages.figures import Figure, FigurePlan, figure_of
from ebbtide.lab.report.pages.template import rendered
from ebbtide.lab.sweep.summary import SettingSummary, SweepSummary, notes_of
from ebbtide.lab.sweep.table import figure, regrets, spread_of
from ebbtide.text.counts import DASH, percent, several
from ebbtide.text.sheet import SHARE, Cell, Sheet, Unit, left, right

_INKS = ("k3", "k1", "k5", "k4", "k2", "k7", "k8", "k6")
_ROW = 54.0
_MARGIN = 14.0
_UNDER = 40.0
_DOT = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0"
_BOLD = 0.85  # share of the width, since the estimate is for letters that are not bold
_APART = 8.0  # pixels: points that are closer have one label


def render_sweep(summary: SweepSummary, command: str) -> str:
    """Render standalone HTML; `command` is the command that repeats the sweep."""
    shares = sorted({percent(stack.coverage) for stack in summary.stacks})
    return rendered(
        "sweep.html.j2",
        title=f"Sweep of {several(len(summary.stacks), 'stack')}",
        verdict=_verdict(summary),
        scope=_scope(summary),
        notes=[*regrets(summary), *notes_of(summary)],
        settings=_settings_sheet(summary),
        stacks=_stacks_sheet(summary),
        figures=_figures(summary) if summary.settings else [],
        coverage=f"{f' {DASH} '.join(dict.fromkeys((shares[0], shares[-1])))} of the traces' jobs"
        if shares
        else "no job",
        command=command,
        digest=summary.digest,
    )


def _verdict(summary: SweepSummary) -> str:
    if summary.best is None:
        return "No setting meets the conditions on any stack"
    (best,) = (setting for setting in summary.settings if setting.setting == summary.best)
    return f"{best.setting} is best for all: {summary.objective.figure} {figure(best.value)} on average"


def _scope(summary: SweepSummary) -> str:
    parts = [
        f"{summary.objective} under {summary.strategy}",
        several(len(summary.stacks), "stack"),
        several(len(summary.settings), "setting"),
        ", ".join(summary.traces),
        several(summary.seeds, "seed"),
        several(summary.replays, "replay"),
    ]
    return "; ".join(parts)


def _figures(summary: SweepSummary) -> list[Figure]:
    tradeoff = FigurePlan(
        heading="Trade-off",
        note="Each setting, the mean over all stacks; its line goes from the lowest to the highest seed.",
        chart=lambda view: tradeoff_chart(summary, view),
    )
    regret = FigurePlan(
        heading="One setting for all",
        note="Each dot is a stack where the setting meets the conditions: its distance above that stack's best.",
        chart=lambda view: regret_chart(summary, view),
    )
    return [
        figure_of("tradeoff", tradeoff, _settings_sheet(summary)),
        figure_of("regret", regret, _regret_sheet(summary)),
    ]


def _settings_sheet(summary: SweepSummary) -> Sheet:
    return Sheet(
        caption="Settings over all stacks",
        columns=[*left("setting"), *right(summary.objective.figure, summary.against, "meets the conditions")],
        rows=[
            (setting.setting, spread_of(setting), figure(setting.other), several(setting.meets, "stack"))
            for setting in summary.settings
        ],
    )


def _stacks_sheet(summary: SweepSummary) -> Sheet:
    """List the stacks, the greatest regret first."""
    ordered = sorted(summary.stacks, key=lambda stack: (-(stack.regret or 0.0), stack.customer))
    amount = Unit("", figure)
    rows: list[Sequence[Cell]] = []
    for stack in ordered:
        cell = None if stack.best is None else stack.cells[stack.best]
        values = (None, None) if cell is None else (spread_of(cell), cell.other)
        rows.append((stack.customer, stack.best or "none", *values, stack.regret, stack.coverage))
    return Sheet(
        caption="The best setting of each stack",
        columns=[
            *left("stack", "best setting"),
            *right(summary.objective.figure, summary.against, "regret of one for all", unit=amount),
            *right("jobs covered", unit=SHARE),
        ],
        rows=rows,
    )


def _regret_sheet(summary: SweepSummary) -> Sheet:
    return Sheet(
        caption="Per cent above each stack's best",
        columns=[*left("setting"), *right("stacks"), *right("mean", "most", unit=Unit("%", "{:.2f}".format))],
        rows=[
            (setting, len(shares), *((sum(shares) / len(shares), max(shares)) if shares else (None, None)))
            for setting, shares in above_best(summary).items()
        ],
    )


def tradeoff_chart(summary: SweepSummary, view: ChartView) -> Chart:
    """A point for each setting, the mean over all stacks; the line through it goes from seed to seed."""
    shown = [setting for setting in summary.settings if isfinite(setting.value) and isfinite(setting.other)]
    keys = _keys(summary, view.width)
    edges = [edge for setting in shown for edge in (setting.low, setting.high)]
    chart = Chart(
        title=f"{summary.objective.figure} against {summary.against}, by setting",
        desc=f"Points: {len(shown)} settings, each the mean over all stacks, traces and seeds.",
        height=340.0 + legend_height(keys, view.width),
        keys=keys,
        x=_across(ranged_ticks(edges, count=3 if view.small else 6), summary.objective.figure),
        has_crosshair=False,
        panels=[],
    )
    y = axis_with(ranged_ticks([setting.other for setting in shown]), summary.against, figure)
    box = chart.area(view)
    marks: list[Mark] = []
    named: dict[tuple[int, int], list[str]] = {}
    for place, (setting, ink) in enumerate(zip(summary.settings, cycle(_INKS), strict=False), 1):
        if setting in shown:
            marks += _point(setting, ink)
            near = round(chart.x.x(setting.value, box) / _APART), round(y.y(setting.other, box) / _APART)
            named.setdefault(near, []).append(str(place))
    for (across, down), numbers in named.items():
        off = (across * _APART - box.left, down * _APART - 11 - box.top)
        corner = (chart.x.low, y.high)
        marks.append(Text(at=corner, off=off, text=", ".join(numbers), ink="strong halo", anchor="middle"))
    return replace(chart, panels=[Panel(y=y, marks=marks)])


def _keys(summary: SweepSummary, width: float) -> list[Key]:
    texts = (shortened(f"{place} {setting.setting}", width - 100) for place, setting in enumerate(summary.settings, 1))
    return [Key(text, f"f-{ink}") for text, ink in zip(texts, cycle(_INKS), strict=False)]


def _point(setting: SettingSummary, ink: str) -> tuple[Mark, Mark]:
    """The mean of a setting, and a line from its lowest seed to its highest."""
    title = f"{setting.setting}: {figure(setting.value)}, {figure(setting.other)}"
    spread = Line(x=(setting.low, setting.high), y=(setting.other, setting.other), ink=f"curve s-{ink}", title=title)
    at = [(setting.value, setting.other)]
    return spread, Points(at=at, shape=SHAPES["p50"], ink=f"f-{ink} point", title=title)


def regret_chart(summary: SweepSummary, view: ChartView) -> Chart:
    """A row for each setting, a dot for each stack: how far it is above the best setting of that stack."""
    rows = above_best(summary)
    high = _ROW * max(1, len(rows))
    ticks = ranged_ticks([0.0, *(share for shares in rows.values() for share in shares)], count=3 if view.small else 7)
    x = _across(ticks, "per cent above the stack's best")
    marks: list[Mark] = [Line(x=(x.low, x.high), y=(high, high), ink="axis")]
    for place, (setting, ink) in enumerate(zip(rows, cycle(_INKS), strict=False)):
        y = (place + 0.66) * _ROW
        name = shortened(f"{place + 1} {setting}", (view.width - 2 * _MARGIN) * _BOLD)
        marks.append(Line(x=(x.low, x.high), y=(y, y), ink="grid"))
        marks.append(Text(at=(x.low, y), off=(0, -15), text=name, ink="strong"))
        marks += [Points(at=[(share, y)], shape=_DOT, ink=f"f-{ink} edge", opacity=0.8) for share in rows[setting]]
    return Chart(
        title="Every setting above the best of each stack",
        desc=f"Dots: {len(summary.stacks)} stacks in {len(rows)} rows.",
        height=OVER + high + _UNDER,
        x=x,
        left=_MARGIN,
        right=_MARGIN,
        under=_UNDER,
        has_crosshair=False,
        panels=[Panel(y=Axis(low=high, high=0.0), marks=marks)],  # pixels from the top
    )


def above_best(summary: SweepSummary) -> dict[str, list[float]]:
    """Return by setting: per cent above the best of each stack where the setting meets the conditions."""
    shares: dict[str, list[float]] = {setting.setting: [] for setting in summary.settings}
    for stack in summary.stacks:
        best = None if stack.best is None else stack.cells[stack.best].value
        for setting, cell in stack.cells.items():
            if best and cell.meets and setting in shares:
                shares[setting].append(100 * (cell.value / best - 1))
    return shares


def _across(ticks: Sequence[float], unit: str) -> Axis:
    """The labels at both ends stay inside the panel."""
    anchors = ["start", *["middle"] * (len(ticks) - 2), "end"]
    labels = [Tick(tick, figure(tick), anchor=anchor) for tick, anchor in zip(ticks, anchors, strict=True)]
    return replace(axis_with(ticks, unit), ticks=labels, lines=ticks)
