"""`ebbtide advise`: what to commit to, and which floors to plan, from usage that was replayed or recorded.

Reads the stack file, a trace or a file of usage, and the price tables, nothing else.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ebbtide.cli.options import length
from ebbtide.cli.outputs import fail, finish
from ebbtide.cli.progress import replay_with_bars
from ebbtide.prices import NoPrice
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.simulator.replay import ReplayError, ReplayOptions
from ebbtide.simulator.results import Replay
from ebbtide.simulator.scene import require_node_groups
from ebbtide.simulator.strategies import Strategy
from ebbtide.simulator.traces import TraceError, bundled, find_trace

command = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

_STACK = "A name (demo for stacks/Pulumi.demo.yaml) or a path."
_TRACE = f"A .csv or .csv.gz file of jobs, or a bundled trace: {', '.join(bundled())}."


@command.callback()
def every_advice() -> None:
    """Advice that rests on usage: what to commit to, which floors to plan."""


@command.command(epilog="Example: ebbtide advise savings demo --trace openb2023-a")
def savings(
    stack: Annotated[str, typer.Argument(metavar="STACK", help=_STACK)],
    *,
    trace: Annotated[str | None, typer.Option(metavar="FILE", help=_TRACE)] = None,
    usage: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Recorded usage instead: CSV with hour, group, nodes."),
    ] = None,
    beyond_floor: Annotated[
        bool, typer.Option("--beyond-floor", help="Commit to more than every hour used, where that costs least.")
    ] = False,
    days: Annotated[int | None, typer.Option(min=1, help="Days of the trace to replay; default: all.")] = None,
    max_job: Annotated[
        timedelta | None, typer.Option(parser=length, metavar="8h", help="Leave longer jobs of the trace out.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", dir_okay=False, help="Write the figures as JSON.")
    ] = None,
) -> None:
    """Which Savings Plan pays for the stack's nodes, and how much of one. An estimate, never a purchase."""
    from ebbtide.advice.savings import savings_advice
    from ebbtide.advice.savings_text import as_json, as_text
    from ebbtide.advice.usage import UsageError, read_usage, usage_of

    if (trace is None) is (usage is None):
        raise typer.BadParameter("wanted one of --trace and --usage (for example --trace openb2023-a)")
    settings = _stack(stack)
    try:
        if usage is not None:
            seen = read_usage(usage, settings)
        else:
            options = ReplayOptions(
                days=days,
                max_job_s=None if max_job is None else max_job.total_seconds(),
                strategies=(Strategy.FIXED_FLEXIBLE,),
            )
            seen = usage_of(_replayed(settings, str(trace), options), settings)
        found = savings_advice(settings, seen, beyond_floor=beyond_floor)
    except (UsageError, NoPrice) as error:
        fail(str(error))
    finish(json_file, as_json(found), as_text(found))


@command.command(epilog="Example: ebbtide advise floors demo --trace openb2023-a")
def floors(
    stack: Annotated[str, typer.Argument(metavar="STACK", help=_STACK)],
    trace: Annotated[str, typer.Option(metavar="FILE", help=_TRACE)],
    *,
    spend: Annotated[
        float, typer.Option(min=0, max=100, help="Per cent that floors may add to the bill.", show_default=True)
    ] = 2.0,
    max_job: Annotated[
        timedelta | None, typer.Option(parser=length, metavar="8h", help="Leave longer jobs of the trace out.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", dir_okay=False, help="Write the figures as JSON.")
    ] = None,
) -> None:
    """Which planned floors would have cut the mornings' waits, at which cost: lines for the stack file."""
    from ebbtide.advice.floors_text import as_json, as_text
    from ebbtide.advice.trials import floor_advice
    from ebbtide.cli.progress import counted

    settings = _stack(stack)
    options = ReplayOptions(max_job_s=None if max_job is None else max_job.total_seconds())
    try:
        with counted(Console(stderr=True), "trials") as progress:
            found = floor_advice(settings, find_trace(trace), options, spend / 100, progress)
    except (ReplayError, NoPrice, TraceError) as error:
        fail(str(error))
    finish(json_file, as_json(found), as_text(found))


def _stack(stack: str) -> StackSettings:
    try:
        settings = load_stack(stack)
        require_node_groups(settings)
    except (StackInvalid, ReplayError) as error:
        fail(str(error))
    return settings


def _replayed(settings: StackSettings, trace: str, options: ReplayOptions) -> Replay:
    try:
        return replay_with_bars(Console(stderr=True), settings, find_trace(trace), options)
    except (ReplayError, NoPrice, TraceError) as error:
        fail(str(error))
