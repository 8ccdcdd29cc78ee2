"""The figures behind each chart, as rows of words: what a reader without sight or colour needs, and who wants to copy.

A chart over days has one row for each local day, one over a single day one row for each hour.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.report.charts.by_strategy import cost_days, cost_strategies, percentiles, retained_reasons
from ebbtide.report.charts.over_time import drawn_strategies
from ebbtide.report.charts.palette import group_inks, strategy_inks
from ebbtide.report.charts.scales import (
    Day,
    Stretch,
    amounts_of,
    busiest_day,
    cut,
    local_label,
    peaks_of,
    stretch_of,
    total_nodes,
)
from ebbtide.report.words import DASH, count, dollars, duration, percent
from ebbtide.simulator.results import Replay
from ebbtide.units.durations import HOUR_S as _HOUR

_QUANTILES = (0.1, 0.25, 0.75, 0.9, 1.0)  # in the table besides p50, p95 and p99

Spans = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class SheetRow:
    name: str
    cells: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Each row has one cell for each of `columns`."""

    caption: str
    over: str  # what the rows are
    columns: Sequence[str]
    rows: Sequence[SheetRow]
    total: SheetRow | None = None


def nodes_sheet(replay: Replay, strategy: str) -> Sheet:
    stretch = stretch_of(replay, strategy)
    spans = _spans(stretch.days)
    series, groups = stretch.series, list(group_inks(stretch.series.nodes))
    hours = {group: _hours(amounts_of(series.at, series.nodes[group], spans)) for group in groups}
    totals = total_nodes(series)
    all_hours, peaks = _hours(amounts_of(series.at, totals, spans)), peaks_of(series.at, totals, spans)
    columns = [*hours.values(), all_hours]
    return Sheet(
        caption=f"Node-hours of each local day by group, and the peak number of nodes, under {strategy}",
        over="day",
        columns=[*groups, "total node-hours", "peak nodes"],
        rows=[
            SheetRow(_named(day), [*(count(column[place]) for column in columns), f"{peaks[place]:,}"])
            for place, day in enumerate(stretch.days)
        ],
        total=SheetRow("total", [*(count(sum(column)) for column in columns), f"{max(peaks, default=0):,}"]),
    )


def jobs_sheet(replay: Replay, strategy: str) -> Sheet:
    stretch = stretch_of(replay, strategy)
    return Sheet(
        caption=f"Jobs running and waiting on each local day under {strategy}",
        over="day",
        columns=["mean running", "peak running", "mean waiting", "peak waiting"],
        rows=_job_rows(stretch, _spans(stretch.days), [_named(day) for day in stretch.days]),
    )


def day_sheet(replay: Replay, strategy: str) -> Sheet:
    long = stretch_of(replay, strategy)
    day = busiest_day(long)
    stretch = cut(long, day)
    spans = _hourly(stretch.horizon)
    series, groups = stretch.series, list(group_inks(stretch.series.nodes))
    peaks = [peaks_of(series.at, series.nodes[group], spans) for group in groups]
    peaks += [peaks_of(series.at, values, spans) for values in (series.running, series.waiting)]
    return Sheet(
        caption=f"Each hour of {_named(day)}: the peak numbers of nodes by group, of jobs "
        f"running and of jobs waiting, under {strategy}",
        over="hour from",
        columns=[*groups, "jobs running", "jobs waiting"],
        rows=[
            SheetRow(_clock(stretch, begin), [f"{column[place]:,}" for column in peaks])
            for place, (begin, _) in enumerate(spans)
        ],
    )


def cost_sheet(replay: Replay) -> Sheet:
    names = cost_strategies(replay)
    paid = {name: replay.strategies[name].usd_per_day for name in names}
    return Sheet(
        caption="US dollars of each local day by strategy",
        over="day",
        columns=names,
        rows=[
            SheetRow(_named(day), [_at(paid[name], place) for name in names])
            for place, day in enumerate(cost_days(replay))
        ],
        total=SheetRow("total", [dollars(sum(paid[name])) for name in names]),
    )


