"""Several replays on one page: stacks at one start, or one stack at several.

The main strategy is drawn once for each replay, on one scale. If all replays start at one instant, their days are shown
side by side as well. Shifted starts have different days, so only sums and waits are compared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ebbtide.lab.report.charts import by_strategy, hover, over_time
from ebbtide.lab.report.charts.palette import FLEET, strategy_inks
from ebbtide.lab.report.charts.panel import Chart, ChartView
from ebbtide.lab.report.charts.scales import total_nodes
from ebbtide.lab.report.measure import DOLLARS, Measure, measure_of
from ebbtide.lab.report.pages import sentences, sheets
from ebbtide.lab.report.pages.figures import Figure, FigurePlan, figure_of
from ebbtide.lab.report.pages.table import HEADINGS, columns_in, strategy_rows
from ebbtide.lab.report.pages.template import rendered
from ebbtide.lab.report.words import glued
from ebbtide.lab.simulator.results import Replay, StrategyResult
from ebbtide.text.counts import DASH, known, percent, several
from ebbtide.text.durations import duration
from ebbtide.text.files import write_file
from ebbtide.text.sheet import Sheet, left, right

_CHANGE, _JOBS, _CPU_HOURS = "change", "covers jobs", "covers CPU-hours"
_HARM_FROM = HEADINGS.index("wait p50")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Replays of one trace by their names; the others are compared with the first one."""

    replays: Mapping[str, Replay]
    strategy: str  # drawn on every side

    @property
    def first(self) -> Replay:
        return next(iter(self.replays.values()))

    @property
    def noun(self) -> str:
        """The kind of the sides' names."""
        return "stack" if self.one_start else "start"

    @property
    def one_start(self) -> bool:
        return len({replay.start for replay in self.replays.values()}) == 1

    def result(self, name: str) -> StrategyResult:
        return self.replays[name].strategies[self.strategy]

    @property
    def measure(self) -> Measure:
        return measure_of(map(self.result, self.replays))

    def as_one(self) -> Replay:
        """A replay whose strategies are the sides, for charts that draw strategies."""
        return replace(self.first, attainable=None, strategies={name: self.result(name) for name in self.replays})


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """A figure with its coverage and the attainable saving."""

    figure: Figure
    coverage: str
    attainable: str | None


def write_comparison(replays: Sequence[Replay], path: Path, *, title: str = "Ebbtide comparison") -> None:
    """Write the page atomically. All replays are of one trace. Raises: `Unwritable`."""
    write_file(path, render_comparison(replays, title=title))


def render_comparison(replays: Sequence[Replay], *, title: str) -> str:
    sides = sides_of(replays)
    starts = f"{sides.first.stack}, {several(len(sides.replays), 'start')},"
    names = " and ".join(sides.replays) if sides.one_start else starts
    return rendered(
        "comparison.html.j2",
        title=f"{title}: {names} on {sides.first.trace}",
        verdict=verdict(sides),
        scope=_scope(sides),
        comparisons=[*main_sheets(sides), strategies_sheet(sides)],
        figures=_figures(sides),
        assumed=_assumptions(sides),
        commands=[sentences.command(replay) for replay in sides.replays.values()],
        seed=sides.first.seed,
    )


def _scope(sides: Sides) -> str:
    scope = sentences.scope_line(sides.first)
    return scope if sides.one_start else f"{scope}, and from {', '.join(list(sides.replays)[1:])}"


def sides_of(replays: Sequence[Replay]) -> Sides:
    """Name the sides by stack, or by start if one stack is replayed at several; number equal names."""
    stacks = [replay.stack for replay in replays]
    starts = [f"{replay.start:%a} {replay.start.day} {replay.start:%b %H:%M}" for replay in replays]
    names = stacks if len(set(stacks)) > 1 or len(set(starts)) == 1 else starts
    numbered = [f"{name} ({place})" if names.count(name) > 1 else name for place, name in enumerate(names, start=1)]
    strategy = sentences.main_strategy(replays[0])
    shared = [name for name in replays[0].strategies if all(name in replay.strategies for replay in replays)]
    if strategy not in shared:
        strategy = shared[0]
    return Sides(replays=dict(zip(numbered, replays, strict=True)), strategy=strategy)


