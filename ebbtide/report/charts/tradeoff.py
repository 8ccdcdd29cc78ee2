"""A sweep's settings: what each costs against what it gives, and how far each is above every stack's own best."""

from collections.abc import Sequence
from itertools import cycle
from math import isfinite

from ebbtide.report.charts import axes, svg
from ebbtide.report.charts.axes import ChartView, Key
from ebbtide.report.charts.scales import Box, ranged_ticks
from ebbtide.sweep.summary import SettingSummary, SweepSummary
from ebbtide.sweep.table import figure

_INKS = ("k3", "k1", "k5", "k4", "k2", "k7", "k8", "k6")
_ROW = 54.0
_DOT = 4.0
_BOLD = 0.85  # of the room for letters that are not
_APART = 8.0  # pixels: points that are closer have one label


def tradeoff_height(summary: SweepSummary, width: float) -> float:
    return 340.0 + axes.legend_height(_keys(summary, width), width)


def tradeoff_chart(summary: SweepSummary, view: ChartView) -> str:
    """A point for each setting, the mean over all stacks; the line through it goes from seed to seed."""
    keys = _keys(summary, view.width)
    box = view.box(keys)
    shown = [each for each in summary.settings if isfinite(each.value) and isfinite(each.other)]
    across = ranged_ticks([edge for each in shown for edge in (each.low, each.high)], wanted=3 if view.small else 6)
    upward = ranged_ticks([each.other for each in shown])
    content = [axes.legend(keys, left=view.left, top=0, width=view.width - view.left)]
    content.append(_upward(upward, box, summary.against))
    content.append(_across(across, box, summary.objective.figure))
    named: dict[tuple[int, int], list[str]] = {}
    for place, (each, ink) in enumerate(zip(summary.settings, cycle(_INKS), strict=False), 1):
        if each in shown:
            low, x, high = (_x(value, across, box) for value in (each.low, each.value, each.high))
            y = _y(each.other, upward, box)
            content.append(_point(each, ink, (low, x, high), y))
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
    texts = (svg.shortened(f"{place} {each.setting}", width - 100) for place, each in enumerate(summary.settings, 1))
    return [Key(text, f"f-{ink}") for text, ink in zip(texts, cycle(_INKS), strict=False)]


def _point(each: SettingSummary, ink: str, x: tuple[float, float, float], y: float) -> str:
    """`x`: of the lowest seed, the mean and the highest."""
    low, middle, high = x
    spread = svg.line(low, y, high, y, class_=f"curve s-{ink}")
    told = svg.words("title", f"{each.setting}: {figure(each.value)}, {figure(each.other)}")
    return svg.element("g", told + spread + axes.mark("p50", middle, y, ink=ink))


def regret_height(summary: SweepSummary) -> float:
    return axes.OVER + _ROW * max(1, len(summary.settings)) + 40.0


def regret_chart(summary: SweepSummary, view: ChartView) -> str:
    """A row for each setting, a dot for each stack: how far it is above the best setting of that stack."""
    rows = above_best(summary)
    box = Box(left=14.0, top=axes.OVER, width=view.width - 28.0, height=_ROW * max(1, len(rows)))
    ticks = ranged_ticks([0.0, *(share for shares in rows.values() for share in shares)], wanted=3 if view.small else 7)
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
    """By setting: per cent above its own best of each stack where the setting meets the conditions."""
    found: dict[str, list[float]] = {each.setting: [] for each in summary.settings}
    for stack in summary.stacks:
        best = None if stack.best is None else stack.cells[stack.best].value
        for setting, cell in stack.cells.items():
            if best and cell.meets and setting in found:
                found[setting].append(100 * (cell.value / best - 1))
    return found


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
