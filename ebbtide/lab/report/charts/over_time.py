"""Charts of nodes, jobs and Ray workers over time. Pure: a replay and a width in, a chart as values out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.lab.report.charts.axes import Axis, axis_with, time_axis, value_axis
from ebbtide.lab.report.charts.palette import FLEET, JOBS, group_inks, job_inks, strategy_inks
from ebbtide.lab.report.charts.panel import (
    Chart,
    ChartView,
    Curve,
    Key,
    Level,
    Panel,
    Run,
    Shade,
    shades_of,
    sums_from_below,
)
from ebbtide.lab.report.charts.scales import (
    ChartWindow,
    busiest_day,
    cut,
    horizon_of,
    nice_ticks,
    stacked,
    stretch_of,
    thin,
    total_nodes,
)
from ebbtide.lab.report.charts.svg import text_width
from ebbtide.lab.report.measure import measure_of
from ebbtide.lab.simulator.results import RayGroupResult, Replay, StrategyResult
from ebbtide.text.counts import count, several

_PIXELS_PER_COLUMN = 1.5
_STRIP_ROW = 96.0
_BETWEEN_TWO = 36.0  # pixels from one of two panels to the other


def nodes_chart(replay: Replay, strategy: str, view: ChartView, *, reach: float = 0.0) -> Chart:
    """Nodes by group over time, stacked, with the fixed fleet's level where the replay has one.

    The axis ends no lower than `reach`, so that charts can be compared.
    """
    stretch = stretch_of(replay, strategy)
    fleet = _fleet_level(replay, strategy)
    return Chart(
        title=f"Nodes by group, {strategy}",
        desc=f"Stacked areas of the nodes of each group under {strategy} over {several(replay.days, 'day')}, business "
        "hours shaded.",
        height=view.high(400.0),
        keys=[*_group_keys(stretch), *([Key("fixed fleet", "level")] if fleet else [])],
        x=_time(stretch, view),
        shades=_shades(stretch),
        panels=[_nodes_panel(stretch, view, fleet=fleet, reach=reach)],
    )


def day_chart(replay: Replay, strategy: str, view: ChartView) -> Chart:
    """One day closely: nodes by group, and under them the jobs that run and wait."""
    long = stretch_of(replay, strategy)
    day = busiest_day(long)
    stretch = cut(long, day)
    return Chart(
        title=f"One day, {strategy}",
        desc=f"Two panels over {day.weekday} {day.date}: nodes by group, and jobs running with those that wait on top.",
        height=view.high(470.0),
        keys=[
            *_group_keys(stretch),
            *(Key(name, f"f-{ink}") for name, ink in job_inks(stretch.series.nodes).items()),
        ],
        x=_time(stretch, view),
        shades=_shades(stretch),
        between=_BETWEEN_TWO,
        panels=[_nodes_panel(stretch, view, share=0.62), _jobs_panel(stretch, view, share=0.38)],
    )


def jobs_chart(replay: Replay, strategy: str, view: ChartView) -> Chart:
    """Jobs running and jobs waiting, one panel above the other since their numbers may differ greatly."""
    stretch = stretch_of(replay, strategy)
    return Chart(
        title=f"Jobs running and waiting, {strategy}",
        desc=f"Two panels over {several(replay.days, 'day')}: jobs that run and jobs that wait, business hours shaded.",
        height=view.high(400.0),
        keys=[Key("running", "f-g1"), Key("waiting", "f-g3"), *_shade_keys(stretch)],
        x=_time(stretch, view),
        shades=_shades(stretch),
        between=_BETWEEN_TWO,
        panels=[
            Panel(
                y=value_axis(max(values, default=0), unit, count=ticks),
                marks=[_area(stretch, values, view, ink)],
                share=share,
            )
            for values, unit, ink, ticks, share in (
                (stretch.series.running, "jobs running", "g1", 4, 0.6),
                (stretch.series.waiting, "jobs waiting", "g3", 2, 0.4),
            )
        ],
    )


def strip_chart(replay: Replay, view: ChartView) -> Chart:
    """One narrow panel of all nodes for each strategy that has nodes over time, all on one scale."""
    stretches = {name: stretch_of(replay, name) for name in drawn_strategies(replay)}
    inks = strategy_inks(replay.strategies)
    totals = {name: total_nodes(stretch.series) for name, stretch in stretches.items()}
    top = nice_ticks(max((max(values, default=0) for values in totals.values()), default=0))[-1]
    return Chart(
        title="Nodes by strategy",
        desc=f"{several(len(stretches), 'panel')} on one scale: {', '.join(stretches) or 'nothing'}, business hours "
        "shaded.",
        height=44.0 + _STRIP_ROW * max(1, len(stretches)),
        x=time_axis(replay.start, horizon_of(replay), view.plot_width),
        shades=shades_of(replay.open_spans, replay.gaps),
        panels=[
            Panel(
                y=axis_with([0.0, top], name),
                marks=[_area(stretch, totals[name], view, inks[name])],
                aside=_sum_of(name, replay.strategies[name], view.plot_width),
            )
            for name, stretch in stretches.items()
        ],
    )


def drawn_strategies(replay: Replay) -> list[str]:
    """Return the strategies with nodes to draw; a bound may have none."""
    return [name for name in strategy_inks(replay.strategies) if replay.strategies[name].series.nodes]


def _sum_of(name: str, result: StrategyResult, width: float) -> str:
    """Return the longest text that fits on a line with the strategy's name."""
    measure = measure_of([result])
    hours, usd = count(result.node_hours), measure.text(measure.of(result))
    room = width - text_width(name) - 12
    texts = (f"{hours} node-hours · {usd}", f"{hours} node-h · {usd}")
    return next((text for text in texts if text_width(text) <= room), usd)


