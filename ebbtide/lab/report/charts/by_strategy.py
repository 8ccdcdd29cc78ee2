"""Charts that compare strategies: dollars per local day, waits of jobs, and why nodes were retained.

Waits range from zero to days, and a logarithm has no zero: the axis grows with log(1 + wait / 10 s), linear for seconds
and logarithmic from minutes on. Percentiles differ in shape as well as in place, so that no reader needs the
inks to tell them apart.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import cycle

from ebbtide.lab.report.charts.axes import Axis, Tick, axis_with, day_axis, dollar_text, value_axis
from ebbtide.lab.report.charts.palette import BOUND, PRODUCT, strategy_inks
from ebbtide.lab.report.charts.panel import (
    BETWEEN,
    OVER,
    SHAPES,
    UNDER,
    Bar,
    Chart,
    ChartView,
    Curve,
    Key,
    Line,
    Mark,
    Panel,
    Points,
    Run,
    Text,
    legend_height,
)
from ebbtide.lab.report.charts.scales import Box, Day, nice_ticks
from ebbtide.lab.report.charts.svg import shortened, text_width
from ebbtide.lab.simulator.results import Replay, StrategyResult
from ebbtide.text.counts import count, percent, several
from ebbtide.text.durations import duration, short
from ebbtide.text.money import dollars

_THINNEST = 6.0  # pixels; narrower bars of one day are drawn in panels instead
_BETWEEN = 34.0  # from one panel to the next
_COST_PANEL = 52.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Costs:
    days: tuple[Day, ...]
    paid: Mapping[str, Sequence[float]]  # by strategy, one amount for each day at most
    inks: Mapping[str, str]

    @property
    def top(self) -> float:
        return max((usd for values in self.paid.values() for usd in values), default=0.0)

    def label(self, name: str, place: int) -> str:
        day = self.days[place]
        return f"{name}, {day.weekday} {day.date}: {dollars(self.paid[name][place])}"


def cost_days(replay: Replay) -> tuple[Day, ...]:
    """One day for each entry of the longest `usd_per_day`, named by its local date."""
    length = max((len(result.usd_per_day) for result in replay.strategies.values()), default=0)
    dates = [replay.start + timedelta(days=place) for place in range(length)]  # wall time: the same hour of each date
    return tuple(Day(place, place + 1, f"{date:%a}", f"{date.day} {date:%b}") for place, date in enumerate(dates))


def cost_strategies(replay: Replay) -> list[str]:
    """Return the strategies whose dollars are known day by day."""
    return [name for name in strategy_inks(replay.strategies) if replay.strategies[name].usd_per_day]


def cost_chart(replay: Replay, view: ChartView) -> Chart:
    """Return dollars by local day, one bar per strategy. If bars would be too thin, each strategy has its own panel."""
    costs = _costs(replay)
    is_grouped = _grouped(costs, view)
    panels = [_side_by_side(costs, view)] if is_grouped else _one_each(costs, view)
    return Chart(
        title="Cost of each local day by strategy",
        desc=f"Bars: {several(len(costs.days), 'local day')}, {len(costs.paid)} strategies.",
        height=340.0 if is_grouped else OVER + UNDER + (_COST_PANEL + _BETWEEN) * len(panels) - _BETWEEN,
        keys=[Key(name, f"f-{ink}") for name, ink in costs.inks.items()] if is_grouped else None,
        x=day_axis(costs.days, view.plot_width),
        between=_BETWEEN,
        panels=panels,
    )


def _costs(replay: Replay) -> _Costs:
    names = cost_strategies(replay)
    inks = strategy_inks(replay.strategies)
    return _Costs(
        days=cost_days(replay),
        paid={name: replay.strategies[name].usd_per_day for name in names},
        inks={name: inks[name] for name in names},
    )


def _grouped(costs: _Costs, view: ChartView) -> bool:
    bars = max(1, len(costs.days)) * max(1, len(costs.paid))
    return view.plot_width / bars >= _THINNEST or len(costs.paid) < 2


def _side_by_side(costs: _Costs, view: ChartView) -> Panel:
    bars = [
        bar for order, name in enumerate(costs.paid) for bar in _bars(costs, name, view, slot=(order, len(costs.paid)))
    ]
    return Panel(y=value_axis(costs.top, "US dollars per local day", integers=False, text=dollar_text), marks=bars)


def _one_each(costs: _Costs, view: ChartView) -> list[Panel]:
    top = nice_ticks(costs.top, count=2, integers=False)[-1]
    return [
        Panel(
            y=axis_with([0.0, top], name, dollar_text),
            marks=_bars(costs, name, view, slot=(0, 1)),
            aside=dollars(sum(paid)),
        )
        for name, paid in costs.paid.items()
    ]


def _bars(costs: _Costs, name: str, view: ChartView, *, slot: tuple[int, int]) -> list[Bar]:
    """Draw one strategy's bars; `slot` is its position within a day and the number of bars there."""
    order, of = slot
    day = view.plot_width / max(1, len(costs.days))
    bar = 0.82 / of
    wide = max(1.0, bar * day - 1) / day
    begin = 0.09 + order * bar
    return [
        Bar(
            x=(place + begin, place + begin + wide),
            y=(0.0, usd),
            ink=f"f-{costs.inks[name]}",
            title=costs.label(name, place),
        )
        for place, usd in enumerate(costs.paid[name])
    ]


