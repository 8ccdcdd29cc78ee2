"""The four pictures of a replay, as SVG text. Pure: a replay and a view in, markup out.

Inks are classes; `palette.CHART_CSS` gives them their colours on light and on dark paper. Stacked areas are painted
from the highest sum down to the lowest, each over the one before: no hairline of paper shows between two bands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ebbtide.simulator.report import axes, svg
from ebbtide.simulator.report.axes import Key
from ebbtide.simulator.report.palette import group_inks, strategy_inks
from ebbtide.simulator.report.scales import Box, Day, horizon_of, local_days, nice_ticks, stacked, total_nodes
from ebbtide.simulator.report.sentences import FLEET
from ebbtide.simulator.report.thinning import thin
from ebbtide.simulator.report.words import count, dollars
from ebbtide.simulator.results import Replay, Series, StrategyResult

_LEFT, _RIGHT_MARGIN = 58.0, 14.0
_UNDER = 44.0  # room for the day labels
_OVER = 30.0  # room for the unit above an axis
_BETWEEN = 38.0  # from one panel of the strip to the next
_PIXELS_PER_COLUMN = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One rendering: `ident` starts the ids that must be unique on a page."""

    ident: str
    width: float
    height: float

    def box(self, keys: Sequence[Key]) -> Box:
        """The plot area left over by legend, axis title and day labels."""
        top = axes.legend_height(keys, self.width) + _OVER
        return Box(left=_LEFT, top=top, width=self.width - _LEFT - _RIGHT_MARGIN, height=self.height - top - _UNDER)

    @property
    def size(self) -> tuple[float, float]:
        return self.width, self.height


def nodes_chart(replay: Replay, strategy: str, view: View) -> str:
    """Nodes by group over time, stacked, with the fixed fleet's level where the replay has one."""
    series = replay.strategies[strategy].series
    horizon = horizon_of(replay)
    inks = group_inks(series.nodes)
    level = _fleet_level(replay, strategy)
    keys = [Key(group, f"f-{ink}") for group, ink in inks.items()]
    keys += [Key("business hours", "open")]
    keys += [Key("fixed fleet", "level")] if level else []
    box = view.box(keys)
    ticks = nice_ticks(max(level * 1.06, max(total_nodes(series), default=0)))
    content = [
        axes.legend(keys, left=_LEFT, top=0, width=view.width - _LEFT),
        *_backdrop(replay, box, horizon),
        axes.value_axis(ticks, box, unit="nodes"),
        *_stack(series, inks, box, horizon=horizon, top=ticks[-1]),
        _fleet_line(level, box, ticks[-1]),
    ]
    desc = f"Stacked areas of the nodes of each group under {strategy} over {replay.days} days, business hours shaded."
    return svg.picture(
        content, ident=view.ident, title=f"Nodes by group, {strategy}", desc=desc, size=view.size, box=box
    )


def jobs_chart(replay: Replay, strategy: str, view: View) -> str:
    """Jobs running and jobs waiting, one panel above the other since their sizes may differ by much."""
    series = replay.strategies[strategy].series
    horizon = horizon_of(replay)
    keys = [Key("running", "f-g1"), Key("waiting", "f-g3"), Key("business hours", "open")]
    whole = view.box(keys)
    upper = Box(left=whole.left, top=whole.top, width=whole.width, height=(whole.height - _OVER - 6) * 0.6)
    lower_top = upper.bottom + _OVER + 6
    lower = Box(left=whole.left, top=lower_top, width=whole.width, height=whole.bottom - lower_top)
    content = [axes.legend(keys, left=_LEFT, top=0, width=view.width - _LEFT)]
    content += axes.open_shade(replay.open_spans, upper, horizon)
    content += axes.day_lines(local_days(replay.start, horizon), upper, horizon)
    content += _backdrop(replay, lower, horizon)
    for values, box, unit, ink in (
        (series.running, upper, "jobs running", "g1"),
        (series.waiting, lower, "jobs waiting", "g3"),
    ):
        ticks = nice_ticks(max(values, default=0), wanted=4 if box is upper else 2)
        content.append(axes.value_axis(ticks, box, unit=unit))
        content.append(_area(series.at, values, box, horizon=horizon, top=ticks[-1], ink=ink))
    return svg.picture(
        content,
        ident=view.ident,
        title=f"Jobs running and waiting, {strategy}",
        desc=f"Two panels over {replay.days} days: jobs that run and jobs that wait, business hours shaded.",
        size=view.size,
        box=whole,
    )


def cost_chart(replay: Replay, view: View) -> str:
    """Dollars of each local day, one bar for each strategy."""
    inks = strategy_inks(replay.strategies)
    keys = [Key(name, f"f-{ink}") for name, ink in inks.items()]
    box = view.box(keys)
    days = cost_days(replay)
    per_day = {name: replay.strategies[name].usd_per_day for name in inks}
    ticks = nice_ticks(max((usd for values in per_day.values() for usd in values), default=0.0), whole=False)
    content = [
        axes.legend(keys, left=_LEFT, top=0, width=view.width - _LEFT),
        axes.value_axis(ticks, box, unit="US dollars per local day", money=True),
        *_bars(per_day, inks, box, days=days, top=ticks[-1]),
        axes.band_labels(days, box),
    ]
    return svg.picture(
        content,
        ident=view.ident,
        title="Cost of each local day by strategy",
        desc=f"Grouped bars: {len(days)} local days, {len(inks)} strategies.",
        size=view.size,
        box=box,
    )


