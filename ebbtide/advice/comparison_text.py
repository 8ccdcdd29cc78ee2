"""Replays side by side in a terminal: one table for stacks, one for shifts of the start."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from ebbtide.advice.comparison import differences
from ebbtide.report.pages.sentences import coverage_line, scope_line
from ebbtide.report.words import DASH, count, dollars, duration, percent, short
from ebbtide.simulator.results import Replay, Strategy, StrategyResult

_SAME_START = (
    "All stacks are replayed from the same start, aligned with the first stack's hours: a change of hours moves no job."
)


def comparison_table(replays: Sequence[Replay], *, assumptions: bool) -> Table:
    """For each strategy a row per stack, and what each further stack changes."""
    first = replays[0]
    table = _table(f"{' against '.join(found.stack for found in reversed(replays))} on {first.trace}")
    table.add_column("strategy", no_wrap=True)
    table.add_column("stack", no_wrap=True)
    _figures(table)
    for name in first.strategies:
        for found in replays:
            if name in found.strategies:
                table.add_row(name if found is first else "", found.stack, *_cells(found.strategies[name]))
        for other in replays[1:]:
            change = next((each for each in differences(first, other) if each.strategy == name), None)
            if change is not None:
                cells = (
                    _signed(count(abs(change.node_hours)), change.node_hours),
                    _signed(dollars(abs(change.usd)), change.usd),
                    _signed(short(duration(abs(change.wait_p50_s))), change.wait_p50_s),
                    _signed(short(duration(abs(change.wait_p95_s))), change.wait_p95_s),
                    _signed(count(abs(change.jobs_interrupted)), change.jobs_interrupted),
                )
                table.add_row("", f"  {other.stack} changes", *cells, style="bold")
    table.caption = Text("\n".join([*map(_covers, replays), _SAME_START, *_assumed(first, shown=assumptions)]))
    return table


def shift_table(replays: Sequence[Replay]) -> Table:
    """The product's own strategy for each start, or the first there is."""
    first = replays[0]
    told = Strategy.FIXED_FLEXIBLE.value
    strategy = told if told in first.strategies else next(iter(first.strategies))
    table = _table(f"{strategy} of {first.stack} on {first.trace}, by the trace's start")
    table.add_column("start", no_wrap=True)
    _figures(table)
    table.add_column("saves", justify="right")
    table.add_column("attain-\nable", justify="right")
    for found in replays:
        result = found.strategies[strategy]
        hours = (found.start - first.start).total_seconds() / 3600
        table.add_row(
            f"{found.start:%a %H:%M}" + (f" ({hours:+g} h)" if hours else ""),
            *_cells(result),
            *(DASH if share is None else percent(share) for share in (result.saving_vs_fixed_fleet, found.attainable)),
        )
    return table


def _table(title: str) -> Table:
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def _figures(table: Table) -> None:
    for heading in ("node-\nhours", "dollars", "wait\np50", "wait\np95", "inter-\nrupted"):
        table.add_column(heading, justify="right", vertical="bottom")


def _cells(result: StrategyResult) -> tuple[str, ...]:
    return (
        count(result.node_hours),
        dollars(result.usd),
        short(duration(result.wait_p50_s)),
        short(duration(result.wait_p95_s)),
        count(result.jobs_interrupted),
    )


def _signed(text: str, value: float) -> str:
    if not any(digit in text for digit in "123456789"):
        return "="
    return f"{'+' if value > 0 else '-'}{text}"


def _covers(found: Replay) -> str:
    return f"{found.stack} covers {coverage_line(found)}."


def _assumed(found: Replay, *, shown: bool) -> list[str]:
    assumed = ["Assumed:", *(f"- {sentence}" for sentence in found.assumptions)]
    return [f"Replayed: {scope_line(found)}.", *(assumed if shown else [])]
