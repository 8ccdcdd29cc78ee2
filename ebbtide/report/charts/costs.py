"""What each strategy pays on each local day: side by side while the bars can be told apart, else a panel for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ebbtide.report.charts import axes, svg
from ebbtide.report.charts.axes import OVER, ChartView, Key
from ebbtide.report.charts.palette import strategy_inks
from ebbtide.report.charts.scales import Box, Day, nice_ticks
from ebbtide.report.words import dollars, several
from ebbtide.simulator.results import Replay

_THINNEST = 6.0  # pixels of a bar among others of its day
_BETWEEN = 34.0  # from one panel to the next
_PANEL = 52.0


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
    """Those whose dollars are known day by day."""
    return [name for name in strategy_inks(replay.strategies) if replay.strategies[name].usd_per_day]


def cost_height(replay: Replay, width: float) -> float:
    view = ChartView(ident="", width=width, height=0)
    if _grouped(_costs(replay), view):
        return 340.0
    return OVER + view.under + (_PANEL + _BETWEEN) * max(1, len(cost_strategies(replay))) - _BETWEEN


def cost_chart(replay: Replay, view: ChartView) -> str:
    """Dollars of each local day, one bar for each strategy."""
    costs = _costs(replay)
    if _grouped(costs, view):
        box, content = _side_by_side(costs, view)
    else:
        box, content = _panels(costs, view)
    return svg.picture(
        [*content, axes.band_labels(costs.days, box)],
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
    ticks = nice_ticks(costs.top, whole=False)
    content = [
        axes.legend(keys, left=view.left, top=0, width=view.width - view.left),
        axes.value_axis(ticks, box, unit="US dollars per local day", money=True),
    ]
    for order, name in enumerate(costs.paid):
        content += _bars(costs, name, box, top=ticks[-1], slot=(order, len(costs.paid)))
    return box, content


def _panels(costs: _Costs, view: ChartView) -> tuple[Box, list[str]]:
    top = nice_ticks(costs.top, wanted=2, whole=False)[-1]
    pitch = (view.height - OVER - view.under + _BETWEEN) / len(costs.paid)
    box = Box(left=view.left, top=OVER, width=view.plot_width, height=pitch - _BETWEEN)
    content: list[str] = []
    for place, (name, paid) in enumerate(costs.paid.items()):
        box = Box(left=view.left, top=OVER + place * pitch, width=view.plot_width, height=pitch - _BETWEEN)
        content.append(axes.value_axis([0.0, top], box, unit=name, money=True))
        content.append(svg.label(dollars(sum(paid)), box.right, box.top - 10, anchor="end"))
        content += _bars(costs, name, box, top=top, slot=(0, 1))
    return box, content


def _bars(costs: _Costs, name: str, box: Box, *, top: float, slot: tuple[int, int]) -> list[str]:
    """The bars of one strategy; `slot` says which of how many it is within a day."""
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
