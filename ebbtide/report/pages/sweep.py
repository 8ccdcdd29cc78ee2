"""The page of a sweep: the trade-off, what one setting for all costs each stack, and every figure as a table."""

from collections.abc import Sequence
from itertools import cycle
from math import isfinite

from ebbtide.report.charts import svg
from ebbtide.report.charts.scales import Box, ranged_ticks
from ebbtide.report.charts.svg import ChartView, Key
from ebbtide.report.pages.figures import Figure, FigurePlan, figure_of
from ebbtide.report.pages.sheets import Sheet, SheetRow
from ebbtide.report.pages.template import rendered
from ebbtide.report.words import DASH, percent, several
from ebbtide.sweep.summary import SettingSummary, SweepSummary, notes_of
from ebbtide.sweep.table import figure, regrets, spread_of

_INKS = ("k3", "k1", "k5", "k4", "k2", "k7", "k8", "k6")
_ROW = 54.0
_DOT = 4.0
_BOLD = 0.85  # of the room for letters that are not
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
        draw=lambda view: tradeoff_chart(summary, view),
        height=lambda width: tradeoff_height(summary, width),
    )
    regret = FigurePlan(
        heading="One setting for all",
        note="Each dot is a stack where the setting meets the conditions: how far it is above the best one there.",
        draw=lambda view: regret_chart(summary, view),
        height=lambda _: regret_height(summary),
    )
    return [
        figure_of("tradeoff", tradeoff, _settings_sheet(summary)),
        figure_of("regret", regret, _regret_sheet(summary)),
    ]


def _settings_sheet(summary: SweepSummary) -> Sheet:
    return Sheet(
        caption="Settings over all stacks",
        over="setting",
        columns=[summary.objective.figure, summary.against, "meets the conditions"],
        rows=[
            SheetRow(setting.setting, [spread_of(setting), figure(setting.other), several(setting.meets, "stack")])
            for setting in summary.settings
        ],
    )


def _stacks_sheet(summary: SweepSummary) -> Sheet:
    """List the stacks, the greatest regret first."""
    ordered = sorted(summary.stacks, key=lambda stack: (-(stack.regret or 0.0), stack.customer))
    rows: list[SheetRow] = []
    for stack in ordered:
        cell = None if stack.best is None else stack.cells[stack.best]
        values = [DASH, DASH] if cell is None else [spread_of(cell), figure(cell.other)]
        regret = DASH if stack.regret is None else figure(stack.regret)
        rows.append(SheetRow(stack.customer, [stack.best or "none", *values, regret, percent(stack.coverage)]))
    return Sheet(
        caption="The best setting of each stack",
        over="stack",
        columns=["best setting", summary.objective.figure, summary.against, "regret of one for all", "jobs covered"],
        rows=rows,
    )


def _regret_sheet(summary: SweepSummary) -> Sheet:
    return Sheet(
        caption="Per cent above each stack's best",
        over="setting",
        columns=["stacks", "mean", "most"],
        rows=[
            SheetRow(
                setting,
                [
                    str(len(shares)),
                    *((f"{sum(shares) / len(shares):.2f}", f"{max(shares):.2f}") if shares else (DASH, DASH)),
                ],
            )
            for setting, shares in above_best(summary).items()
        ],
    )


def tradeoff_height(summary: SweepSummary, width: float) -> float:
    return 340.0 + svg.legend_height(_keys(summary, width), width)


def tradeoff_chart(summary: SweepSummary, view: ChartView) -> str:
    """A point for each setting, the mean over all stacks; the line through it goes from seed to seed."""
    keys = _keys(summary, view.width)
    box = view.box(keys)
    shown = [setting for setting in summary.settings if isfinite(setting.value) and isfinite(setting.other)]
    across = ranged_ticks(
        [edge for setting in shown for edge in (setting.low, setting.high)], count=3 if view.small else 6
    )
    upward = ranged_ticks([setting.other for setting in shown])
    content = [svg.legend(keys, left=view.left, top=0, width=view.width - view.left)]
    content.append(_upward(upward, box, summary.against))
    content.append(_across(across, box, summary.objective.figure))
    named: dict[tuple[int, int], list[str]] = {}
    for place, (setting, ink) in enumerate(zip(summary.settings, cycle(_INKS), strict=False), 1):
        if setting in shown:
            low, x, high = (_x(value, across, box) for value in (setting.low, setting.value, setting.high))
            y = _y(setting.other, upward, box)
            content.append(_point(setting, ink, (low, x, high), y))
            named.setdefault((round(x / _APART), round(y / _APART)), []).append(str(place))
    for (x, y), numbers in named.items():
        text = ", ".join(numbers)
        content.append(svg.label(text, x * _APART, y * _APART - 11, class_="strong halo", anchor="middle"))
    return svg.picture(
        content,
        ident=view.ident,
        title=f"{summary.objective.figure} against {summary.against}, by setting",
        desc=f"Points: {len(shown)} settings, each the mean over all stacks, traces and seeds.",
        size=view.size,
    )


