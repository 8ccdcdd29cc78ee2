"""Exact values for the crosshair, at instants that the picture shows.

Each column has the instant of the series' largest sum in it, so that pointing at a peak shows the peak; a column
without a change has its start.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ebbtide.lab.report.charts.by_strategy import cost_days, cost_strategies
from ebbtide.lab.report.charts.over_time import drawn_strategies
from ebbtide.lab.report.charts.palette import group_inks, job_inks, strategy_inks
from ebbtide.lab.report.charts.scales import (
    ChartWindow,
    busiest_day,
    column_slices,
    cut,
    horizon_of,
    local_label,
    stretch_of,
    total_nodes,
)
from ebbtide.lab.simulator.results import Replay
from ebbtide.text.money import dollars

_COLUMNS = 700
_FINE = 10_000  # places are whole ten-thousandths of the plot's width


@dataclass(frozen=True, slots=True)
class HoverRow:
    name: str
    ink: str
    values: Sequence[int | str]


@dataclass(frozen=True, slots=True)
class Hover:
    """`places` ascend; `labels` and every row's values have one entry for each."""

    places: Sequence[int]
    labels: Sequence[str]
    rows: Sequence[HoverRow]

    def document(self) -> dict[str, Any]:
        return asdict(self)


def middles(steps: int) -> list[int]:
    """The middle of each of so many equal steps."""
    return [round((step + 0.5) / steps * _FINE) for step in range(steps)]


def nodes_hover(replay: Replay, strategy: str) -> Hover:
    stretch = stretch_of(replay, strategy)
    totals = total_nodes(stretch.series)
    instants = _instants(stretch.series.at, totals, stretch.horizon)
    total = HoverRow("total nodes", "", values_at(stretch.series.at, totals, instants))
    return _over_time(stretch, instants, [*_group_rows(stretch, instants), total])


def day_hover(replay: Replay, strategy: str) -> Hover:
    """Nodes and jobs at the same instants of one day."""
    long = stretch_of(replay, strategy)
    day = busiest_day(long)
    stretch = cut(long, day)
    instants = _instants(stretch.series.at, total_nodes(stretch.series), stretch.horizon)
    jobs = _job_rows(stretch, instants, job_inks(stretch.series.nodes))
    return _over_time(stretch, instants, [*_group_rows(stretch, instants), *jobs])


def jobs_hover(replay: Replay, strategy: str) -> Hover:
    stretch = stretch_of(replay, strategy)
    series = stretch.series
    both = [waiting + running for waiting, running in zip(series.waiting, series.running, strict=True)]
    instants = _instants(series.at, both, stretch.horizon)
    return _over_time(stretch, instants, _job_rows(stretch, instants, {"running": "g1", "waiting": "g3"}))


def _group_rows(stretch: ChartWindow, instants: Sequence[float]) -> list[HoverRow]:
    series = stretch.series
    inks = group_inks(series.nodes)
    return [
        HoverRow(name, ink, values_at(series.at, series.nodes[name], instants)) for name, ink in reversed(inks.items())
    ]


def _job_rows(stretch: ChartWindow, instants: Sequence[float], inks: Mapping[str, str]) -> list[HoverRow]:
    """Running jobs under the first name, waiting ones under the second."""
    both = (stretch.series.running, stretch.series.waiting)
    return [
        HoverRow(name, ink, values_at(stretch.series.at, values, instants))
        for (name, ink), values in zip(inks.items(), both, strict=True)
    ]


def strip_hover(replay: Replay) -> Hover:
    inks = strategy_inks(replay.strategies)
    stretches = {name: stretch_of(replay, name) for name in drawn_strategies(replay)}
    horizon = horizon_of(replay)
    instants = [horizon * column / _COLUMNS for column in range(_COLUMNS)]
    rows = [
        HoverRow(name, inks[name], values_at(stretch.series.at, total_nodes(stretch.series), instants))
        for name, stretch in stretches.items()
    ]
    places = [round(column / _COLUMNS * _FINE) for column in range(_COLUMNS)]
    return Hover(places, [local_label(replay.start, instant) for instant in instants], rows)


def cost_hover(replay: Replay) -> Hover:
    days = cost_days(replay)
    inks = strategy_inks(replay.strategies)
    rows: list[HoverRow] = []
    for name in cost_strategies(replay):
        paid = replay.strategies[name].usd_per_day
        rows.append(HoverRow(name, inks[name], [dollars(paid[i]) if i < len(paid) else "" for i in range(len(days))]))
    return Hover(middles(len(days)), [f"{day.weekday} {day.date}" for day in days], rows)


def values_at(at: Sequence[float], values: Sequence[int], instants: Sequence[float]) -> list[int]:
    """The value that holds at each instant; 0 before the first sample."""
    held = [bisect_right(at, instant) - 1 for instant in instants]
    return [values[index] if index >= 0 else 0 for index in held]


def _instants(at: Sequence[float], weights: Sequence[int], horizon: float) -> list[float]:
    instants: list[float] = []
    for column, (begin, stop) in enumerate(column_slices(at, end=horizon, columns=_COLUMNS)):
        if begin == stop:
            instants.append(horizon * column / _COLUMNS)
        else:
            instants.append(at[max(range(begin, stop), key=weights.__getitem__)])
    return instants


def _over_time(stretch: ChartWindow, instants: Sequence[float], rows: Sequence[HoverRow]) -> Hover:
    places = [round(max(0.0, instant) / stretch.horizon * _FINE) for instant in instants]
    return Hover(places, [local_label(stretch.start, instant) for instant in instants], rows)


def documents(replay: Replay, strategy: str) -> Mapping[str, dict[str, Any]]:
    """Return the crosshair's values by the figure's name."""
    return {
        "nodes": nodes_hover(replay, strategy).document(),
        "strip": strip_hover(replay).document(),
        "cost": cost_hover(replay).document(),
        "jobs": jobs_hover(replay, strategy).document(),
        "day": day_hover(replay, strategy).document(),
    }


def night_documents(replay: Replay, strategy: str) -> Mapping[str, dict[str, Any]]:
    """Return the crosshair's values of the charts of a replay without jobs."""
    return {"nodes": nodes_hover(replay, strategy).document(), "strip": strip_hover(replay).document()}
