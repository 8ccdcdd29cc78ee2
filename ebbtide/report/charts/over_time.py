"""Charts of nodes, jobs and Ray workers over time, as SVG text. Pure: a replay and a view in, markup out.

Inks are classes; `palette.CHART_CSS` gives them their colours on light and on dark paper. Stacked areas are painted
from the highest sum down to the lowest, each over the one before: no hairline of paper shows between two bands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.report.charts import svg
from ebbtide.report.charts.palette import FLEET, group_inks, strategy_inks
from ebbtide.report.charts.scales import (
    Box,
    Stretch,
    busiest_day,
    cut,
    horizon_of,
    nice_ticks,
    stacked,
    stretch_of,
    thin,
    total_nodes,
)
from ebbtide.report.charts.svg import OVER, ChartView, Key
from ebbtide.report.measure import measure_of
from ebbtide.report.words import count, several
from ebbtide.simulator.results import RayGroupResult, Replay, StrategyResult

_BETWEEN = 38.0  # from one panel of the strip to the next
_PIXELS_PER_COLUMN = 1.5


def nodes_chart(replay: Replay, strategy: str, view: ChartView) -> str:
    """Nodes by group over time, stacked, with the fixed fleet's level where the replay has one."""
    stretch = stretch_of(replay, strategy)
    inks = group_inks(stretch.series.nodes)
    level = _fleet_level(replay, strategy)
    keys = _group_keys(inks, stretch)
    keys += [Key("fixed fleet", "level")] if level else []
    box = view.box(keys)
    content = [
        svg.legend(keys, left=view.left, top=0, width=view.width - view.left),
        *_backdrop(stretch, box),
        *_stacked_panel(stretch, inks, box, level=level, reach=view.reach),
    ]
    return svg.picture(
        content,
        ident=view.ident,
        title=f"Nodes by group, {strategy}",
        desc=f"Stacked areas of the nodes of each group under {strategy} over {several(replay.days, 'day')}, business "
        "hours shaded.",
        size=view.size,
        box=box,
    )


def day_chart(replay: Replay, strategy: str, view: ChartView) -> str:
    """One day closely: nodes by group, and under them the jobs that run and wait."""
    long = stretch_of(replay, strategy)
    day = busiest_day(long)
    stretch = cut(long, day)
    inks = group_inks(stretch.series.nodes)
    keys = [*_group_keys(inks, stretch), Key("jobs running", "f-g5"), Key("jobs waiting", "f-g6")]
    upper, lower = view.panels(keys, share=0.62)
    content = [
        svg.legend(keys, left=view.left, top=0, width=view.width - view.left),
        shades(stretch, upper),
        *_stacked_panel(stretch, inks, upper),
        *_backdrop(stretch, lower),
        *_both_kinds_of_jobs(stretch, lower),
    ]
    return svg.picture(
        content,
        ident=view.ident,
        title=f"One day, {strategy}",
        desc=f"Two panels over {day.weekday} {day.date}: nodes by group, and jobs running with those that wait on top.",
        size=view.size,
        box=view.box(keys),
    )


def jobs_chart(replay: Replay, strategy: str, view: ChartView) -> str:
    """Jobs running and jobs waiting, one panel above the other since their sizes may differ by much."""
    stretch = stretch_of(replay, strategy)
    keys = [Key("running", "f-g1"), Key("waiting", "f-g3"), *shade_keys(stretch)]
    upper, lower = view.panels(keys, share=0.6)
    content = [
        svg.legend(keys, left=view.left, top=0, width=view.width - view.left),
        shades(stretch, upper),
        svg.time_lines(stretch.start, upper, stretch.horizon),
        *_backdrop(stretch, lower),
    ]
    for values, box, unit, ink in (
        (stretch.series.running, upper, "jobs running", "g1"),
        (stretch.series.waiting, lower, "jobs waiting", "g3"),
    ):
        ticks = nice_ticks(max(values, default=0), count=4 if box is upper else 2)
        content.append(svg.value_axis(ticks, box, unit=unit))
        content.append(_area(stretch, values, box, top=ticks[-1], ink=ink))
    return svg.picture(
        content,
        ident=view.ident,
        title=f"Jobs running and waiting, {strategy}",
        desc=f"Two panels over {several(replay.days, 'day')}: jobs that run and jobs that wait, business hours shaded.",
        size=view.size,
        box=view.box(keys),
    )


