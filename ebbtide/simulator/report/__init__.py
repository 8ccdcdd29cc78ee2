"""The replay as a page, as a terminal table and as one picture: reads a `Replay`, decides nothing.

Only the page needs Jinja, so it is imported when one is written.
"""

from collections.abc import Mapping
from pathlib import Path

from ebbtide.simulator.report.picture import readme_picture
from ebbtide.simulator.report.table import strategy_table
from ebbtide.simulator.results import Replay

__all__ = ["readme_picture", "strategy_table", "write_report"]


def write_report(
    replay: Replay, path: Path, *, live: Mapping[str, str] | None = None, title: str = "Ebbtide replay"
) -> None:
    """Write the page, whole or not at all; `live` is what a live run found. Raises: `Unwritable`."""
    from ebbtide.simulator.report import page

    page.write_report(replay, path, live=live, title=title)