def _keys(summary: SweepSummary, width: float) -> list[Key]:
    texts = (
        svg.shortened(f"{place} {setting.setting}", width - 100) for place, setting in enumerate(summary.settings, 1)
    )
    return [Key(text, f"f-{ink}") for text, ink in zip(texts, cycle(_INKS), strict=False)]


def _point(setting: SettingSummary, ink: str, x: tuple[float, float, float], y: float) -> str:
    """Draw a setting; `x` are the positions of its lowest seed, its mean and its highest seed."""
    low, middle, high = x
    spread = svg.line(low, y, high, y, class_=f"curve s-{ink}")
    tooltip = svg.words("title", f"{setting.setting}: {figure(setting.value)}, {figure(setting.other)}")
    return svg.element("g", tooltip + spread + svg.mark("p50", middle, y, ink=ink))


def regret_height(summary: SweepSummary) -> float:
    return svg.OVER + _ROW * max(1, len(summary.settings)) + 40.0


def regret_chart(summary: SweepSummary, view: ChartView) -> str:
    """A row for each setting, a dot for each stack: how far it is above the best setting of that stack."""
    rows = above_best(summary)
    box = Box(left=14.0, top=svg.OVER, width=view.width - 28.0, height=_ROW * max(1, len(rows)))
    ticks = ranged_ticks([0.0, *(share for shares in rows.values() for share in shares)], count=3 if view.small else 7)
    content = [_across(ticks, box, "per cent above the stack's best")]
    for place, (shares, ink) in enumerate(zip(rows.values(), cycle(_INKS), strict=False)):
        y = box.top + (place + 0.66) * _ROW
        setting = list(rows)[place]
        content.append(svg.line(box.left, y, box.right, y, class_="grid"))
        content.append(
            svg.label(svg.shortened(f"{place + 1} {setting}", box.width * _BOLD), box.left, y - 15, class_="strong")
        )
        content += [
            svg.element("circle", cx=_x(share, ticks, box), cy=y, r=_DOT, class_=f"f-{ink} edge", fill_opacity=str(0.8))
            for share in shares
        ]
    return svg.picture(
        content,
        ident=view.ident,
        title="Every setting above the best of each stack",
        desc=f"Dots: {len(summary.stacks)} stacks in {len(rows)} rows.",
        size=view.size,
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


def _across(ticks: Sequence[float], box: Box, unit: str) -> str:
    parts = [svg.label(unit, box.right, box.bottom + 37, class_="strong", anchor="end")]
    for place, tick in enumerate(ticks):
        x = _x(tick, ticks, box)
        anchor = "start" if place == 0 else "end" if place == len(ticks) - 1 else "middle"
        parts.append(svg.line(x, box.top, x, box.bottom, class_="grid"))
        parts.append(svg.label(figure(tick), x, box.bottom + 19, anchor=anchor))
    return "".join([*parts, svg.line(box.left, box.bottom, box.right, box.bottom, class_="axis")])


def _upward(ticks: Sequence[float], box: Box, unit: str) -> str:
    parts = [svg.label(unit, box.left, box.top - 10, class_="strong")]
    for tick in ticks:
        y = _y(tick, ticks, box)
        parts.append(svg.line(box.left, y, box.right, y, class_="grid"))
        parts.append(svg.label(figure(tick), box.left - 8, y + 4, anchor="end"))
    return "".join(parts)


def _x(value: float, ticks: Sequence[float], box: Box) -> float:
    return box.left + box.width * (value - ticks[0]) / (ticks[-1] - ticks[0])


def _y(value: float, ticks: Sequence[float], box: Box) -> float:
    return box.bottom - box.height * (value - ticks[0]) / (ticks[-1] - ticks[0])
