"""`ebbtide simulate`: what would a trace of jobs cost on this stack, and on its alternatives?

Reads the stack file, the trace and the shipped price tables, nothing else.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from ebbtide.cli.progress import replay_with_bars
from ebbtide.files import Unwritable, write_file
from ebbtide.prices import NoPrice
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.settings.types import parse_positive_duration
from ebbtide.simulator.document import as_json
from ebbtide.simulator.replay import ReplayError, ReplayOptions
from ebbtide.simulator.report import strategy_table
from ebbtide.simulator.results import Replay
from ebbtide.simulator.strategies import Strategy
from ebbtide.simulator.traces import Trace, TraceError, bundled, find_trace

command = typer.Typer(rich_markup_mode=None)


def _start(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"wanted an ISO date and time, found {text!r} (for example 2026-03-02T08:00)"
        ) from None


def _length(text: str) -> timedelta:
    try:
        return parse_positive_duration(text)
    except ValueError:
        raise typer.BadParameter(f"wanted a duration above zero, found {text!r} (for example 8h)") from None


_TRACE = f"A .csv or .csv.gz file of jobs, or a bundled trace: {', '.join(bundled())}."
_ALIGNED = "Local time of the trace's second 0; default: its busy hours are put on business hours."


@command.command(epilog="Example: ebbtide simulate demo --trace openb2023-a --days 7 --report report.html")
def simulate(
    stack: Annotated[str, typer.Argument(metavar="STACK", help="A name (demo for stacks/Pulumi.demo.yaml) or a path.")],
    trace: Annotated[str, typer.Option(metavar="FILE", help=_TRACE)],
    *,
    start: Annotated[datetime | None, typer.Option(parser=_start, metavar="TIME", help=_ALIGNED)] = None,
    days: Annotated[int | None, typer.Option(min=1, help="Days of the trace to replay; default: all.")] = None,
    max_job: Annotated[
        timedelta | None, typer.Option(parser=_length, metavar="8h", help="Leave longer jobs out.")
    ] = None,
    strategy: Annotated[list[Strategy] | None, typer.Option(help="May be repeated; default: all.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same figures.")] = 0,
    report: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write an HTML page.")] = None,
    no_rollouts: Annotated[
        bool, typer.Option("--no-rollouts", help="Never deploy the stack's services, to see what that changes.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", dir_okay=False, help="Write the figures as JSON.")
    ] = None,
) -> None:
    """Replay a trace of jobs: node-hours, dollars, waits."""
    settings, jobs = _read(stack, trace)
    options = ReplayOptions(
        days=days,
        start=start,
        max_job_s=None if max_job is None else max_job.total_seconds(),
        strategies=tuple(strategy or Strategy),
        seed=seed,
        rollouts=not no_rollouts,
    )
    write_report = None if report is None else _report_writer()
    found = _replayed(settings, jobs, options)
    try:
        if json_file is not None:
            write_file(json_file, json.dumps(as_json(found), indent=2) + "\n")
        if report is not None and write_report is not None:
            write_report(found, report)
    except Unwritable as error:
        _fail(str(error))
    Console().print(strategy_table(found))


def _report_writer() -> Callable[[Replay, Path], None]:
    """Only a page needs Jinja; and whoever wants one hears that it is missing before the replay, not after it."""
    try:
        from ebbtide.simulator.report.page import write_report
    except ModuleNotFoundError as missing:
        typer.echo(f"--report needs {missing.name}, which is not installed; pip install 'ebbtide[simulate]'", err=True)
        raise typer.Exit(2) from None
    return write_report


def _read(stack: str, trace: str) -> tuple[StackSettings, Trace]:
    try:
        return load_stack(stack), find_trace(trace)
    except (StackInvalid, TraceError) as error:
        _fail(str(error))


def _replayed(settings: StackSettings, trace: Trace, options: ReplayOptions) -> Replay:
    try:
        return replay_with_bars(Console(stderr=True), settings, trace, options)
    except (ReplayError, NoPrice) as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)
