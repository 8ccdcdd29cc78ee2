"""The strategies side by side: one set of rows for the page and for the terminal."""

from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from ebbtide.simulator.report.palette import strategy_inks
from ebbtide.simulator.report.sentences import attainable_line, coverage_line, scope_line, told_strategy
from ebbtide.simulator.report.words import DASH, count, dollars, duration, percent, short
from ebbtide.simulator.results import Replay, StrategyResult

HEADINGS = (
    "node-hours",
    "dollars",
    "saving vs fixed fleet (p95 not worse)",
    "wait p50",
    "wait p95",
    "jobs interrupted",
    "evictions in window",
    "evictions in business hours",
)
# The terminal has 80 columns: the last two of the above are one here.
_NARROW_HEADINGS = (
    "node-\nhours",
    "dollars",
    "saving\n(p95 not\nworse)",
    "wait\np50",
    "wait\np95",
    "jobs\ninter-\nrupted",
    "evic-\ntions\nin/out",
)


@dataclass(frozen=True, slots=True)
class Row:
    strategy: str
    cells: tuple[str, ...]  # one for each of HEADINGS
    told: bool  # the strategy that the page is about
    ink: str


def strategy_rows(replay: Replay) -> list[Row]:
    told = told_strategy(replay)
    return [
        Row(name, _cells(replay.strategies[name]), name == told, ink)
        for name, ink in strategy_inks(replay.strategies).items()
    ]


def strategy_table(replay: Replay, *, assumptions: bool = True) -> Table:
    """The rows as a table that fits 80 columns, with what was assumed below it; names are never read as markup."""
    table = Table(
        title=Text(f"{replay.stack} on {replay.trace}", style="bold"),
        caption=Text(_caption(replay, assumptions=assumptions)),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("strategy", no_wrap=True, vertical="bottom")
    for heading in _NARROW_HEADINGS:
        table.add_column(heading, justify="right", overflow="fold", vertical="bottom")
    for row in strategy_rows(replay):
        hours, usd, saving, p50, p95, interrupted, inside, outside = row.cells
        words = (row.strategy, hours, usd, saving, short(p50), short(p95), interrupted, f"{inside}/{outside}")
        table.add_row(*(Text(word) for word in words), style="bold" if row.told else None)
    return table


def _cells(result: StrategyResult) -> tuple[str, ...]:
    saving = result.saving_vs_fixed_fleet
    return (
        count(result.node_hours),
        dollars(result.usd),
        DASH if saving is None else percent(saving),
        duration(result.wait_p50_s),
        duration(result.wait_p95_s),
        count(result.jobs_interrupted),
        count(result.evictions_in_window),
        count(result.evictions_in_business_hours),
    )


def _caption(replay: Replay, *, assumptions: bool) -> str:
    lines = [
        f"Covers {coverage_line(replay)}.",
        f"Replayed: {scope_line(replay)}.",
        "Savings: against the smallest fixed fleet whose p95 wait is not above that of fixed-flexible.",
        "Evictions: in the disruption window / in business hours.",
    ]
    attainable = attainable_line(replay)
    if attainable:
        lines.append(f"{attainable[0].upper()}{attainable[1:]} of the fixed fleet's dollars.")
    if assumptions and replay.assumptions:
        lines += ["Assumed:", *(f"- {assumption}" for assumption in replay.assumptions)]
    return "\n".join(lines)