def verdict(sides: Sides) -> str:
    """One sentence: which side costs least and what it does to waits, or how far a saving depends on the start.

    Sides whose demand exceeds the stack are named instead.
    """
    too_small = [f"{name}: {sentences.headline(replay)}" for name, replay in sides.replays.items() if replay.overloads]
    if too_small:
        return "; ".join(too_small)
    over = glued(several(sides.first.days, "day"))
    if not sides.one_start:
        return f"{sides.strategy} {_range(sides)} over {over}"
    base, *others = sides.replays
    measure = sides.measure
    best = min(others, key=lambda name: measure.of(sides.result(name)))
    before, after = sides.result(base), sides.result(best)
    was, now = measure.of(before), measure.of(after)
    waits = f"with a p95 wait of {glued(duration(after.wait_p95_s))} instead of {glued(duration(before.wait_p95_s))}"
    if measure.text(was) == measure.text(now):
        return f"{best} {measure.verb} as much as {base} over {over}, {waits}"
    less = was - now
    share = f" ({glued(percent(abs(less) / was))})" if was else ""
    among = f", the {measure.least} of {len(sides.replays)} stacks," if len(others) > 1 and less > 0 else ""
    than = f"{'less' if less > 0 else 'more'} than {base}"
    return f"{best}{among} {measure.verb} {measure.text(abs(less))}{share} {than} over {over}, {waits}"


def _range(sides: Sides) -> str:
    starts = several(len(sides.replays), "start")
    savings = [saving for name in sides.replays if (saving := sides.result(name).saving_vs_fixed_fleet) is not None]
    if savings:
        return f"saves {_between(percent, savings)} against the fixed fleet of its start, at {starts}"
    measure = sides.measure
    amounts = [measure.of(sides.result(name)) for name in sides.replays]
    return f"{measure.verb} {_between(measure.text, amounts)} at {starts}"


def _between(text_of: Callable[[float], str], values: Sequence[float]) -> str:
    """Return the least and the most, or one of them if both read the same."""
    return " to ".join(dict.fromkeys(glued(text_of(end)) for end in (min(values), max(values))))


def main_sheets(sides: Sides) -> list[Sheet]:
    """Cost of the main strategy on each side, and its effect on jobs and services."""
    rows = {name: _cells(sides, name) for name in sides.replays}
    first, paid, *money = columns_in(sides.measure, HEADINGS[:_HARM_FROM])
    costs = (first, paid, _CHANGE, *money, "attainable", _JOBS, _CPU_HOURS)
    return [
        Sheet(
            caption=f"{caption}, {sides.strategy}",
            columns=[*left(sides.noun), *right(*columns)],
            rows=[(name, *(cells[column] for column in columns)) for name, cells in rows.items()],
        )
        for caption, columns in (
            ("Cost", costs),
            ("Effect on jobs and services", HEADINGS[_HARM_FROM:]),
        )
    ]


def _cells(sides: Sides, name: str) -> dict[str, str]:
    replay, base = sides.replays[name], next(iter(sides.replays))
    row = next(row for row in strategy_rows(replay) if row.strategy == sides.strategy)
    paid, before = (sides.measure.of(sides.result(side)) for side in (name, base))
    return {
        **row.cells,
        _CHANGE: DASH if name == base else sides.measure.change(paid - before),
        "attainable": known(replay.attainable, percent),
        _JOBS: percent(replay.coverage.jobs),
        _CPU_HOURS: percent(replay.coverage.cpu_hours),
    }


def strategies_sheet(sides: Sides) -> Sheet:
    """Dollars, or vCPU-hours, of every strategy that any side has."""
    measure = measure_of(result for replay in sides.replays.values() for result in replay.strategies.values())
    names = strategy_inks([name for replay in sides.replays.values() for name in replay.strategies])
    return Sheet(
        caption=f"{'Dollars' if measure is DOLLARS else measure.name} by strategy",
        columns=[*left("strategy"), *right(*sides.replays)],
        rows=[(name, *(_paid(replay, name, measure) for replay in sides.replays.values())) for name in names],
    )


