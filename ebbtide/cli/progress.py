"""A replay with a bar for each strategy."""

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