def _group_keys(stretch: ChartWindow) -> list[Key]:
    inks = group_inks(stretch.series.nodes)
    return [*(Key(group, f"f-{ink}") for group, ink in inks.items()), *_shade_keys(stretch)]


def _shade_keys(stretch: ChartWindow) -> list[Key]:
    """Return legend entries of the shades behind the data."""
    return [Key("business hours", "open"), *([Key("nothing recorded", "gap")] if stretch.gaps else [])]


def _shades(stretch: ChartWindow) -> list[Shade]:
    return shades_of(stretch.open_spans, stretch.gaps)


def _time(stretch: ChartWindow, view: ChartView) -> Axis:
    return time_axis(stretch.start, stretch.horizon, view.plot_width)


def _fleet_level(replay: Replay, strategy: str) -> int:
    """The fixed fleet's nodes; 0 where there is none to compare with."""
    if strategy == FLEET or FLEET not in replay.strategies:
        return 0
    return max(total_nodes(replay.strategies[FLEET].series), default=0)


def _nodes_panel(
    stretch: ChartWindow, view: ChartView, *, fleet: int = 0, reach: float = 0.0, share: float = 1.0
) -> Panel:
    highest = max(total_nodes(stretch.series), default=0)
    level = [Level(y=fleet, text=f"fixed fleet: {several(fleet, 'node')}", over=6)] if fleet else []
    areas = _areas(stretch, stretch.series.nodes, group_inks(stretch.series.nodes), view)
    return Panel(y=value_axis(max(fleet * 1.06, highest, reach), "nodes"), marks=[*areas, *level], share=share)


def _jobs_panel(stretch: ChartWindow, view: ChartView, *, share: float) -> Panel:
    jobs = dict(zip(JOBS, (stretch.series.running, stretch.series.waiting), strict=True))
    most = max(stacked(jobs, len(stretch.series.at)), default=0)
    areas = _areas(stretch, jobs, job_inks(stretch.series.nodes), view)
    return Panel(y=value_axis(most, "jobs", count=3), marks=areas, share=share)


def _areas(
    stretch: ChartWindow, counts: Mapping[str, Sequence[int]], inks: Mapping[str, str], view: ChartView
) -> list[Curve]:
    """Stacked areas in the order of their inks, the first one at the bottom."""
    sums = sums_from_below([counts[name] for name in inks])
    return [_area(stretch, values, view, ink) for ink, values in zip(reversed([*inks.values()]), sums, strict=True)]


def _area(stretch: ChartWindow, values: Sequence[float], view: ChartView, ink: str) -> Curve:
    columns = round(view.plot_width / _PIXELS_PER_COLUMN)
    steps = thin(stretch.series.at, values, end=stretch.horizon, columns=columns)
    edges = [*(step.column * stretch.horizon / columns for step in steps), stretch.horizon]
    return Curve(runs=[Run(edges, [step.value for step in steps])], ink=f"f-{ink}")


RAY_INKS: Mapping[str, str] = {"busy": "g1", "idle": "g2"}
_RAY_PANEL = 130.0


def ray_groups(result: StrategyResult) -> dict[str, RayGroupResult]:
    """Return the groups by cluster and name."""
    return {f"{name}/{key}": group for name, cluster in result.ray.items() for key, group in cluster.groups.items()}


def ray_chart(replay: Replay, strategy: str, view: ChartView) -> Chart:
    """Draw a panel for each group, each with its own scale."""
    stretch = stretch_of(replay, strategy)
    groups = ray_groups(replay.strategies[strategy])
    of_groups = {name: replace(stretch, series=group.series) for name, group in groups.items()}
    return Chart(
        title=f"Ray workers by group, {strategy}",
        desc=f"{several(len(groups), 'panel')}: workers with tasks and idle ones of {', '.join(groups)} under "
        f"{strategy}, business hours shaded.",
        height=60.0 + _RAY_PANEL * len(groups),
        keys=[*(Key(kind, f"f-{ink}") for kind, ink in RAY_INKS.items()), *_shade_keys(stretch)],
        x=_time(stretch, view),
        shades=_shades(stretch),
        panels=[
            Panel(
                y=value_axis(max(total_nodes(of_group.series), default=0), f"{name}: workers", count=2),
                marks=_areas(of_group, of_group.series.nodes, RAY_INKS, view),
            )
            for name, of_group in of_groups.items()
        ],
    )
