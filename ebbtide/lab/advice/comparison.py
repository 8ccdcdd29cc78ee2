"""Compare stacks over one trace: the effect of other hours, sizes or groups on node-hours, dollars and waits.

All stacks are replayed from the same instant, aligned with the first one's hours. If each were aligned separately, a
change of business hours would move the jobs along with the hours and would show no effect.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from ebbtide.lab.report.measure import Measure, measure_of
from ebbtide.lab.report.pages.sentences import (
    coverage_line,
    headline,
    queue_line,
    scope_line,
    slow_line,
    spot_price_line,
    unpriced_line,
)
from ebbtide.lab.simulator.replay import replay
from ebbtide.lab.simulator.results import Replay, Strategy, StrategyResult, as_json
from ebbtide.lab.simulator.setup import ReplayOptions
from ebbtide.lab.simulator.trace.alignment import shifted_starts
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import count, known, percent
from ebbtide.text.durations import duration, short

SCHEMA = 1

Play = Callable[[StackSettings, Trace, ReplayOptions], Replay]


FIGURES = (
    "node_hours",
    "vcpu_hours",
    "usd",
    "wait_p50_s",
    "wait_p95_s",
    "wait_p99_s",
    "jobs_interrupted",
    "jobs_unfinished",
)
"""Figures of a strategy that are compared, by their names in the JSON."""


def replay_each(
    stacks: Sequence[StackSettings], trace: Trace, options: ReplayOptions, play: Play = replay
) -> list[Replay]:
    """Replay each stack, in their order. Raises what `replay` raises."""
    first = play(stacks[0], trace, options)
    same_start = replace(options, start=first.start)
    return [first, *(play(stack, trace, same_start) for stack in stacks[1:])]


def replay_shifted(
    stack: StackSettings, trace: Trace, options: ReplayOptions, shifts: Sequence[timedelta], play: Play = replay
) -> list[Replay]:
    """Replay the stack, and once more for each shift of its start. Raises what `replay` raises."""
    first = play(stack, trace, options)
    starts = shifted_starts(first.start, shifts)
    return [first, *(play(stack, trace, replace(options, start=start)) for start in starts)]


def differences(first: Replay, other: Replay) -> dict[str, dict[str, Any]]:
    """Return the other replay's figures minus the first's, by strategy; None if a price is missing on a side."""
    return {
        name: {figure: _less(getattr(result, figure), getattr(first.strategies[name], figure)) for figure in FIGURES}
        for name, result in other.strategies.items()
        if name in first.strategies
    }


def _less(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def comparison_json(replays: Sequence[Replay]) -> dict[str, Any]:
    """Return the JSON document: `stacks` are the replays, `differences` compare each later one with the first."""
    first = replays[0]
    return {
        "schema": SCHEMA,
        "trace": first.trace,
        "start": first.start.isoformat(),
        "stacks": [as_json(result) for result in replays],
        "differences": [
            {"stack": other.stack, "against": first.stack, "strategies": differences(first, other)}
            for other in replays[1:]
        ],
    }


def shifts_json(replays: Sequence[Replay]) -> dict[str, Any]:
    """Return the replay's document, with `shifts` for the shifted starts."""
    first = replays[0]
    return {
        **as_json(first),
        "shifts": [
            {"hours": (other.start - first.start).total_seconds() / 3600, "replay": as_json(other)}
            for other in replays[1:]
        ],
    }


_SAME_START = (
    "All stacks are replayed from the same start, aligned with the first stack's hours: a change of hours moves no job."
)