_BEND_S = 10.0
_TICKS = {
    "0": 0.0,
    "10 s": 10.0,
    "1 min": 60.0,
    "10 min": 600.0,
    "1 h": 3600.0,
    "6 h": 21_600.0,
    "1 d": 86_400.0,
    "7 d": 604_800.0,
    "30 d": 2_592_000.0,
}
_ROW = 46.0
_OVER_ROWS = 6.0
_PERCENTILES = [Key(which, which) for which in SHAPES]
_CURVES = 190.0
_DASHES = ("7 4", "2 4", "11 4 2 4", "4 3", "14 5", "2 2 8 3")
_ROOMY = 400.0
_UNDER = 30.0


@dataclass(frozen=True, slots=True)
class _Pen:
    """Ink and dashes of a strategy's lines: not every reader can tell them apart by ink alone."""

    ink: str
    dashes: str


def wait_chart(replay: Replay, view: ChartView) -> Chart:
    """A row for each strategy with p50, p95 and p99, and the share of jobs that waited no longer."""
    pens = _waiting(replay)
    x = _wait_axis(replay, view.plot_width)
    panels = [_rows(replay, pens, x, view.plot_width), *_curves(replay, pens, x)]
    under_legend = _OVER_ROWS + sum(panel.share for panel in panels) + BETWEEN * (len(panels) - 1) + _UNDER
    return Chart(
        title="Waits of jobs by strategy",
        desc="For each strategy the wait that 50, 95 and 99 of 100 jobs do not exceed, and the share of jobs by wait.",
        height=legend_height(_PERCENTILES, view.width) + under_legend,
        keys=_PERCENTILES,
        x=x,
        over=_OVER_ROWS,
        under=_UNDER,
        has_crosshair=False,
        panels=panels,
    )


def _waiting(replay: Replay) -> dict[str, _Pen]:
    """Strategies with their pens, without the bound, whose jobs never wait by definition."""
    inks = {name: ink for name, ink in strategy_inks(replay.strategies).items() if name != BOUND}
    dashed = cycle(_DASHES)
    return {name: _Pen(ink, "none" if name == PRODUCT else next(dashed)) for name, ink in inks.items()}


def _bent(seconds: float) -> float:
    return math.log1p(max(0.0, seconds) / _BEND_S)