def strip_chart(replay: Replay, view: View) -> str:
    """One narrow panel of all nodes for each strategy, all on one scale."""
    inks = strategy_inks(replay.strategies)
    horizon = horizon_of(replay)
    totals = {name: total_nodes(replay.strategies[name].series) for name in inks}
    top = nice_ticks(max((max(values, default=0) for values in totals.values()), default=0))[-1]
    whole = Box(left=_LEFT, top=_OVER, width=view.width - _LEFT - _RIGHT_MARGIN, height=view.height - _OVER - _UNDER)
    pitch = (whole.height + _BETWEEN) / max(1, len(inks))
    content: list[str] = []
    box = whole
    for place, (name, ink) in enumerate(inks.items()):
        box = Box(left=_LEFT, top=whole.top + place * pitch, width=whole.width, height=pitch - _BETWEEN)
        content += axes.open_shade(replay.open_spans, box, horizon)
        content += axes.day_lines(local_days(replay.start, horizon), box, horizon)
        content.append(axes.value_axis([0.0, top], box, unit=name))
        content.append(svg.label(_sum_of(replay.strategies[name]), box.right, box.top - 10, anchor="end"))
        content.append(_area(replay.strategies[name].series.at, totals[name], box, horizon=horizon, top=top, ink=ink))
    content.append(axes.day_labels(local_days(replay.start, horizon), box, horizon))
    return svg.picture(
        content,
        ident=view.ident,
        title="Nodes over time by strategy",
        desc=f"{len(inks)} panels on one scale: how many nodes each strategy keeps, business hours shaded.",
        size=view.size,
        box=whole,
    )


def cost_days(replay: Replay) -> tuple[Day, ...]:
    """One day for each entry of the longest `usd_per_day`, named by its local date."""
    length = max((len(result.usd_per_day) for result in replay.strategies.values()), default=0)
    dates = [replay.start + timedelta(days=place) for place in range(length)]  # wall time: the same hour of each date
    return tuple(Day(place, place + 1, f"{date:%a}", f"{date.day} {date:%b}") for place, date in enumerate(dates))


def _sum_of(result: StrategyResult) -> str:
    return f"{count(result.node_hours)} node-hours · {dollars(result.usd)}"


def _backdrop(replay: Replay, box: Box, horizon: float) -> list[str]:
    days = local_days(replay.start, horizon)
    return [
        axes.open_shade(replay.open_spans, box, horizon),
        axes.day_lines(days, box, horizon),
        axes.day_labels(days, box, horizon),
    ]


def _fleet_level(replay: Replay, strategy: str) -> int:
    """The fixed fleet's nodes; 0 where there is none to compare with."""
    if strategy == FLEET or FLEET not in replay.strategies:
        return 0
    return max(total_nodes(replay.strategies[FLEET].series), default=0)


def _fleet_line(level: int, box: Box, top: float) -> str:
    if not level:
        return ""
    y = box.bottom - box.height * level / top
    name = svg.label(f"fixed fleet: {level} nodes", box.right - 4, y - 6, class_="strong halo", anchor="end")
    return svg.line(box.left, y, box.right, y, class_="level") + name


def _stack(series: Series, inks: Mapping[str, str], box: Box, *, horizon: float, top: float) -> list[str]:
    groups = list(inks)
    areas: list[str] = []
    for size in range(len(groups), 0, -1):
        below = stacked({group: series.nodes[group] for group in groups[:size]}, len(series.at))
        areas.append(_area(series.at, below, box, horizon=horizon, top=top, ink=inks[groups[size - 1]]))
    return areas


def _area(at: Sequence[float], values: Sequence[int], box: Box, *, horizon: float, top: float, ink: str) -> str:
    columns = round(box.width / _PIXELS_PER_COLUMN)
    steps = thin(at, values, end=horizon, columns=columns)
    return svg.element("path", d=svg.step_area(steps, box, columns=columns, top=top), class_=f"f-{ink}")


def _bars(
    per_day: Mapping[str, Sequence[float]], inks: Mapping[str, str], box: Box, *, days: Sequence[Day], top: float
) -> list[str]:
    wide = box.width / max(1, len(days))
    gap = wide * 0.18
    bar = (wide - gap) / max(1, len(per_day))
    bars: list[str] = []
    for order, (name, values) in enumerate(per_day.items()):
        for place, usd in enumerate(values):
            said = svg.words("title", f"{name}, {days[place].weekday} {days[place].date}: {dollars(usd)}")
            high = box.height * usd / top
            left = box.left + place * wide + gap / 2 + order * bar
            bars.append(
                svg.element(
                    "rect",
                    said,
                    x=left,
                    y=box.bottom - high,
                    width=max(1.0, bar - 1),
                    height=high,
                    class_=f"f-{inks[name]}",
                )
            )
    return bars
