"""The strategies side by side: one set of rows for the page and for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from ebbtide.lab.report.charts.by_strategy import percentiles
from ebbtide.lab.report.charts.palette import BOUND, FLEET, strategy_inks
from ebbtide.lab.report.measure import DOLLARS, VCPU_HOURS, Measure, measure_of, paid
from ebbtide.lab.report.pages.ray import ray_lines
from ebbtide.lab.report.pages.sentences import (
    SAME_WAIT_RULE,
    WORSE_WAIT,
    attainable_line,
    coverage_line,
    headline,
    interrupted_or_saved,
    main_strategy,
    queue_line,
    reached_of,
    saves_lines,
    savings_rule,
    scope_line,
    small_share,
    spot_price_line,
    subject,
    waits_worse,
)
from ebbtide.lab.simulator.results import Replay, StrategyResult
from ebbtide.text.counts import DASH, count, percent
from ebbtide.text.durations import duration, short
from ebbtide.text.sheet import DURATION, Sheet, left, right

SAVING = "saving vs fixed fleet (p95 not worse)"
_MONEY = ("node-hours", "dollars", "on demand", "with spot", SAVING, "share of attainable")
_ON_A_PAGE = ("dollars", SAVING, "node-hours", "on demand", "with spot", "share of attainable")
"""The same columns; a telephone shows the first two without scrolling."""
_JOBS = ("wait p50", "wait p95", "wait p99", "jobs unfinished", "jobs interrupted", "lost work")
_HARM = (*_JOBS, "evictions in window", "evictions in business hours")
_VS_FLEET = "vCPU-hours vs fixed fleet"
_ONLY_MONEY = ("on demand", "with spot", "share of attainable")
HEADINGS = (*_MONEY, *_HARM)
_EVICTIONS = "evictions"
_WIDE, _USUAL = 118, 78  # columns of a terminal that fits all figures, and the most important ones
_SLIM_COLUMNS = ("dollars", "wait p95", "wait p99", "jobs unfinished", "jobs interrupted")
_USUAL_COLUMNS = ("node-hours", "dollars", SAVING, *_SLIM_COLUMNS[1:], _EVICTIONS)
_WIDE_COLUMNS = (*_MONEY, *_JOBS, _EVICTIONS)
_SHORT = {
    "node-hours": "node-\nhours",
    "on demand": "on\ndemand",
    "with spot": "with\nspot",
    SAVING: "saving",
    "share of attainable": "of at-\ntain-\nable",
    VCPU_HOURS.name: "vCPU-\nhours",
    _VS_FLEET: "vs fixed\nfleet",
    "wait p50": "wait\np50",
    "wait p95": "wait\np95",
    "wait p99": "wait\np99",
    "jobs unfinished": "jobs\nunfin-\nished",
    "jobs interrupted": "jobs\ninter-\nrupted",
    "lost work": "lost\nwork",
    _EVICTIONS: "evic-\ntions\nin/out",
}


@dataclass(frozen=True, slots=True)
class StrategyRow:
    strategy: str
    cells: Mapping[str, str]  # by the headings above
    is_main: bool  # the strategy that the page is about
    ink: str


@dataclass(frozen=True, slots=True)
class StrategyTable:
    """A renderable that picks its columns by the width of the console; names are never read as markup."""

    replay: Replay
    assumptions: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        usual = _USUAL_COLUMNS if options.max_width >= _USUAL else _SLIM_COLUMNS
        yield _table(self, _WIDE_COLUMNS if options.max_width >= _WIDE else usual)


def strategy_table(replay: Replay, *, assumptions: bool = True) -> StrategyTable:
    """The rows as a table for 80 columns or for 120, with the assumptions below it."""
    return StrategyTable(replay, assumptions)


def strategy_rows(replay: Replay) -> list[StrategyRow]:
    main = main_strategy(replay)
    return [
        StrategyRow(name, _cells(replay, name), name == main, ink)
        for name, ink in strategy_inks(replay.strategies).items()
    ]


def comparison_sheets(replay: Replay) -> list[Sheet]:
    """The page's tables: what each strategy costs, what it does to jobs and services, and, where jobs were interrupted
    or saved, what that cost.
    """
    rows = strategy_rows(replay)
    money = columns_in(measure_of(replay.strategies.values()), _ON_A_PAGE)
    sheets = [
        Sheet(
            caption=caption,
            columns=[*left("strategy"), *right(*columns)],
            rows=[(row.strategy, *(row.cells[column] for column in columns)) for row in rows],
        )
        for caption, columns in (("Cost", money), ("Effect on jobs and services", _HARM))
    ]
    saves = interrupted_or_saved(replay)
    return [*sheets, *_pools_sheet(replay), *([_saves_sheet(saves)] if saves else [])]


def _pools_sheet(replay: Replay) -> Iterator[Sheet]:
    """The pools of the product and of the fixed fleet, which has to be as good for each."""
    names = [name for name in (main_strategy(replay), FLEET) if name in replay.strategies]
    results = {name: replay.strategies[name].pools for name in dict.fromkeys(names) if name is not None}
    rows = [
        (f"{name}: {pool}", of.jobs, of.wait_p95_s, of.wait_p99_s, of.jobs_unfinished)
        for name, pools in results.items()
        for pool, of in pools.items()
    ]
    if rows:
        waits = right("wait p95", "wait p99", unit=DURATION)
        columns = [*left("strategy and pool"), *right("jobs"), *waits, *right("jobs unfinished")]
        yield Sheet(caption="Pools", columns=columns, rows=rows)


def _saves_sheet(results: Mapping[str, StrategyResult]) -> Sheet:
    return Sheet(
        caption="Interruptions and checkpoints",
        columns=[
            *left("strategy"),
            *right("interruptions", "resumes"),
            *right("lost work", unit=DURATION),
            *right("share of work"),
            *right("spent saving", "p95 completion", unit=DURATION),
        ],
        rows=[
            (
                name,
                result.jobs_interrupted,
                result.resumes,
                result.lost_work_s,
                small_share(result.lost_work_share),
                result.saving_s,
                result.completion_p95_s,
            )
            for name, result in results.items()
        ],
    )


def _table(view: StrategyTable, columns: Sequence[str]) -> Table:
    table = Table(
        title=Text(f"{headline(view.replay)}.\n{subject(view.replay)}", style="bold"),
        caption=Text(_caption(view.replay, assumptions=view.assumptions)),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=0,  # the box has a blank between columns
    )
    table.add_column("strategy", no_wrap=True, vertical="bottom")
    columns = columns_in(measure_of(view.replay.strategies.values()), columns)
    for column in columns:
        table.add_column(_SHORT.get(column, column), justify="right", overflow="fold", vertical="bottom")
    for row in strategy_rows(view.replay):
        evictions = f"{row.cells['evictions in window']}/{row.cells['evictions in business hours']}"
        cells = {**row.cells, _EVICTIONS: evictions}
        words = (row.strategy, *(short(cells[column]) for column in columns))
        table.add_row(*(Text(word) for word in words), style="bold" if row.is_main else None)
    return table


def _cells(replay: Replay, name: str) -> dict[str, str]:
    """A dash where a figure is not known or means nothing: a replay may come from an earlier version."""
    result = replay.strategies[name]
    waits = percentiles(result)
    return {
        "node-hours": count(result.node_hours),
        "dollars": paid(result.usd),
        "on demand": paid(result.usd_on_demand) if result.usd_on_demand or not result.usd else DASH,
        "with spot": paid(result.usd_with_spot),
        SAVING: _saving(replay, name),
        VCPU_HOURS.name: count(result.vcpu_hours),
        _VS_FLEET: _versus_fleet(replay, name),
        "share of attainable": _reached(replay, name),
        "wait p50": duration(waits["p50"]),
        "wait p95": duration(waits["p95"]),
        "wait p99": duration(waits["p99"]) if "p99" in waits else DASH,
        "jobs unfinished": count(result.jobs_unfinished),
        **_harm(result, bound=name == BOUND),
    }


def _harm(result: StrategyResult, *, bound: bool) -> dict[str, str]:
    """A bound is a sum, not a run: nothing could be interrupted or evicted in it."""
    cells = {
        "jobs interrupted": count(result.jobs_interrupted),
        "lost work": duration(result.lost_work_s),
        "evictions in window": count(result.evictions_in_window),
        "evictions in business hours": count(result.evictions_in_business_hours),
    }
    return dict.fromkeys(cells, DASH) if bound else cells


def columns_in(measure: Measure, columns: Sequence[str]) -> list[str]:
    """The columns of a table: with vCPU-hours instead of dollars where a price is missing."""
    if measure is DOLLARS:
        return list(columns)
    instead = {"dollars": VCPU_HOURS.name, SAVING: _VS_FLEET, **dict.fromkeys(_ONLY_MONEY, "")}
    return [column for heading in columns if (column := instead.get(heading, heading))]


def _versus_fleet(replay: Replay, name: str) -> str:
    """The difference in vCPU-hours, as a share of the fixed fleet's. It is no saving: savings are in dollars."""
    fleet = replay.strategies.get(FLEET)
    if fleet is None or name == FLEET or not fleet.vcpu_hours or not replay.states_saving:
        return DASH
    mark = "*" if waits_worse(replay, name) else ""
    return percent(replay.strategies[name].vcpu_hours / fleet.vcpu_hours - 1) + mark


