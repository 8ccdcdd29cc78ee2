"""Replays as pages, as a terminal table and as one picture: reads `Replay`s, decides nothing.

Only the pages need Jinja, so they are imported when one is written.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ebbtide.lab.report.charts.services import LoadStep
from ebbtide.lab.report.pages.picture import load_step_picture, readme_picture, served_day_picture
from ebbtide.lab.report.pages.table import strategy_table
from ebbtide.lab.simulator.results import Replay

__all__ = [
    "LoadStep",
    "load_step_picture",
    "readme_picture",
    "served_day_picture",
    "strategy_table",
    "write_comparison",
    "write_report",
]


def write_comparison(replays: Sequence[Replay], path: Path, *, title: str = "Ebbtide comparison") -> None:
    """Write the page of several replays of one trace atomically. Raises: `Unwritable`."""
    from ebbtide.lab.report.pages import comparison

    comparison.write_comparison(replays, path, title=title)


def write_report(
    replay: Replay,
    path: Path,
    *,
    live: Mapping[str, str] | None = None,
    step: LoadStep | None = None,
    title: str = "Ebbtide replay",
) -> None:
    """Write the page atomically; `live` and `step` are a live run's results. Raises: `Unwritable`."""
    from ebbtide.lab.report.pages import page

    page.write_report(replay, path, live=live, step=step, title=title)