def strip_chart(replay: Replay, view: ChartView) -> str:
    """One narrow panel of all nodes for each strategy that has nodes over time, all on one scale."""
    stretches = {name: stretch_of(replay, name) for name in drawn_strategies(replay)}
    inks = strategy_inks(replay.strategies)
    totals = {name: total_nodes(stretch.series) for name, stretch in stretches.items()}
    top = nice_ticks(max((max(values, default=0) for values in totals.values()), default=0))[-1]
    pitch = (view.height - view.under + _BETWEEN - OVER) / max(1, len(stretches))
    content: list[str] = []
    box = Box(left=view.left, top=OVER, width=view.plot_width, height=view.height - OVER - view.under)
    for place, (name, stretch) in enumerate(stretches.items()):
        box = Box(left=view.left, top=OVER + place * pitch, width=view.plot_width, height=pitch - _BETWEEN)
        content.append(shades(stretch, box))
        content.append(svg.time_lines(stretch.start, box, stretch.horizon))
        content.append(svg.value_axis([0.0, top], box, unit=name))
        content.append(svg.label(_sum_of(name, replay.strategies[name], box), box.right, box.top - 10, anchor="end"))
        content.append(_area(stretch, totals[name], box, top=top, ink=inks[name]))
    content.append(svg.time_labels(replay.start, box, horizon_of(replay)))
    return svg.picture(
        content,
        ident=view.ident,
        title="Nodes by strategy",
        desc=f"{several(len(stretches), 'panel')} on one scale: {', '.join(stretches) or 'nothing'}, business hours "
        "shaded.",
        size=view.size,
        box=Box(left=box.left, top=OVER, width=box.width, height=box.bottom - OVER),
    )


def drawn_strategies(replay: Replay) -> list[str]:
    """Return the strategies with nodes to draw; a bound may have none."""
    return [name for name in strategy_inks(replay.strategies) if replay.strategies[name].series.nodes]


def _sum_of(name: str, result: StrategyResult, box: Box) -> str:
    """Return the longest text that fits on a line with the strategy's name."""
    measure = measure_of([result])
    hours, usd = count(result.node_hours), measure.text(measure.of(result))
    room = box.width - svg.text_width(name) - 12
    texts = (f"{hours} node-hours · {usd}", f"{hours} node-h · {usd}")
    return next((text for text in texts if svg.text_width(text) <= room), usd)


def _group_keys(inks: Mapping[str, str], stretch: Stretch) -> list[Key]:
    return [*(Key(group, f"f-{ink}") for group, ink in inks.items()), *shade_keys(stretch)]


def shade_keys(stretch: Stretch) -> list[Key]:
    """Return legend entries of the shades behind the data."""
    return [Key("business hours", "open"), *([Key("nothing recorded", "gap")] if stretch.gaps else [])]


def shades(stretch: Stretch, box: Box) -> str:
    """Business hours, and where nothing was recorded."""
    hours = svg.shade(stretch.open_spans, box, stretch.horizon, ink="open")
    return hours + svg.shade(stretch.gaps, box, stretch.horizon, ink="gap")


def _backdrop(stretch: Stretch, box: Box) -> list[str]:
    return [
        shades(stretch, box),
        svg.time_lines(stretch.start, box, stretch.horizon),
        svg.time_labels(stretch.start, box, stretch.horizon),
    ]


def _fleet_level(replay: Replay, strategy: str) -> int:
    """The fixed fleet's nodes; 0 where there is none to compare with."""
    if strategy == FLEET or FLEET not in replay.strategies:
        return 0
    return max(total_nodes(replay.strategies[FLEET].series), default=0)


def _stacked_panel(
    stretch: Stretch, inks: Mapping[str, str], box: Box, *, level: int = 0, reach: float = 0.0
) -> list[str]:
    highest = max(total_nodes(stretch.series), default=0)
    ticks = nice_ticks(max(level * 1.06, highest, reach))
    return [
        svg.value_axis(ticks, box, unit="nodes"),
        *stack(stretch, stretch.series.nodes, inks, box, top=ticks[-1]),
        _fleet_line(level, box, ticks[-1]),
    ]