def _saving(replay: Replay, name: str) -> str:
    share = replay.strategies[name].saving_vs_fixed_fleet
    return DASH if share is None else f"{percent(share)}{'*' if waits_worse(replay, name) else ''}"


def _reached(replay: Replay, name: str) -> str:
    """The share, only for a saving, and only if the wait is not worse."""
    reached = reached_of(replay, name)
    return DASH if reached is None or reached < 0 or waits_worse(replay, name) else percent(reached)


def _caption(replay: Replay, *, assumptions: bool) -> str:
    lines = [
        f"Covers {coverage_line(replay)}.",
        queue_line(replay),
        f"Replayed: {scope_line(replay)}.",
        savings_rule(replay),
    ]
    if any(waits_worse(replay, name) for name in replay.strategies):
        lines.append(f"{WORSE_WAIT} {SAME_WAIT_RULE}")
    lines.append("Evictions: in the disruption window / in business hours.")
    lines += [f"Prices: {replay.estimated_prices}."] if replay.estimated_prices else []
    lines += [line] if (line := spot_price_line(replay)) else []
    lines += saves_lines(replay)
    lines += ray_lines(replay, main_strategy(replay))
    attainable = attainable_line(replay)
    if attainable:
        lines.append(f"{attainable[0].upper()}{attainable[1:]} of the fixed fleet's dollars.")
    if assumptions and replay.assumptions:
        lines += ["Assumed:", *(f"- {assumption}" for assumption in replay.assumptions)]
    return "\n".join(lines)
