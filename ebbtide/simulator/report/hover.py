"""What the crosshair says: exact values at instants that the picture shows.

For each column the instant of the series' largest sum in it, so that pointing at a peak names the peak; a column
without a change gives its own start.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ebbtide.simulator.report.charts import cost_days
from ebbtide.simulator.report.palette import group_inks, strategy_inks
from ebbtide.simulator.report.scales import horizon_of, local_label, total_nodes
from ebbtide.simulator.report.thinning import column_slices
from ebbtide.simulator.report.words import dollars
from ebbtide.simulator.results import Replay

_COLUMNS = 700
_FINE = 10_000  # places are whole ten-thousandths of the plot's width


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    ink: str
    values: Sequence[int | str]


@dataclass(frozen=True, slots=True)
class Hover:
    """`places` ascend; `labels` and every row's values have one entry for each."""

    places: Sequence[int]
    labels: Sequence[str]
    rows: Sequence[Row]

    def document(self) -> dict[str, Any]:
        return asdict(self)


def nodes_hover(replay: Replay, strategy: str) -> Hover:
    series = replay.strategies[strategy].series
    inks = group_inks(series.nodes)
    totals = total_nodes(series)
    instants = _instants(series.at, totals, horizon_of(replay))
    rows = [Row(name, ink, values_at(series.at, series.nodes[name], instants)) for name, ink in reversed(inks.items())]
    return _over_time(replay, instants, [*rows, Row("all nodes", "", values_at(series.at, totals, instants))])


def jobs_hover(replay: Replay, strategy: str) -> Hover:
    series = replay.strategies[strategy].series
    both = [waiting + running for waiting, running in zip(series.waiting, series.running, strict=True)]
    instants = _instants(series.at, both, horizon_of(replay))
    rows = [("running", "g1", series.running), ("waiting", "g3", series.waiting)]
    return _over_time(
        replay, instants, [Row(name, ink, values_at(series.at, values, instants)) for name, ink, values in rows]
    )


def strip_hover(replay: Replay) -> Hover:
    inks = strategy_inks(replay.strategies)
    horizon = horizon_of(replay)
    instants = [horizon * column / _COLUMNS for column in range(_COLUMNS)]
    rows: list[Row] = []
    for name, ink in inks.items():
        series = replay.strategies[name].series
        rows.append(Row(name, ink, values_at(series.at, total_nodes(series), instants)))
    return _over_time(replay, instants, rows)


def cost_hover(replay: Replay) -> Hover:
    days = cost_days(replay)
    rows: list[Row] = []
    for name, ink in strategy_inks(replay.strategies).items():
        paid = replay.strategies[name].usd_per_day
        rows.append(Row(name, ink, [dollars(paid[i]) if i < len(paid) else "" for i in range(len(days))]))
    places = [round((place + 0.5) / len(days) * _FINE) for place in range(len(days))]
    return Hover(places, [f"{day.weekday} {day.date}" for day in days], rows)


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


def _over_time(replay: Replay, instants: Sequence[float], rows: Sequence[Row]) -> Hover:
    horizon = horizon_of(replay)
    places = [round(max(0.0, instant) / horizon * _FINE) for instant in instants]
    return Hover(places, [local_label(replay.start, instant) for instant in instants], rows)


def documents(replay: Replay, strategy: str) -> Mapping[str, dict[str, Any]]:
    """What each figure of the page can say, by the figure's name."""
    return {
        "nodes": nodes_hover(replay, strategy).document(),
        "jobs": jobs_hover(replay, strategy).document(),
        "cost": cost_hover(replay).document(),
        "strip": strip_hover(replay).document(),
    }
