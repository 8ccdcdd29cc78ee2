"""The figures of each chart as a table, for readers who cannot see the chart or its colours, and for copying.

A chart over days has one row for each local day, one over a single day one row for each hour.
"""

from collections.abc import Iterable, Mapping, Sequence

from ebbtide.lab.report.charts.by_strategy import cost_days, cost_strategies, percentiles, retained_reasons
from ebbtide.lab.report.charts.over_time import drawn_strategies
from ebbtide.lab.report.charts.palette import group_inks, strategy_inks
from ebbtide.lab.report.charts.scales import (
    ChartWindow,
    Day,
    amounts_of,
    busiest_day,
    cut,
    local_label,
    peaks_of,
    stretch_of,
    total_nodes,
)
from ebbtide.lab.simulator.results import Replay
from ebbtide.text.counts import percent
from ebbtide.text.durations import HOUR_S as _HOUR
from ebbtide.text.sheet import DOLLARS, DURATION, TENTHS, Cell, Sheet, left, right

_QUANTILES = (0.1, 0.25, 0.75, 0.9, 1.0)  # in the table besides p50, p95 and p99

Spans = Sequence[tuple[float, float]]


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
        columns=[*left("day"), *right(*groups, "total node-hours", "peak nodes")],
        rows=[
            (_named(day), *(column[place] for column in columns), peaks[place])
            for place, day in enumerate(stretch.days)
        ],
        total=("total", *map(sum, columns), max(peaks, default=0)),
    )


def jobs_sheet(replay: Replay, strategy: str) -> Sheet:
    stretch = stretch_of(replay, strategy)
    return Sheet(
        caption=f"Jobs running and waiting on each local day under {strategy}",
        columns=[
            *left("day"),
            *right("mean running", unit=TENTHS),
            *right("peak running"),
            *right("mean waiting", unit=TENTHS),
            *right("peak waiting"),
        ],
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
        columns=[*left("hour from"), *right(*groups, "jobs running", "jobs waiting")],
        rows=[(_clock(stretch, begin), *(column[place] for column in peaks)) for place, (begin, _) in enumerate(spans)],
    )


def cost_sheet(replay: Replay) -> Sheet:
    names = cost_strategies(replay)
    paid = {name: replay.strategies[name].usd_per_day for name in names}
    return Sheet(
        caption="US dollars of each local day by strategy",
        columns=[*left("day"), *right(*names, unit=DOLLARS)],
        rows=[
            (_named(day), *(_at(paid[name], place) for name in names)) for place, day in enumerate(cost_days(replay))
        ],
        total=("total", *(sum(paid[name]) for name in names)),
    )


def strip_sheet(replay: Replay) -> Sheet:
    """Node-hours by group as billed, unlike a day's, which are read off the series."""
    names = list(strategy_inks(replay.strategies))
    every = dict.fromkeys(group for name in names for group in replay.strategies[name].node_hours_by_group)
    groups = list(group_inks(every))
    peaks = {name: max(total_nodes(replay.strategies[name].series), default=0) for name in drawn_strategies(replay)}
    rows: list[Sequence[Cell]] = []
    for name in names:
        result = replay.strategies[name]
        by_group = [result.node_hours_by_group.get(group) or None for group in groups]
        rows.append((name, *by_group, result.node_hours, peaks.get(name)))
    return Sheet(
        caption="Node-hours by group and strategy, and the peak number of nodes",
        columns=[*left("strategy"), *right(*groups, "total node-hours", "peak nodes")],
        rows=rows,
    )


def waits_sheet(replay: Replay) -> Sheet:
    """Percentiles, and further shares of the jobs if any strategy has a distribution of waits."""
    results = {name: replay.strategies[name] for name in strategy_inks(replay.strategies)}
    shares = _QUANTILES if any(len(result.wait_quantiles_s) > 1 for result in results.values()) else ()
    rows: list[Sequence[Cell]] = []
    for name, result in results.items():
        waits = percentiles(result)
        cells = [waits.get(which) for which in ("p50", "p95", "p99")]
        rows.append((name, *cells, *(_quantile(result.wait_quantiles_s, share) for share in shares)))
    names = ("50 % (p50)", "95 % (p95)", "99 % (p99)", *map(percent, shares))
    return Sheet(
        caption="The longest wait of each share of the jobs, by strategy",
        columns=[*left("strategy"), *right(*names, unit=DURATION)],
        rows=rows,
    )


def retained_sheet(replay: Replay) -> Sheet:
    names = [name for name in strategy_inks(replay.strategies) if replay.strategies[name].survivors]
    reasons_of = {name: retained_reasons(replay.strategies[name]) for name in names}
    reasons = dict.fromkeys(reason for by_reason in reasons_of.values() for reason in by_reason)
    return Sheet(
        caption="Node-hours in the disruption window by the reason the node was retained, by strategy",
        columns=[*left("reason"), *right(*names, unit=TENTHS)],
        rows=[(reason, *(reasons_of[name].get(reason) for name in names)) for reason in reasons],
        total=("total", *(sum(reasons_of[name].values()) for name in names)),
    )


def _job_rows(stretch: ChartWindow, spans: Spans, names: Sequence[str]) -> list[tuple[Cell, ...]]:
    at, series = stretch.series.at, stretch.series
    cells: list[Sequence[float]] = []
    for values in (series.running, series.waiting):
        means = [
            amount / (end - begin) for amount, (begin, end) in zip(amounts_of(at, values, spans), spans, strict=True)
        ]
        cells += [means, peaks_of(at, values, spans)]
    return [(name, *(column[place] for column in cells)) for place, name in enumerate(names)]


def _spans(days: Iterable[Day]) -> Spans:
    return [(day.begin, day.end) for day in days]


def _hourly(horizon: float) -> Spans:
    starts = [hour * _HOUR for hour in range(int((horizon - 1) // _HOUR) + 1)]
    return [(start, min(horizon, start + _HOUR)) for start in starts]


def _hours(amounts: Sequence[float]) -> list[float]:
    return [amount / _HOUR for amount in amounts]


def _named(day: Day) -> str:
    return f"{day.weekday} {day.date}"


def _clock(stretch: ChartWindow, seconds: float) -> str:
    return local_label(stretch.start, seconds).rpartition(" ")[2]


def _at(paid: Sequence[float], place: int) -> float | None:
    return paid[place] if place < len(paid) else None


def _quantile(quantiles: Sequence[float], share: float) -> float | None:
    return quantiles[round(share * (len(quantiles) - 1))] if len(quantiles) > 1 else None


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