def _paid(replay: Replay, name: str, measure: Measure) -> str:
    return measure.text(measure.of(replay.strategies[name])) if name in replay.strategies else DASH


def _figures(sides: Sides) -> list[ShownFigure]:
    levels = [
        max(total_nodes(replay.strategies[name].series), default=0)
        for replay in sides.replays.values()
        for name in (sides.strategy, FLEET)
        if name in replay.strategies
    ]
    reach = 1.06 * max(levels, default=0)
    of_sides = [
        ShownFigure(
            _nodes(place, name, sides, reach), sentences.coverage_line(replay), sentences.attainable_line(replay)
        )
        for place, (name, replay) in enumerate(sides.replays.items())
    ]
    shared = [*(_days_side_by_side(sides) if sides.one_start else []), _waits(sides)]
    covered = {sentences.coverage_line(replay) for replay in sides.replays.values()}
    coverage = (
        sentences.coverage_line(sides.first) if len(covered) == 1 else "a different part of the trace on each side"
    )
    return [*of_sides, *(ShownFigure(figure, coverage, None) for figure in shared)]


def _nodes(place: int, name: str, sides: Sides, reach: float) -> Figure:
    replay, strategy = sides.replays[name], sides.strategy

    def chart(view: ChartView) -> Chart:
        return replace(over_time.nodes_chart(replay, strategy, view, reach=reach), height=view.high(340.0))

    plan = FigurePlan(
        heading=f"Nodes by group: {name}",
        note=sentences.nodes_line(replay, strategy),
        chart=chart,
    )
    return figure_of(
        f"nodes-{place}", plan, sheets.nodes_sheet(replay, strategy), hover.nodes_hover(replay, strategy).document()
    )


def _days_side_by_side(sides: Sides) -> list[Figure]:
    by_side = sides.as_one()
    strip = FigurePlan(
        heading="Total nodes",
        note=f"{sides.strategy} on each stack, on one scale.",
        chart=lambda view: over_time.strip_chart(by_side, view),
    )
    cost = FigurePlan(
        heading="Cost of each local day",
        note=f"What {sides.strategy} pays on each stack for the nodes of one calendar day.",
        chart=lambda view: by_strategy.cost_chart(by_side, view),
    )
    shown = [figure_of("strip", strip, _by(sides, sheets.strip_sheet(by_side)), hover.strip_hover(by_side).document())]
    if by_strategy.cost_strategies(by_side):
        sheet = _by(sides, sheets.cost_sheet(by_side))
        shown.append(figure_of("cost", cost, sheet, hover.cost_hover(by_side).document()))
    return shown


def _waits(sides: Sides) -> Figure:
    by_side = sides.as_one()
    plan = FigurePlan(
        heading="Waits of jobs",
        note=f"{sides.strategy}, by {sides.noun}.",
        chart=lambda view: by_strategy.wait_chart(by_side, view),
    )
    return figure_of("waits", plan, _by(sides, sheets.waits_sheet(by_side)))


def _by(sides: Sides, sheet: Sheet) -> Sheet:
    """Relabel a table of strategies as one of sides."""
    caption = sheet.caption.replace("by strategy", f"by {sides.noun}").replace("and strategy", f"and {sides.noun}")
    first, *others = sheet.columns
    named = replace(first, name=sides.noun) if first.name == "strategy" else first
    return replace(sheet, caption=f"{caption}, {sides.strategy}", columns=[named, *others])


def _assumptions(sides: Sides) -> list[tuple[str, Sequence[str]]]:
    """Assumptions that all sides share, then each side's other ones."""
    shared = [
        assumption
        for assumption in sides.first.assumptions
        if all(assumption in replay.assumptions for replay in sides.replays.values())
    ]
    special = [
        (name, [assumption for assumption in replay.assumptions if assumption not in shared])
        for name, replay in sides.replays.items()
    ]
    return [("All", shared), *((name, assumption) for name, assumption in special if assumption)]
