"""`ebbtide simulate STACK` without a trace: the nights of a stack without worker pools."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from ebbtide.cli.console import fail, finish, needs, progress_bars, with_assumptions
from ebbtide.lab.simulator.replay import ReplayError, ReplayOptions
from ebbtide.lab.simulator.replay.nights import has_pools, nights_json, replay_nights
from ebbtide.lab.simulator.results import Strategy, Typed
from ebbtide.lab.simulator.trace.jobs import Reading
from ebbtide.prices.tables import ENVIRONMENT
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.text.files import Unwritable
from ebbtide.text.terminal import laid_out


def stack_of_nights(stacks: Sequence[str], of_jobs: Mapping[str, object]) -> StackSettings | None:
    """Return the stack if it is the only one and has no pools. `of_jobs` are the options that need a trace."""
    if len(stacks) != 1:
        return None
    try:
        settings = load_stack(stacks[0])
    except StackInvalid as error:
        fail(error)
    if has_pools(settings):
        return None
    if refused := [name for name, value in of_jobs.items() if value]:
        raise typer.BadParameter(
            f"{', '.join(refused)}: for a replay of jobs, found a stack without worker pools, whose nights are "
            f"replayed without a trace (for example: ebbtide simulate {stacks[0]})"
        )
    return settings


def show_nights(
    stack: str,
    settings: StackSettings,
    options: ReplayOptions,
    report: Path | None,
    json_file: Path | None,
    *,
    full: bool,
) -> None:
    if report is not None:
        needs("--report", "ebbtide.lab.report.pages.nights")
    try:
        with progress_bars(Strategy) as report_progress:
            nights = replay_nights(settings, options, report_progress)
    except ReplayError as error:
        fail(error)
    typed = Typed(stack=stack, trace="", reading=Reading(), prices=os.environ.get(ENVIRONMENT, ""))
    nights = replace(nights, replay=replace(nights.replay, typed=typed))
    if report is not None:
        from ebbtide.lab.report.pages.nights import write_nights

        try:
            write_nights(nights, report)
        except Unwritable as error:
            fail(error)
    from ebbtide.lab.report.pages.nights import night_lines

    shown = laid_out(night_lines(nights, assumptions=full))
    finish(json_file, nights_json(nights), with_assumptions(shown, full=full))