def comparison_table(replays: Sequence[Replay], *, assumptions: bool) -> Table:
    """Return a row per strategy and stack, and the changes of each further stack."""
    first = replays[0]
    table = _table(replays, f"{' against '.join(result.stack for result in reversed(replays))} on {first.trace}")
    table.add_column("strategy", no_wrap=True)
    table.add_column("stack", no_wrap=True)
    measure = measure_of(result for replay in replays for result in replay.strategies.values())
    _figures(table, measure)
    for name in first.strategies:
        for result in replays:
            if name in result.strategies:
                table.add_row(name if result is first else "", result.stack, *_cells(result.strategies[name], measure))
        for other in replays[1:]:
            change = differences(first, other).get(name)
            if change is not None:
                more = measure.of(other.strategies[name]) - measure.of(first.strategies[name])
                cells = (
                    _signed(count(abs(change["node_hours"])), change["node_hours"]),
                    _signed(_cell(measure, abs(more)), more),
                    _signed(short(duration(abs(change["wait_p50_s"]))), change["wait_p50_s"]),
                    _signed(short(duration(abs(change["wait_p95_s"]))), change["wait_p95_s"]),
                    _signed(count(abs(change["jobs_interrupted"])), change["jobs_interrupted"]),
                )
                table.add_row("", f"  {other.stack} changes", *cells, style="bold")
    table.caption = Text(
        "\n".join([*map(_covers, replays), _SAME_START, *_notes(replays), *_assumed(first, shown=assumptions)])
    )
    return table


def shift_table(replays: Sequence[Replay]) -> Table:
    """Compare the starts for the product's own strategy, or for the first if it was not replayed."""
    first = replays[0]
    product = Strategy.FIXED_FLEXIBLE.value
    strategy = product if product in first.strategies else next(iter(first.strategies))
    table = _table(replays, f"{strategy} of {first.stack} on {first.trace}, by the trace's start")
    table.add_column("start", no_wrap=True)
    measure = measure_of(shifted.strategies[strategy] for shifted in replays)
    _figures(table, measure)
    table.add_column("saves", justify="right")
    table.add_column("attain-\nable", justify="right")
    for shifted in replays:
        result = shifted.strategies[strategy]
        hours = (shifted.start - first.start).total_seconds() / 3600
        table.add_row(
            f"{shifted.start:%a %H:%M}" + (f" ({hours:+g} h)" if hours else ""),
            *_cells(result, measure),
            *(known(share, percent) for share in (result.saving_vs_fixed_fleet, shifted.attainable)),
        )
    table.caption = Text("\n".join(_notes(replays)))
    return table


def _table(replays: Sequence[Replay], title: str) -> Table:
    too_small = dict.fromkeys(f"{replay.stack}: {headline(replay)}." for replay in replays if replay.overloads)
    return Table(
        title=Text("\n".join([*too_small, title]), style="bold"),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def _figures(table: Table, measure: Measure) -> None:
    for heading in ("node-\nhours", measure.name.replace("-", "-\n"), "wait\np50", "wait\np95", "inter-\nrupted"):
        table.add_column(heading, justify="right", vertical="bottom")


def _cells(result: StrategyResult, measure: Measure) -> tuple[str, ...]:
    return (
        count(result.node_hours),
        _cell(measure, measure.of(result)),
        short(duration(result.wait_p50_s)),
        short(duration(result.wait_p95_s)),
        count(result.jobs_interrupted),
    )


def _cell(measure: Measure, amount: float) -> str:
    """The amount without its unit, which the heading has."""
    return measure.text(amount).removesuffix(f" {measure.name}")


def _signed(text: str, value: float) -> str:
    if not any(digit in text for digit in "123456789"):
        return "="
    return f"{'+' if value > 0 else '-'}{text}"


def _covers(replay: Replay) -> str:
    return f"{replay.stack} covers {coverage_line(replay)}. {queue_line(replay)}"


def _notes(replays: Sequence[Replay]) -> list[str]:
    """A line for each region whose node groups lack a price, for each stack with estimates, and for long waits."""
    lines = [unpriced_line(replay.unpriced) for replay in replays]
    lines += [f"Prices of {replay.stack}: {replay.estimated_prices}." for replay in replays if replay.estimated_prices]
    lines += [f"{replay.stack}: {line}" for replay in replays if (line := spot_price_line(replay))]
    lines += [f"{replay.stack}: {line}" for replay in replays if (line := slow_line(replay))]
    return list(dict.fromkeys(line for line in lines if line is not None))


def _assumed(replay: Replay, *, shown: bool) -> list[str]:
    assumed = ["Assumed:", *(f"- {sentence}" for sentence in replay.assumptions)]
    return [f"Replayed: {scope_line(replay)}.", *(assumed if shown else [])]
