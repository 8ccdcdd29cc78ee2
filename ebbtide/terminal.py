"""What every text on a terminal shares: text is never read as markup, nothing is cut, and tables look alike."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def console(*, stderr: bool = False, fold: bool = False, min_width: int = 0) -> Console:
    """Long lines are left to the terminal to wrap, or folded to its width with `fold`, as tables need.

    `min_width` is the width in columns where the terminal is narrower, or where the output is a file.
    """
    out = Console(stderr=stderr, soft_wrap=not fold, highlight=False, markup=False, emoji=False)
    if out.width < min_width:
        out.width = min_width
    return out


def table(columns: Sequence[str], rows: Iterable[Sequence[str]] = (), *, fold: Sequence[str] | None = ()) -> Table:
    """Headers that begin with `>` are aligned to the right. Cells of the `fold` columns wrap; None: of all columns."""
    found = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        name, justify = column.removeprefix(">"), "right" if column.startswith(">") else "left"
        found.add_column(name, justify=justify, overflow="fold", no_wrap=fold is not None and name not in fold)
    for row in rows:
        found.add_row(*map(Text, row))
    return found
