"""Panels over time with gaps: areas, stacked or overlapping, and lines. Pure.

A value holds for its step; a step without a value stays blank, and is shaded where nothing was recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.lab.report.charts.axes import dollar_text, tick_text, time_axis, value_axis
from ebbtide.lab.report.charts.hover import Hover, HoverRow, middles
from ebbtide.lab.report.charts.palette import group_inks
from ebbtide.lab.report.charts.panel import Chart, ChartView, Curve, Key, Panel, runs_of, shades_of, sums_from_below
from ebbtide.lab.report.charts.scales import local_label
from ebbtide.lab.report.live.record import Band, Record, Values, gaps_of, numbers_of

MOST = 7  # bands of a chart, as many as there are inks
_PANEL = 210.0


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    ink: str
    values: Values
    is_line: bool = False


def panel_of(unit: str, series: Sequence[Series], step: float, *, money: bool = False, integers: bool = True) -> Panel:
    """Series are painted in their order; a stack begins with its highest sum. `integers` for countable things."""
    highest = max((value for each in series for value in numbers_of(each.values)), default=0.0)
    return Panel(
        y=value_axis(
            highest if integers else highest * 1.04,
            unit,
            count=4,
            integers=integers,
            text=dollar_text if money else tick_text,
        ),
        marks=[
            Curve(runs=runs_of(each.values, step), ink=f"{'curve s' if each.is_line else 'f'}-{each.ink}")
            for each in series
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveChart:
    """`shown` are the values as named in legend, table and crosshair; `panels` how they are drawn."""

    title: str
    start: datetime
    step: float
    open_spans: tuple[tuple[float, float], ...]
    recorded: tuple[bool, ...]
    panels: Sequence[Panel]
    shown: Sequence[Series]
    money: bool = False

    @property
    def horizon(self) -> float:
        return self.step * len(self.recorded)

    @property
    def gaps(self) -> tuple[tuple[float, float], ...]:
        return gaps_of(self.recorded, self.step)


def chart_of(
    record: Record, title: str, recorded: tuple[bool, ...], panels: Sequence[Panel], shown: Sequence[Series]
) -> LiveChart:
    return LiveChart(
        title=title,
        start=record.start,
        step=record.step,
        open_spans=record.open_spans,
        recorded=recorded,
        panels=panels,
        shown=shown,
    )


def stacked(band: Band) -> tuple[list[Series], list[Series]]:
    """Return the areas to paint, each with the sum of those below, and the values by name."""
    band = band.fewer(MOST)
    inks = group_inks(band.values)
    shown = [Series(name, ink, band.values[name]) for name, ink in inks.items()]
    sums = sums_from_below([[value or 0.0 for value in series.values] for series in shown])
    painted = [
        Series(series.name, series.ink, _where(band.recorded, values))
        for series, values in zip(reversed(shown), sums, strict=True)
    ]
    return painted, shown


def _where(recorded: Sequence[bool], values: Sequence[float]) -> Values:
    return tuple(value if is_recorded else None for value, is_recorded in zip(values, recorded, strict=True))


def live_chart(chart: LiveChart, view: ChartView) -> Chart:
    keys = [Key(series.name, f"f-{series.ink}") for series in chart.shown]
    keys += [Key("business hours", "open")] if chart.open_spans else []
    keys += [Key("not recorded", "gap")] if chart.gaps else []
    names = ", ".join(series.name for series in chart.shown) or "nothing"
    return Chart(
        title=chart.title,
        desc=f"{names} over time, business hours shaded. What was not recorded is left blank.",
        height=view.high(100.0 + _PANEL * len(chart.panels)),
        keys=keys,
        x=time_axis(chart.start, chart.horizon, view.plot_width),
        shades=shades_of(chart.open_spans, chart.gaps),
        panels=chart.panels,
    )


def hover(chart: LiveChart) -> Hover:
    rows = [
        HoverRow(series.name, series.ink, [value_text(value, money=chart.money) for value in series.values])
        for series in reversed(chart.shown)
    ]
    steps = len(chart.recorded)
    return Hover(middles(steps), [local_label(chart.start, place * chart.step) for place in range(steps)], rows)


def value_text(value: float | None, *, money: bool = False) -> str:
    """Format a value with one decimal below 100, none above."""
    if value is None:
        return "not recorded"
    text = f"{value:,.2f}" if money else f"{value:,.1f}".removesuffix(".0") if abs(value) < 99.95 else f"{value:,.0f}"
    return f"${text}" if money else text
