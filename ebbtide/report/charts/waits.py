"""How long jobs waited under each strategy: three percentiles, and the whole distribution where the replay has it.

Waits run from nothing to days, and a logarithm has no zero: the axis grows with log(1 + wait / 10 s), which is even
for seconds and logarithmic from minutes on. Percentiles differ in shape as well as in place, so that no reader needs
the inks to tell them apart.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle

from ebbtide.report.charts import axes, svg
from ebbtide.report.charts.axes import OVER, ChartView, Key
from ebbtide.report.charts.palette import BOUND, PRODUCT, strategy_inks
from ebbtide.report.charts.scales import Box
from ebbtide.report.words import duration, short
from ebbtide.simulator.results import Replay, StrategyResult

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
_CURVES = 190.0
_DASHES = ("7 4", "2 4", "11 4 2 4", "4 3", "14 5", "2 2 8 3")
_ROOMY = 400.0
_UNDER = 30.0


@dataclass(frozen=True, slots=True)
class _Pen:
    """How a strategy's lines are drawn: inks alone would not tell them apart for every reader."""

    ink: str
    dashes: str


@dataclass(frozen=True, slots=True)
class _Scale:
    box: Box
    longest: float

    def x(self, seconds: float) -> float:
        return self.box.left + self.box.width * _bent(seconds) / _bent(self.longest)


def wait_height(replay: Replay) -> float:
    curves = OVER + _CURVES + 8 if _distributions(replay) else 0.0
    return 26 + _ROW * max(1, len(_waiting(replay))) + curves + _UNDER


def wait_chart(replay: Replay, view: ChartView) -> str:
    """A row for each strategy with p50, p95 and p99, and the share of jobs that waited no longer."""
    pens = _waiting(replay)
    keys = [Key(which, which) for which in axes.MARKS]
    rows = Box(left=view.left, top=26, width=view.plot_width, height=_ROW * max(1, len(pens)))
    scale = _Scale(rows, _longest(replay))
    content = [axes.legend(keys, left=view.left, top=0, width=view.width - view.left), _grid(scale, rows)]
    for place, (name, pen) in enumerate(pens.items()):
        content.append(_row(name, replay.strategies[name], pen, scale, rows.top + place * _ROW))
    lowest = rows
    if _distributions(replay):
        lowest = Box(left=view.left, top=rows.bottom + OVER + 8, width=view.plot_width, height=_CURVES)
        content += _curves(replay, pens, scale, lowest)
    content.append(_tick_labels(scale, lowest))
    return svg.picture(
        content,
        ident=view.ident,
        title="Waits of jobs by strategy",
        desc="For each strategy the wait that 50, 95 and 99 of 100 jobs do not exceed, and the share of jobs by wait.",
        size=view.size,
    )


def _waiting(replay: Replay) -> dict[str, _Pen]:
    """Strategies with their pens; the bound waits for nothing by definition."""
    inks = {name: ink for name, ink in strategy_inks(replay.strategies).items() if name != BOUND}
    dashed = cycle(_DASHES)
    return {name: _Pen(ink, "none" if name == PRODUCT else next(dashed)) for name, ink in inks.items()}


def _bent(seconds: float) -> float:
    return math.log1p(max(0.0, seconds) / _BEND_S)


def _longest(replay: Replay) -> float:
    """Where the axis ends: a little past the longest percentile, and never before a minute."""
    waits = [wait for result in replay.strategies.values() for wait in percentiles(result).values()]
    return max(60.0, 1.3 * max(waits, default=0.0))


def percentiles(result: StrategyResult) -> Mapping[str, float]:
    """Those that are known: a result of an earlier version has no p99."""
    known = {"p50": result.wait_p50_s, "p95": result.wait_p95_s}
    return known | ({"p99": result.wait_p99_s} if result.wait_p99_s >= result.wait_p95_s else {})


def _distributions(replay: Replay) -> list[str]:
    return [name for name in _waiting(replay) if len(replay.strategies[name].wait_quantiles_s) > 1]


def _row(name: str, result: StrategyResult, pen: _Pen, scale: _Scale, top: float) -> str:
    """The line between the marks is the key to the strategy's curve below."""
    box, waits = scale.box, percentiles(result)
    y = top + 32
    ends = [scale.x(wait) for wait in waits.values()]
    marks = [axes.mark(which, scale.x(wait), y, ink=pen.ink) for which, wait in reversed(list(waits.items()))]
    return "".join(
        [
            svg.label(name, box.left, top + 17, class_="strong halo"),
            svg.label(_label(waits, box), box.right, top + 17, class_="halo", anchor="end"),
            _line(f"M{svg.number(min(ends))} {svg.number(y)}H{svg.number(max(ends))}", name, pen),
            *marks,
        ]
    )


def _label(waits: Mapping[str, float], box: Box) -> str:
    """All percentiles, or the one that savings are measured by where there is little room."""
    shown = waits if box.width > _ROOMY else {"p95": waits["p95"]}
    return " · ".join(f"{which} {short(duration(wait))}" for which, wait in shown.items())


def _line(path: str, name: str, pen: _Pen) -> str:
    return svg.element(
        "path", svg.words("title", name), d=path, class_=f"curve s-{pen.ink}", stroke_dasharray=pen.dashes
    )


def _grid(scale: _Scale, box: Box) -> str:
    return "".join(svg.line(x, box.top, x, box.bottom, class_="grid") for x, _ in _ticks(scale))


def _tick_labels(scale: _Scale, box: Box) -> str:
    return "".join(svg.label(text, x, box.bottom + 18, anchor="middle") for x, text in _ticks(scale))


def _ticks(scale: _Scale) -> list[tuple[float, str]]:
    """Round waits with room for their words."""
    shown: list[tuple[float, str]] = []
    free = -math.inf
    for text, seconds in _TICKS.items():
        x, half = scale.x(seconds), svg.text_width(text) / 2 + 4
        if seconds <= scale.longest and x - half >= free:
            shown.append((x, text))
            free = x + half
    return shown


def _curves(replay: Replay, pens: Mapping[str, _Pen], scale: _Scale, box: Box) -> list[str]:
    return [
        _grid(scale, box),
        axes.value_axis([0.0, 25.0, 50.0, 75.0, 100.0], box, unit="% of jobs that waited no longer"),
        *(
            _line(_curve(replay.strategies[name].wait_quantiles_s, scale, box), name, pens[name])
            for name in _distributions(replay)
        ),
    ]


def _curve(quantiles: tuple[float, ...], scale: _Scale, box: Box) -> str:
    """Up the shares, wait by wait; what lies past the axis leaves it at the edge."""
    last = len(quantiles) - 1
    points: list[str] = []
    for place, wait in enumerate(quantiles):
        x, y = min(scale.x(wait), box.right), box.bottom - box.height * place / last
        points.append(f"H{svg.number(x)}V{svg.number(y)}")
        if wait > scale.longest:
            break
    return f"M{svg.number(box.left)} {svg.number(box.bottom)}{''.join(points)}"
