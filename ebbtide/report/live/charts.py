"""Panels over time with gaps: areas, one on the other or one before the other, and lines. Pure.

A value holds for its step; a step without one stays free, and is shaded where nothing was recorded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.report.charts import svg
from ebbtide.report.charts.hover import Hover, HoverRow
from ebbtide.report.charts.palette import group_inks
from ebbtide.report.charts.scales import Box, local_label, nice_ticks
from ebbtide.report.charts.svg import ChartView, Key, step_path
from ebbtide.report.live.record import Band, Record, Values, gaps_of, numbers_of

MOST = 7  # bands of a chart, as many as there are inks
_FINE = 10_000  # places of the crosshair are whole ten-thousandths of the plot's width
_BETWEEN = 38.0  # from one panel to the next
_PANEL = 210.0


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    ink: str
    values: Values
    is_line: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Curves are painted in their order; those of a stack, the highest sum first."""

    unit: str
    curves: Sequence[Curve]
    money: bool = False
    integers: bool = True  # countable things


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveChart:
    """`shown` are the values as named in legend, table and crosshair; `panels` how they are drawn."""

    title: str
    start: datetime
    step: float
    open_spans: tuple[tuple[float, float], ...]
    recorded: tuple[bool, ...]
    panels: Sequence[Panel]
    shown: Sequence[Curve]

    @property
    def horizon(self) -> float:
        return self.step * len(self.recorded)

    @property
    def gaps(self) -> tuple[tuple[float, float], ...]:
        return gaps_of(self.recorded, self.step)


def chart_of(record: Record, title: str, band: Band, panels: Sequence[Panel], shown: Sequence[Curve]) -> LiveChart:
    """Build a chart; `band` has the recorded steps."""
    return LiveChart(
        title=title,
        start=record.start,
        step=record.step,
        open_spans=record.open_spans,
        recorded=band.recorded,
        panels=panels,
        shown=shown,
    )


def stacked(band: Band, names: Mapping[str, str] | None = None) -> tuple[list[Curve], list[Curve]]:
    """Return the areas to paint, each with the sum of those below, and the curves by name."""
    band = band.fewer(MOST)
    inks = group_inks(band.values)
    shown = [Curve((names or {}).get(name, name), ink, band.values[name]) for name, ink in inks.items()]
    painted: list[Curve] = []
    below: Values = tuple(0.0 if is_recorded else None for is_recorded in band.recorded)
    for curve in shown:
        below = tuple(
            None if sum_ is None else sum_ + (value or 0.0) for sum_, value in zip(below, curve.values, strict=True)
        )
        painted.insert(0, Curve(curve.name, curve.ink, below))
    return painted, shown


def height_of(chart: LiveChart) -> float:
    return 100.0 + _PANEL * len(chart.panels)


def draw(chart: LiveChart, view: ChartView) -> str:
    keys = [Key(curve.name, f"f-{curve.ink}") for curve in chart.shown]
    keys += [Key("business hours", "open")] if chart.open_spans else []
    keys += [Key("not recorded", "gap")] if chart.gaps else []
    outer = view.box(keys)
    pitch = (outer.height + _BETWEEN) / len(chart.panels)
    content = [svg.legend(keys, left=view.left, top=0, width=view.width - view.left)]
    for place, panel in enumerate(chart.panels):
        box = Box(left=outer.left, top=outer.top + place * pitch, width=outer.width, height=pitch - _BETWEEN)
        highest = max((value for curve in panel.curves for value in numbers_of(curve.values)), default=0.0)
        ticks = nice_ticks(highest if panel.integers else highest * 1.04, count=4, integers=panel.integers)
        content += [
            svg.shade(chart.open_spans, box, chart.horizon, ink="open"),
            svg.shade(chart.gaps, box, chart.horizon, ink="gap"),
            svg.time_lines(chart.start, box, chart.horizon),
            svg.value_axis(ticks, box, unit=panel.unit, money=panel.money),
            *(_curve(curve, box, top=ticks[-1]) for curve in panel.curves),
        ]
    content.append(svg.time_labels(chart.start, outer, chart.horizon))
    names = ", ".join(curve.name for curve in chart.shown) or "nothing"
    return svg.picture(
        content,
        ident=view.ident,
        title=chart.title,
        desc=f"{names} over time, business hours shaded. What was not recorded is left free.",
        size=view.size,
        box=outer,
    )


def _curve(curve: Curve, box: Box, *, top: float) -> str:
    path = step_path(curve.values, box, top=top, closed=not curve.is_line)
    if not path:
        return ""
    return svg.element("path", d=path, class_=f"curve s-{curve.ink}" if curve.is_line else f"f-{curve.ink}")


def hover(chart: LiveChart) -> Hover:
    places = [round((place + 0.5) / len(chart.recorded) * _FINE) for place in range(len(chart.recorded))]
    money = chart.panels[0].money
    rows = [
        HoverRow(curve.name, curve.ink, [value_text(value, money=money) for value in curve.values])
        for curve in reversed(chart.shown)
    ]
    return Hover(places, [local_label(chart.start, place * chart.step) for place in range(len(chart.recorded))], rows)


def value_text(value: float | None, *, money: bool = False) -> str:
    """Format a value with one decimal below 100, none above."""
    if value is None:
        return "not recorded"
    text = f"{value:,.2f}" if money else f"{value:,.1f}".removesuffix(".0") if abs(value) < 99.95 else f"{value:,.0f}"
    return f"${text}" if money else text
