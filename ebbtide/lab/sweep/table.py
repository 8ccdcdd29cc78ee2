"""The terminal output of a sweep: a row for each stack with its best setting, and one for each setting."""

from collections.abc import Iterator
from math import isnan

from rich.console import RenderableType

from ebbtide.lab.sweep.summary import Cell, SettingSummary, StackSummary, SweepSummary, notes_of
from ebbtide.text.sheet import Sheet, left, right
from ebbtide.text.terminal import laid_out

SHOWN = 40
"""Rows of stacks, the largest regret first; the others are in the JSON and the Parquet."""


def sweep_table(summary: SweepSummary) -> RenderableType:
    return laid_out(_parts(summary))


def _parts(summary: SweepSummary) -> Iterator[str | Sheet]:
    spread = f"over {summary.seeds} seeds" if summary.seeds > 1 else "one seed"
    yield f"{summary.objective} ({summary.strategy}) on {', '.join(summary.traces)}, {spread}"
    yield ""
    stacks = sorted(summary.stacks, key=lambda stack: (-(stack.regret or 0), stack.customer))
    figures = right(summary.objective.figure, summary.against, fold=True)
    yield Sheet(
        columns=[*left("stack", "best setting", fold=True), *figures, *right("regret", "covered", fold=True)],
        rows=[_stack_row(stack) for stack in stacks[:SHOWN]],
        notes=[f"and {len(stacks) - SHOWN} more stacks, with less regret"] if len(stacks) > SHOWN else [],
    )
    if summary.settings:
        complete = len([stack for stack in summary.stacks if len(stack.cells) == len(summary.settings)])
        yield ""
        yield Sheet(
            columns=[*left("for all stacks", fold=True), *figures, *right("meets", fold=True)],
            rows=[_setting_row(setting, summary.best, complete) for setting in summary.settings],
        )
    yield ""
    yield from (*regrets(summary), *notes_of(summary))
    yield f"{summary.replays} replays, {summary.cpu_s:.1f} CPU seconds, figures {summary.digest}"


def regrets(summary: SweepSummary) -> list[str]:
    """The cost of one setting for all, in a sentence."""
    stacks = [(stack, stack.regret) for stack in summary.stacks if stack.regret is not None]
    if summary.best is None or not stacks:
        return []
    worst, most = max(stacks, key=lambda pair: pair[1])
    if most <= 0:
        return [f"One setting for all, {summary.best}: the best of every stack that it suits."]
    mean = sum(regret for _, regret in stacks) / len(stacks)
    bests = sum(stack.cells[str(stack.best)].value for stack, _ in stacks) / len(stacks)
    share = f" ({mean / bests:.2%})" if bests else ""
    above = f"{summary.objective.figure} is {figure(mean)}{share} above each stack's best on average"
    return [f"One setting for all, {summary.best}: {above}, at most {figure(most)} ({worst.customer})."]


def _stack_row(stack: StackSummary) -> list[str]:
    regret = "-" if stack.regret is None else figure(stack.regret)
    if stack.best is None:
        return [stack.customer, "none meets", "-", "-", regret, f"{stack.coverage:.0%}"]
    cell = stack.cells[stack.best]
    return [stack.customer, stack.best, spread_of(cell), figure(cell.other), regret, f"{stack.coverage:.0%}"]


def _setting_row(summary: SettingSummary, best: str | None, stacks: int) -> list[str]:
    name = f"{summary.setting} (best)" if summary.setting == best else summary.setting
    return [name, spread_of(summary), figure(summary.other), f"{summary.meets} of {stacks}"]


def spread_of(cell: Cell | SettingSummary) -> str:
    """The mean, with the range of the seeds if they differ."""
    low, high = figure(cell.low), figure(cell.high)
    return figure(cell.value) + (f" ({low} to {high})" if low != high else "")


def figure(value: float) -> str:
    """A number with enough digits to tell two settings apart; a dash if a price is missing."""
    if isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.5g}"
