"""How every command ends, writes files and shows progress. What only some commands need is imported when it is used."""

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from ebbtide.files import Unwritable, write_file

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

    from ebbtide.settings import StackSettings
    from ebbtide.simulator.results import Replay
    from ebbtide.simulator.setup import ReplayOptions
    from ebbtide.simulator.trace.traces import Trace


def fail(*lines: object, code: int = 1) -> NoReturn:
    """End with a message on stderr. Exit codes: 1 the answer is "no", 2 wrong use."""
    for line in lines:
        typer.echo(str(line), err=True)
    raise typer.Exit(code)


def needs(option: str, module: str) -> None:
    """Only a page needs Jinja; and the lack of it is reported before a replay, not after it."""
    try:
        import_module(module)
    except ModuleNotFoundError as missing:
        fail(f"{option} needs {missing.name}, which is not installed; pip install 'ebbtide[simulate]'", code=2)


def write(path: Path, text: str) -> None:
    """Write a whole file, or fail with one line."""
    try:
        write_file(path, text)
    except Unwritable as error:
        fail(error)


def write_json(path: Path, document: Any) -> None:
    write(path, json.dumps(document, indent=2) + "\n")


def finish(json_file: Path | None, document: Any, shown: "RenderableType") -> None:
    """Write the JSON file before anything is shown: whoever sees the figures has the file too. `-` shows it instead."""
    from ebbtide.terminal import console

    if json_file is not None and str(json_file) == "-":
        typer.echo(json.dumps(document, indent=2))
        return
    if json_file is not None:
        write_json(json_file, document)
    console(fold=True).print(shown)


def with_assumptions(shown: "RenderableType", *, full: bool) -> "RenderableType":
    """In full it says what was assumed; else where that is said."""
    from rich.console import Group

    return shown if full else Group(shown, "Assumptions: --full, or the page of --report.")


@contextmanager
def progress_bars(names: Iterable[str]) -> Generator[Callable[[str, float], None]]:
    """One bar per name, shown from its first report on; yields `report(name, share done)`."""
    with _bars("{task.description:<20}", "{task.percentage:>3.0f} %") as bars:
        tasks = {name: bars.add_task(name, total=1.0, visible=False) for name in names}
        yield lambda name, share: bars.update(tasks[name], completed=share, visible=True)


@contextmanager
def progress_count(what: str) -> Generator[Callable[[int, int], None]]:
    """One bar; yields `report(number done, total)`."""
    with _bars("{task.description}", "{task.completed:.0f}/{task.total:.0f}") as bars:
        task = bars.add_task(what, total=1.0)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def progress_replays(total: int, kept: int) -> Generator[Callable[[int, int], None]]:
    """One bar with the time to go; `kept`: those that are there already. Yields `report(those done, those failed)`."""
    with _bars("{task.description}", "to go") as bars:
        from rich.progress import TimeRemainingColumn

        bars.columns = (*bars.columns, TimeRemainingColumn())
        task = bars.add_task("replays", total=float(total - kept))

        def report(done: int, failed: int) -> None:
            left = total - kept - done - failed
            told = f"{kept + done} done, {failed} failed, {left} left"
            bars.update(task, completed=done + failed, description=told)

        yield report


def _bars(before: str, after: str) -> "Progress":
    """On stderr, and gone at the end."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from ebbtide.terminal import console

    columns = (TextColumn(before), BarColumn(), TextColumn(after), TimeElapsedColumn())
    return Progress(*columns, console=console(stderr=True), transient=True)


def replay_with_bars(settings: "StackSettings", trace: "Trace", options: "ReplayOptions") -> "Replay":
    """One replay with a bar for each strategy, or one line that says why it cannot be."""
    from ebbtide.prices import NoPrice
    from ebbtide.simulator.replay import ReplayError, replay
    from ebbtide.simulator.results import Strategy

    try:
        with progress_bars(Strategy) as report:
            return replay(settings, trace, options, report)
    except (ReplayError, NoPrice) as error:
        fail(error)
