"""Console and tables of all commands: text is never read as markup or cut, and tables look alike."""

from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ebbtide.text.sheet import Sheet

_UNLIMITED = 10_000  # columns


def console(*, stderr: bool = False, fold: bool = False, min_width: int = 0) -> Console:
    """Return a console whose long lines the terminal wraps; with `fold`, they are folded to its width, as tables need.

    `min_width` in columns applies if the terminal is narrower, or the output is a file.
    """
    out = Console(stderr=stderr, soft_wrap=not fold, highlight=False, markup=False, emoji=False)
    if out.width < min_width:
        out.width = min_width
    return out


def print_uncut(out: Console, shown: RenderableType) -> None:
    """Print tables no narrower than their minimum: Rich would cut cells on a narrow terminal; here the lines wrap.

    `crop` is off since a column with a `min_width` may exceed the width that Rich gave its table.
    """
    least = out.measure(shown, options=out.options.update(max_width=_UNLIMITED)).minimum
    width = out.width
    out.width = max(width, least)
    out.print(shown, crop=False)
    out.width = width


def laid_out(parts: Iterable[str | Sheet]) -> Group:
    """Return lines and tables below each other."""
    return Group(*(part if isinstance(part, str) else sheet_parts(part) for part in parts))


def sheet_parts(sheet: Sheet) -> Group:
    """Return the table with its caption above it and its notes below."""
    return Group(*filter(None, [sheet.caption]), sheet_table(sheet), *sheet.notes)


def sheet_table(sheet: Sheet) -> Table:
    """Return the table alone; without a line of headings if no column has one."""
    has_headings = any(column.name for column in sheet.columns)
    table_ = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), show_header=has_headings)
    rows = [[*map(Text, row)] for row in sheet.body]
    for place, column in enumerate(sheet.columns):
        cells = [column.name, *(row[place].plain for row in rows)]
        parts = [word for cell in cells for word in cell.split()] if column.fold else cells
        is_text = column.fold and not column.right  # figures fold between words only
        widest = None if is_text else max(map(cell_len, parts), default=0)
        table_.add_column(
            column.name,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=not column.fold,
            min_width=widest,
        )
    for row in rows:
        table_.add_row(*row)
    return table_
