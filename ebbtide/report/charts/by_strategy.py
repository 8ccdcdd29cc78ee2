"""Charts that compare strategies: dollars per local day, waits of jobs, and why nodes were retained.

Waits range from zero to days, and a logarithm has no zero: the axis grows with log(1 + wait / 10 s), linear for seconds
and logarithmic from minutes on. Percentiles differ in shape as well as in place, so that no reader needs the
inks to tell them apart.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle

from ebbtide.report.charts import svg
from ebbtide.report.charts.palette import BOUND, PRODUCT, strategy_inks
from ebbtide.report.charts.scales import Box, Day, nice_ticks
from ebbtide.report.charts.svg import OVER, ChartView, Key
from ebbtide.report.words import count, dollars, duration, percent, several, short
from ebbtide.simulator.results import Replay, StrategyResult

_THINNEST = 6.0  # pixels of a bar among others of its day
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


def cost_height(replay: Replay, width: float) -> float:
    view = ChartView(ident="", width=width, height=0)
    if _grouped(_costs(replay), view):
        return 340.0
    return OVER + view.under + (_COST_PANEL + _BETWEEN) * max(1, len(cost_strategies(replay))) - _BETWEEN


def cost_chart(replay: Replay, view: ChartView) -> str:
    """Dollars of each local day, one bar for each strategy."""
    costs = _costs(replay)
    if _grouped(costs, view):
        box, content = _side_by_side(costs, view)
    else:
        box, content = _panels(costs, view)
    return svg.picture(
        [*content, svg.band_labels(costs.days, box)],
        ident=view.ident,
        title="Cost of each local day by strategy",
        desc=f"Bars: {several(len(costs.days), 'local day')}, {len(costs.paid)} strategies.",
        size=view.size,
        box=Box(left=box.left, top=OVER, width=box.width, height=box.bottom - OVER),
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


def _side_by_side(costs: _Costs, view: ChartView) -> tuple[Box, list[str]]:
    keys = [Key(name, f"f-{ink}") for name, ink in costs.inks.items()]
    box = view.box(keys)
    ticks = nice_ticks(costs.top, integers=False)
    content = [
        svg.legend(keys, left=view.left, top=0, width=view.width - view.left),
        svg.value_axis(ticks, box, unit="US dollars per local day", money=True),
    ]
    for order, name in enumerate(costs.paid):
        content += _bars(costs, name, box, top=ticks[-1], slot=(order, len(costs.paid)))
    return box, content


def _panels(costs: _Costs, view: ChartView) -> tuple[Box, list[str]]:
    top = nice_ticks(costs.top, count=2, integers=False)[-1]
    pitch = (view.height - OVER - view.under + _BETWEEN) / len(costs.paid)
    box = Box(left=view.left, top=OVER, width=view.plot_width, height=pitch - _BETWEEN)
    content: list[str] = []
    for place, (name, paid) in enumerate(costs.paid.items()):
        box = Box(left=view.left, top=OVER + place * pitch, width=view.plot_width, height=pitch - _BETWEEN)
        content.append(svg.value_axis([0.0, top], box, unit=name, money=True))
        content.append(svg.label(dollars(sum(paid)), box.right, box.top - 10, anchor="end"))
        content += _bars(costs, name, box, top=top, slot=(0, 1))
    return box, content


def _bars(costs: _Costs, name: str, box: Box, *, top: float, slot: tuple[int, int]) -> list[str]:
    """Draw one strategy's bars; `slot` is its position within a day and the number of bars there."""
    order, of = slot
    wide = box.width / max(1, len(costs.days))
    bar = wide * 0.82 / of
    return [
        svg.element(
            "rect",
            svg.words("title", costs.label(name, place)),
            x=box.left + (place + 0.09) * wide + order * bar,
            y=box.bottom - box.height * usd / top,
            width=max(1.0, bar - 1),
            height=box.height * usd / top,
            class_=f"f-{costs.inks[name]}",
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
_CURVES = 190.0
_DASHES = ("7 4", "2 4", "11 4 2 4", "4 3", "14 5", "2 2 8 3")
_ROOMY = 400.0
_UNDER = 30.0


@dataclass(frozen=True, slots=True)
class _Pen:
    """Ink and dashes of a strategy's lines: not every reader can tell them apart by ink alone."""

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
    keys = [Key(which, which) for which in svg.MARKS]
    rows = Box(left=view.left, top=26, width=view.plot_width, height=_ROW * max(1, len(pens)))
    scale = _Scale(rows, _longest(replay))
    content = [svg.legend(keys, left=view.left, top=0, width=view.width - view.left), _grid(scale, rows)]
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
    """Return the end of the axis: a little past the longest percentile, and at least a minute."""
    waits = [wait for result in replay.strategies.values() for wait in percentiles(result).values()]
    return max(60.0, 1.3 * max(waits, default=0.0))


def percentiles(result: StrategyResult) -> Mapping[str, float]:
    """Return the known percentiles: a result of an earlier version has no p99."""
    waits = {"p50": result.wait_p50_s, "p95": result.wait_p95_s}
    return waits | ({"p99": result.wait_p99_s} if result.wait_p99_s >= result.wait_p95_s else {})


def _distributions(replay: Replay) -> list[str]:
    return [name for name in _waiting(replay) if len(replay.strategies[name].wait_quantiles_s) > 1]


def _row(name: str, result: StrategyResult, pen: _Pen, scale: _Scale, top: float) -> str:
    """The line between the marks is the key to the strategy's curve below."""
    box, waits = scale.box, percentiles(result)
    y = top + 32
    ends = [scale.x(wait) for wait in waits.values()]
    marks = [svg.mark(which, scale.x(wait), y, ink=pen.ink) for which, wait in reversed(list(waits.items()))]
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
        svg.value_axis([0.0, 25.0, 50.0, 75.0, 100.0], box, unit="% of jobs that waited no longer"),
        *(
            _line(_curve(replay.strategies[name].wait_quantiles_s, scale, box), name, pens[name])
            for name in _distributions(replay)
        ),
    ]


def _curve(quantiles: tuple[float, ...], scale: _Scale, box: Box) -> str:
    """Return the path of the shares, wait by wait; longer waits than the axis end at its edge."""
    last = len(quantiles) - 1
    points: list[str] = []
    for place, wait in enumerate(quantiles):
        x, y = min(scale.x(wait), box.right), box.bottom - box.height * place / last
        points.append(f"H{svg.number(x)}V{svg.number(y)}")
        if wait > scale.longest:
            break
    return f"M{svg.number(box.left)} {svg.number(box.bottom)}{''.join(points)}"


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
"""The JSON document's reasons are its keys, which stay as they are."""


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


def retained_height(replay: Replay, strategy: str) -> float:
    return 8 + _ROW * max(1, len(_shown_reasons(replay, strategy)))


def retained_chart(replay: Replay, strategy: str, view: ChartView) -> str:
    """A bar for each reason, its text above it: reasons are sentences and do not fit next to it."""
    shown = _shown_reasons(replay, strategy)
    box = Box(left=0, top=4, width=view.width, height=view.height - 8)
    longest, total = max(shown.values(), default=1.0), sum(shown.values()) or 1.0
    text_width = max((svg.text_width(_hours_text(hours, total)) for hours in shown.values()), default=0.0) + 12
    content: list[str] = []
    for place, (reason, hours) in enumerate(shown.items()):
        top = box.top + place * _ROW
        text = _hours_text(hours, total)
        content += [
            svg.label(svg.shortened(reason, box.width), 0, top + 14, class_="strong"),
            _reason_bar(
                f"{reason}: {text}",
                top + 22,
                wide=(box.width - text_width) * hours / longest,
                room=box.width - text_width,
            ),
            svg.label(text, box.right, top + 32, anchor="end"),
        ]
    return svg.picture(
        content,
        ident=view.ident,
        title=f"Why nodes were retained, {strategy}",
        desc="Bars: node-hours in the disruption window by the reason the node was retained.",
        size=view.size,
    )


def _shown_reasons(replay: Replay, strategy: str) -> Mapping[str, float]:
    """The reasons with the most node-hours, and the sum of the rest where it can be seen."""
    reasons = retained_reasons(replay.strategies[strategy])
    visible = [reason for reason, hours in reasons.items() if hours >= _LEAST_HOURS]
    if len(visible) > _MOST_REASONS:
        visible = visible[: _MOST_REASONS - 1]
    shown = {reason: reasons[reason] for reason in visible}
    others = sum(reasons.values()) - sum(shown.values())
    return shown | ({OTHERS: others} if others >= _LEAST_HOURS else {})


def _reason_bar(tooltip: str, top: float, *, wide: float, room: float) -> str:
    track = svg.element("rect", x=0, y=top, width=room, height=12, rx=2, class_="track")
    return track + svg.element(
        "rect", svg.words("title", tooltip), x=0, y=top, width=max(1.5, wide), height=12, rx=2, class_="f-g1"
    )


def _hours_text(hours: float, total: float) -> str:
    return f"{_hours(hours)} node-h · {percent(hours / total)}"


def _hours(hours: float) -> str:
    return count(hours) if hours >= 10 else f"{hours:.1f}"
