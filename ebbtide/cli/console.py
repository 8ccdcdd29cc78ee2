"""Exit, output files and progress of every command. Dependencies of only some commands are imported when used."""

import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from ebbtide.text.files import Unwritable, write_file

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

    from ebbtide.lab.simulator.results import Replay
    from ebbtide.lab.simulator.setup import ReplayOptions
    from ebbtide.lab.simulator.trace.traces import Reading, Trace
    from ebbtide.prices.aws_client import AwsClient
    from ebbtide.settings import StackSettings


def fail(*lines: object, code: int = 1) -> NoReturn:
    """End with a message on stderr. Exit codes: 1 the answer is "no", 2 wrong use."""
    for line in lines:
        typer.echo(str(line), err=True)
    raise typer.Exit(code)


def needs(option: str, module: str) -> None:
    """Import the module that an option needs; a missing package is reported before a replay, not after it."""
    try:
        import_module(module)
    except ModuleNotFoundError as missing:
        fail(f"{option} needs {missing.name}, which is not installed; pip install 'ebbtide[simulate]'", code=2)


def aws_client(option: str) -> "AwsClient":
    """Return an AWS client with the caller's login."""
    try:
        from ebbtide.prices.aws_client import AwsClient, new_client
    except ModuleNotFoundError as missing:
        fail(f"{option} needs {missing.name}, which is not installed; pip install 'ebbtide[aws]'")
    return AwsClient(new_client)


def write(path: Path, text: str) -> None:
    """Write a file, or fail with one line."""
    try:
        write_file(path, text)
    except Unwritable as error:
        fail(error)


def write_json(path: Path, document: Any) -> None:
    write(path, json.dumps(document, indent=2) + "\n")


def finish(json_file: Path | None, document: Any, shown: "RenderableType", out: "Console | None" = None) -> None:
    """Write the JSON file, then show the figures. The file `-` prints only the JSON."""
    from ebbtide.text.terminal import console, print_uncut

    if json_file is not None and str(json_file) == "-":
        typer.echo(json.dumps(document, indent=2))
        return
    if json_file is not None:
        write_json(json_file, document)
    print_uncut(out or console(fold=True), shown)


def with_assumptions(shown: "RenderableType", *, full: bool) -> "RenderableType":
    """Add a line about where to find the assumptions, unless `full` shows them."""
    from rich.console import Group

    return shown if full else Group(shown, "Assumptions: --full, or the page of --report.")


@contextmanager
def progress_bars(names: Iterable[str]) -> Generator[Callable[[str, float], None]]:
    """Yield `report(name, share done)`. Each name has a bar, which appears with its first report."""
    with _bars("{task.description:<20}", "{task.percentage:>3.0f} %") as bars:
        tasks = {name: bars.add_task(name, total=1.0, visible=False) for name in names}
        yield lambda name, share: bars.update(tasks[name], completed=share, visible=True)


@contextmanager
def progress_count(name: str) -> Generator[Callable[[int, int], None]]:
    """Yield `report(number done, total)` of one bar."""
    with _bars("{task.description}", "{task.completed:.0f}/{task.total:.0f}") as bars:
        task = bars.add_task(name, total=1.0)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def progress_replays(total: int, existing: int) -> Generator[Callable[[int, int], None]]:
    """Yield `report(number done, number failed)` of one bar with the remaining time; `existing` replays are done."""
    with _bars("{task.description}", "to go") as bars:
        from rich.progress import TimeRemainingColumn

        bars.columns = (*bars.columns, TimeRemainingColumn())
        task = bars.add_task("replays", total=float(total - existing))

        def report(done: int, failed: int) -> None:
            remaining = total - existing - done - failed
            description_ = f"{existing + done} done, {failed} failed, {remaining} left"
            bars.update(task, completed=done + failed, description=description_)

        yield report


def read_with_bar(name: str, reading: "Reading", stacks: "Sequence[StackSettings]" = ()) -> "Trace":
    """Read a trace, with a bar for a large file, and print what was recognized in it. Raises `TraceError`.

    With `stacks`, times and queues are read for them.
    """
    from ebbtide.lab.simulator.trace.queues import trace_for
    from ebbtide.lab.simulator.trace.traces import find_trace

    read = partial(trace_for, stacks) if stacks else find_trace
    if sys.stderr.isatty():
        with progress_bars([name]) as report:
            trace = read(name, reading, partial(report, name))
    else:
        trace = read(name, reading)
    if trace.summary:
        typer.echo(f"{name}: {trace.summary}", err=True)
    return trace


def _bars(before: str, after: str) -> "Progress":
    """Bars on stderr that disappear at the end."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from ebbtide.text.terminal import console

    columns = (TextColumn(before), BarColumn(), TextColumn(after), TimeElapsedColumn())
    return Progress(*columns, console=console(stderr=True), transient=True)


def replay_with_bars(settings: "StackSettings", trace: "Trace", options: "ReplayOptions") -> "Replay":
    """Replay with a bar for each strategy, or fail with one line."""
    from ebbtide.lab.simulator.replay import ReplayError, replay
    from ebbtide.lab.simulator.results import Strategy

    try:
        with progress_bars(Strategy) as report:
            return replay(settings, trace, options, report)
    except ReplayError as error:
        fail(error)