def strip_sheet(replay: Replay) -> Sheet:
    """Node-hours by group as billed, unlike those of a day, which are read off the series."""
    names = list(strategy_inks(replay.strategies))
    every = dict.fromkeys(group for name in names for group in replay.strategies[name].node_hours_by_group)
    groups = list(group_inks(every))
    peaks = {name: max(total_nodes(replay.strategies[name].series), default=0) for name in drawn_strategies(replay)}
    rows: list[SheetRow] = []
    for name in names:
        result = replay.strategies[name]
        by_group = [count(hours) if (hours := result.node_hours_by_group.get(group, 0)) else DASH for group in groups]
        most = f"{peaks[name]:,}" if name in peaks else DASH
        rows.append(SheetRow(name, [*by_group, count(result.node_hours), most]))
    return Sheet(
        caption="Node-hours by group and strategy, and the peak number of nodes",
        over="strategy",
        columns=[*groups, "total node-hours", "peak nodes"],
        rows=rows,
    )


def waits_sheet(replay: Replay) -> Sheet:
    """Percentiles, and further shares of the jobs where any strategy has its distribution."""
    results = {name: replay.strategies[name] for name in strategy_inks(replay.strategies)}
    shares = _QUANTILES if any(len(result.wait_quantiles_s) > 1 for result in results.values()) else ()
    rows: list[SheetRow] = []
    for name, result in results.items():
        waits = percentiles(result)
        cells = [duration(waits[which]) if which in waits else DASH for which in ("p50", "p95", "p99")]
        rows.append(SheetRow(name, [*cells, *(_quantile(result.wait_quantiles_s, share) for share in shares)]))
    return Sheet(
        caption="The longest wait of each share of the jobs, by strategy",
        over="strategy",
        columns=["50 % (p50)", "95 % (p95)", "99 % (p99)", *(percent(share) for share in shares)],
        rows=rows,
    )


def retained_sheet(replay: Replay) -> Sheet:
    names = [name for name in strategy_inks(replay.strategies) if replay.strategies[name].survivors]
    reasons_of = {name: retained_reasons(replay.strategies[name]) for name in names}
    reasons = dict.fromkeys(reason for by_reason in reasons_of.values() for reason in by_reason)
    return Sheet(
        caption="Node-hours in the disruption window by the reason the node was retained, by strategy",
        over="reason",
        columns=names,
        rows=[
            SheetRow(
                reason, [f"{reasons_of[name][reason]:,.1f}" if reason in reasons_of[name] else DASH for name in names]
            )
            for reason in reasons
        ],
        total=SheetRow("total", [f"{sum(reasons_of[name].values()):,.1f}" for name in names]),
    )


def _job_rows(stretch: Stretch, spans: Spans, names: Sequence[str]) -> list[SheetRow]:
    at, series = stretch.series.at, stretch.series
    cells: list[list[str]] = []
    for values in (series.running, series.waiting):
        means = [
            amount / (end - begin) for amount, (begin, end) in zip(amounts_of(at, values, spans), spans, strict=True)
        ]
        cells += [[f"{mean:,.1f}" for mean in means], [f"{peak:,}" for peak in peaks_of(at, values, spans)]]
    return [SheetRow(name, [column[place] for column in cells]) for place, name in enumerate(names)]


def _spans(days: Iterable[Day]) -> Spans:
    return [(day.begin, day.end) for day in days]


def _hourly(horizon: float) -> Spans:
    starts = [hour * _HOUR for hour in range(int((horizon - 1) // _HOUR) + 1)]
    return [(start, min(horizon, start + _HOUR)) for start in starts]


def _hours(amounts: Sequence[float]) -> list[float]:
    return [amount / _HOUR for amount in amounts]


def _named(day: Day) -> str:
    return f"{day.weekday} {day.date}"


def _clock(stretch: Stretch, seconds: float) -> str:
    return local_label(stretch.start, seconds).rpartition(" ")[2]


def _at(paid: Sequence[float], place: int) -> str:
    return dollars(paid[place]) if place < len(paid) else DASH


def _quantile(quantiles: Sequence[float], share: float) -> str:
    return duration(quantiles[round(share * (len(quantiles) - 1))]) if len(quantiles) > 1 else DASH


def sheets(replay: Replay, strategy: str) -> Mapping[str, Sheet]:
    """The table of each figure of the page, by the figure's name."""
    return {
        "nodes": nodes_sheet(replay, strategy),
        "strip": strip_sheet(replay),
        "cost": cost_sheet(replay),
        "waits": waits_sheet(replay),
        "jobs": jobs_sheet(replay, strategy),
        "day": day_sheet(replay, strategy),
        "kept": retained_sheet(replay),
    }