def _longest(replay: Replay) -> float:
    """Return the end of the axis: a little past the longest percentile, and at least a minute."""
    waits = [wait for result in replay.strategies.values() for wait in percentiles(result).values()]
    return max(60.0, 1.3 * max(waits, default=0.0))


def percentiles(result: StrategyResult) -> Mapping[str, float]:
    """Return the known percentiles: a result of an earlier version has no p99."""
    waits = {"p50": result.wait_p50_s, "p95": result.wait_p95_s}
    return waits | ({"p99": result.wait_p99_s} if result.wait_p99_s >= result.wait_p95_s else {})


def _distributions(replay: Replay) -> list[str]:
    return [name for name in _waiting(replay) if len(replay.strategies[name].wait_quantiles_s) > 1]


def _rows(replay: Replay, pens: Mapping[str, _Pen], x: Axis, width: float) -> Panel:
    """A panel whose y axis counts pixels from the top."""
    high = _ROW * max(1, len(pens))
    marks: list[Mark] = []
    for place, (name, pen) in enumerate(pens.items()):
        waits, top = percentiles(replay.strategies[name]), place * _ROW
        marks += [
            Text(at=(x.low, top + 17), text=name, ink="strong halo"),
            Text(at=(x.high, top + 17), text=_label(waits, width), ink="halo", anchor="end"),
            *_row(name, waits, pen, top + 32),
        ]
    return Panel(y=Axis(low=high, high=0.0), marks=marks, share=high)


def _row(name: str, waits: Mapping[str, float], pen: _Pen, y: float) -> Iterator[Mark]:
    """The line between the marks is the key to the strategy's curve below."""
    ends = (min(waits.values()), max(waits.values()))
    yield Line(x=ends, y=(y, y), ink=f"curve s-{pen.ink}", title=name, dashes=pen.dashes)
    for which, wait in reversed(list(waits.items())):
        yield Points(at=[(wait, y)], shape=SHAPES[which], ink=f"f-{pen.ink} point")


def _label(waits: Mapping[str, float], width: float) -> str:
    """All percentiles, or only p95, by which savings are measured, if there is little space."""
    shown = waits if width > _ROOMY else {"p95": waits["p95"]}
    return " · ".join(f"{which} {short(duration(wait))}" for which, wait in shown.items())


def _wait_axis(replay: Replay, width: float) -> Axis:
    """Ticks at round waits whose labels do not overlap."""
    axis = Axis(high=_longest(replay), bend=_bent)
    box = Box(left=0, top=0, width=width, height=0)
    shown: list[Tick] = []
    free = -math.inf
    for text, seconds in _TICKS.items():
        x, half = axis.x(seconds, box), text_width(text) / 2 + 4
        if seconds <= axis.high and x - half >= free:
            shown.append(Tick(seconds, text))
            free = x + half
    return replace(axis, ticks=shown, lines=[tick.at for tick in shown])


def _curves(replay: Replay, pens: Mapping[str, _Pen], x: Axis) -> list[Panel]:
    curves = [
        Curve(
            runs=[_run(replay.strategies[name].wait_quantiles_s, x.high)],
            ink=f"curve s-{pens[name].ink}",
            title=name,
            dashes=pens[name].dashes,
        )
        for name in _distributions(replay)
    ]
    y = axis_with([0.0, 25.0, 50.0, 75.0, 100.0], "% of jobs that waited no longer")
    return [Panel(y=y, marks=curves, share=_CURVES)] if curves else []


def _run(quantiles: Sequence[float], longest: float) -> Run:
    """The shares, wait by wait; longer waits than the axis end at its edge."""
    within = sum(wait <= longest for wait in quantiles)  # they ascend
    ends = [min(wait, longest) for wait in quantiles[: within + 1]]
    shares = [100 * place / (len(quantiles) - 1) for place in range(len(ends))]
    return Run([0.0, *ends, ends[-1]], [0.0, *shares])