def _both_kinds_of_jobs(stretch: Stretch, box: Box) -> list[str]:
    jobs = {"running": stretch.series.running, "waiting": stretch.series.waiting}
    ticks = nice_ticks(max(stacked(jobs, len(stretch.series.at)), default=0), count=3)
    return [
        svg.value_axis(ticks, box, unit="jobs"),
        *stack(stretch, jobs, {"running": "g5", "waiting": "g6"}, box, top=ticks[-1]),
    ]


def _fleet_line(level: int, box: Box, top: float) -> str:
    if not level:
        return ""
    y = box.bottom - box.height * level / top
    name = svg.label(f"fixed fleet: {several(level, 'node')}", box.right - 4, y - 6, class_="strong halo", anchor="end")
    return svg.line(box.left, y, box.right, y, class_="level") + name


def stack(
    stretch: Stretch, counts: Mapping[str, tuple[int, ...]], inks: Mapping[str, str], box: Box, *, top: float
) -> list[str]:
    """Areas in the order of their inks, the first one at the bottom; `top` is the value at the box's upper edge."""
    names = list(inks)
    areas: list[str] = []
    for size in range(len(names), 0, -1):
        below = stacked({name: counts[name] for name in names[:size]}, len(stretch.series.at))
        areas.append(_area(stretch, below, box, top=top, ink=inks[names[size - 1]]))
    return areas


def _area(stretch: Stretch, values: Sequence[int], box: Box, *, top: float, ink: str) -> str:
    columns = round(box.width / _PIXELS_PER_COLUMN)
    steps = thin(stretch.series.at, values, end=stretch.horizon, columns=columns)
    return svg.element("path", d=svg.step_area(steps, box, columns=columns, top=top), class_=f"f-{ink}")


RAY_INKS: Mapping[str, str] = {"busy": "g1", "idle": "g2"}
_RAY_PANEL = 130.0


def ray_groups(result: StrategyResult) -> dict[str, RayGroupResult]:
    """Return the groups by cluster and name."""
    return {f"{name}/{key}": group for name, cluster in result.ray.items() for key, group in cluster.groups.items()}


def ray_height(replay: Replay, strategy: str) -> float:
    return 60.0 + _RAY_PANEL * len(ray_groups(replay.strategies[strategy]))


def ray_chart(replay: Replay, strategy: str, view: ChartView) -> str:
    """Draw a panel for each group, each with its own scale."""
    stretches = _ray_stretches(replay, strategy)
    keys = [*(Key(kind, f"f-{ink}") for kind, ink in RAY_INKS.items()), *shade_keys(stretch_of(replay, strategy))]
    outer = view.box(keys)
    pitch = (outer.height + _BETWEEN) / len(stretches)
    content = [svg.legend(keys, left=view.left, top=0, width=view.width - view.left)]
    for place, (name, stretch) in enumerate(stretches.items()):
        box = Box(left=outer.left, top=outer.top + place * pitch, width=outer.width, height=pitch - _BETWEEN)
        ticks = nice_ticks(max(total_nodes(stretch.series), default=0), count=2)
        content += [
            shades(stretch, box),
            svg.time_lines(stretch.start, box, stretch.horizon),
            svg.value_axis(ticks, box, unit=f"{name}: workers"),
            *stack(stretch, stretch.series.nodes, RAY_INKS, box, top=ticks[-1]),
        ]
    content.append(svg.time_labels(replay.start, outer, stretch_of(replay, strategy).horizon))
    return svg.picture(
        content,
        ident=view.ident,
        title=f"Ray workers by group, {strategy}",
        desc=f"{several(len(stretches), 'panel')}: workers with tasks and idle ones of {', '.join(stretches)} under "
        f"{strategy}, business hours shaded.",
        size=view.size,
        box=outer,
    )


def _ray_stretches(replay: Replay, strategy: str) -> dict[str, Stretch]:
    groups = ray_groups(replay.strategies[strategy])
    return {name: replace(stretch_of(replay, strategy), series=group.series) for name, group in groups.items()}
