"""Console and tables of all commands: text is never read as markup or cut, and tables look alike."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def console(*, stderr: bool = False, fold: bool = False, min_width: int = 0) -> Console:
    """The terminal wraps long lines, or with `fold` they are folded to its width, as tables need.

    `min_width` in columns applies if the terminal is narrower, or the output is a file.
    """
    out = Console(stderr=stderr, soft_wrap=not fold, highlight=False, markup=False, emoji=False)
    if out.width < min_width:
        out.width = min_width
    return out


def table(columns: Sequence[str], rows: Iterable[Sequence[str]] = (), *, fold: Sequence[str] | None = ()) -> Table:
    """Headers that begin with `>` are aligned to the right. Cells of the `fold` columns wrap; None: of all columns."""
    table_ = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        name, justify = column.removeprefix(">"), "right" if column.startswith(">") else "left"
        table_.add_column(name, justify=justify, overflow="fold", no_wrap=fold is not None and name not in fold)
    for row in rows:
        table_.add_row(*map(Text, row))
    return table_


def one_line(text: str) -> str:
    """The text without line ends, cursor movement or changes of direction: unprintable characters become codes."""
    return "".join(
        letter if letter.isprintable() else " " if letter in "\n\r\t" else ascii(letter)[1:-1] for letter in text
    )