_MOST_REASONS = 8  # bars
_LEAST_HOURS = 0.05  # node-hours: less would read 0.0
OTHERS = "other reasons"


_PLAIN_REASONS = {
    "it is booting": "booting",
    "more of it is in use than the threshold allows": "utilization above the scale-down threshold",
    "its group is at its minimum": "node group at its minimum size",
    "its group grew or shrank a moment ago": "scale-down delay after the group changed size",
    "its pods have no other place": "pods fit on no other node",
    "not needed, but not for long enough, or waiting for its turn": "unneeded time not over, or removal queued",
    "it is being removed": "being removed",
    "a worker is there, and workers are never moved": "runs a worker; workers are never moved",
    "a fixed pod is there, and fixed pods are never moved": "runs a fixed pod; fixed pods are never moved",
}
"""Page texts for reasons: the reasons themselves are keys of the JSON document, and never change."""


def reason_text(reason: str) -> str:
    """A reason of the JSON document in a reader's words: `too-much-gpu` is "too much GPU"."""
    if plain := _PLAIN_REASONS.get(reason):
        return plain
    if " " in reason:
        return reason
    return reason.replace("-", " ").replace("gpu", "GPU").replace("cpu", "CPU")


def retained_reasons(result: StrategyResult) -> dict[str, float]:
    """Node-hours by reason in a reader's words, the most first."""
    ordered = sorted(result.survivors.items(), key=lambda entry: (-entry[1], entry[0]))
    return {reason_text(reason): hours for reason, hours in ordered if hours > 0}


def retained_chart(replay: Replay, strategy: str, view: ChartView) -> Chart:
    """A bar for each reason, its text above it: reasons are sentences and do not fit next to it."""
    shown = _shown_reasons(replay, strategy)
    total = sum(shown.values()) or 1.0
    texts = {reason: _hours_text(hours, total) for reason, hours in shown.items()}
    room = view.width - max(map(text_width, texts.values()), default=0.0) - 12
    scale = room / max(shown.values(), default=1.0)
    marks: list[Mark] = []
    for place, (reason, hours) in enumerate(shown.items()):
        top, text = place * _ROW, texts[reason]
        y = (top + 34, top + 22)
        marks += [
            Text(at=(0, top + 14), text=shortened(reason, view.width), ink="strong"),
            Bar(x=(0, room), y=y, corners=2, ink="track"),
            Bar(x=(0, max(1.5, hours * scale)), y=y, corners=2, ink="f-g1", title=f"{reason}: {text}"),
            Text(at=(view.width, top + 32), text=text, anchor="end"),
        ]
    high = _ROW * max(1, len(shown))
    return Chart(
        title=f"Why nodes were retained, {strategy}",
        desc="Bars: node-hours in the disruption window by the reason the node was retained.",
        height=high + 8,
        x=Axis(high=view.width),  # both axes count pixels
        left=0.0,
        right=0.0,
        over=4.0,
        under=4.0,
        has_crosshair=False,
        panels=[Panel(y=Axis(low=high, high=0.0), marks=marks)],
    )


def _shown_reasons(replay: Replay, strategy: str) -> Mapping[str, float]:
    """The reasons with the most node-hours, and the sum of the rest if it is large enough to show."""
    reasons = retained_reasons(replay.strategies[strategy])
    visible = [reason for reason, hours in reasons.items() if hours >= _LEAST_HOURS]
    if len(visible) > _MOST_REASONS:
        visible = visible[: _MOST_REASONS - 1]
    shown = {reason: reasons[reason] for reason in visible}
    others = sum(reasons.values()) - sum(shown.values())
    return shown | ({OTHERS: others} if others >= _LEAST_HOURS else {})


def _hours_text(hours: float, total: float) -> str:
    return f"{_hours(hours)} node-h · {percent(hours / total)}"


def _hours(hours: float) -> str:
    return count(hours) if hours >= 10 else f"{hours:.1f}"
