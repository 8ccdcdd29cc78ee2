"""A replay with a bar for each strategy, and anything else with one bar."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ebbtide.settings import StackSettings
from ebbtide.simulator.replay import replay
from ebbtide.simulator.results import Replay
from ebbtide.simulator.scene import ReplayOptions
from ebbtide.simulator.strategies import Strategy
from ebbtide.simulator.traces import Trace


def replay_with_bars(console: Console, settings: StackSettings, trace: Trace, options: ReplayOptions) -> Replay:
    """The bars are gone when it ends. Raises what `replay` raises."""
    columns = (TextColumn("{task.description:<20}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        tasks = {name: bars.add_task(name, total=1.0, visible=False) for name in Strategy}

        def progress(strategy: Strategy, share: float) -> None:
            bars.update(tasks[strategy], completed=share, visible=True)

        return replay(settings, trace, options, progress)


@contextmanager
def counted(console: Console, what: str) -> Generator[Callable[[int, int], None]]:
    """Yields what is told how much is done, and of how much; the bar is gone in the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        task = bars.add_task(what, total=1.0)

        def progress(done: int, of: int) -> None:
            bars.update(task, completed=done, total=of)

        yield progress
