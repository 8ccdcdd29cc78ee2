"""Tables as plain data, with their renderers for Markdown and CSV.

`ebbtide.text.terminal` renders them for a terminal, `ebbtide.lab.report` as HTML. Imports no Rich: that takes longer
than many commands.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ebbtide.text.counts import DASH, count, known, percent
from ebbtide.text.durations import duration, latency
from ebbtide.text.money import cents, dollars, whole_dollars

Cell: TypeAlias = str | float | None
"""Text, or a number in the unit of its column; None: not known."""


@dataclass(frozen=True, slots=True)
class Unit:
    name: str  # for CSV, which has the bare numbers
    text: Callable[[float], str]


COUNT = Unit("", count)
TENTHS = Unit("", "{:,.1f}".format)
DOLLARS = Unit("USD", dollars)
CENTS = Unit("USD", cents)
WHOLE_DOLLARS = Unit("USD", whole_dollars)
HUNDREDTHS = Unit("", "{:.2f}".format)
SHARE = Unit("", percent)
DURATION = Unit("s", duration)
LATENCY = Unit("s", latency)


def exact_share(digits: int) -> Unit:
    """Return the unit of shares with a fixed number of digits: `12.34%`."""
    return Unit("", f"{{:.{digits}%}}".format)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    unit: Unit = COUNT
    right: bool = False
    fold: bool = False  # on a narrow terminal its cells wrap; those of other columns never do
    code: bool = False  # its cells are names of fields or objects: Markdown shows them in code font
    steps: bool = False  # Markdown shows `1 → 2`, a changed figure, in bold
    unbroken: bool = False  # Markdown keeps each cell on one line
    unknown: str = DASH

    def text(self, cell: Cell) -> str:
        return cell if isinstance(cell, str) else known(cell, self.unit.text, self.unknown)


def left(*names: str, fold: bool = False, code: bool = False) -> list[Column]:
    """Return columns of text."""
    return [Column(name, fold=fold, code=code) for name in names]


def right(
    *names: str, unit: Unit = COUNT, unknown: str = DASH, fold: bool = False, steps: bool = False
) -> list[Column]:
    """Return columns of figures."""
    return [Column(name, unit, right=True, fold=fold, steps=steps, unknown=unknown) for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Each row has one cell for each column; the first column names the rows."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    total: Sequence[Cell] | None = None
    caption: str = ""
    notes: Sequence[str] = ()

    def texts(self, row: Sequence[Cell]) -> list[str]:
        return [column.text(cell) for column, cell in zip(self.columns, row, strict=True)]

    @property
    def body(self) -> list[list[str]]:
        """The texts of all rows, the total last."""
        return [self.texts(row) for row in (*self.rows, *([] if self.total is None else [self.total]))]


def markdown(sheet: Sheet, escape: Callable[[str], str]) -> str:
    """Return a table of GitHub Flavored Markdown, with its caption above it and its notes as a list below.

    `escape` gets each text, headings included: a cell may hold foreign text. In the total, the name and all figures are
    bold.
    """

    def shown(column: Column, text: str, *, bold: bool = False) -> str:
        cell = f"<code>{escape(text)}</code>" if column.code and text else escape(text)
        cell = cell.replace(" ", "\N{NO-BREAK SPACE}") if column.unbroken else cell
        return f"**{cell}**" if bold or (column.steps and "→" in text) else cell

    def total(place: int, column: Column, text: str) -> str:
        return shown(column, text, bold=place == 0 or column.right)

    rows: list[Iterable[str]] = [
        (escape(column.name) for column in sheet.columns),
        ("---:" if column.right else "---" for column in sheet.columns),
        *(map(shown, sheet.columns, sheet.texts(row)) for row in sheet.rows),
    ]
    if sheet.total is not None:
        rows.append(map(total, range(len(sheet.columns)), sheet.columns, sheet.texts(sheet.total)))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    notes = "\n".join(f"- {escape(note)}" for note in sheet.notes)
    return "\n\n".join(part for part in (escape(sheet.caption), table, notes) if part)


def csv_text(sheet: Sheet) -> str:
    """Return the rows as CSV, without the total: numbers as they are, and an empty cell for None."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.name + (f" ({column.unit.name})" if column.unit.name else "") for column in sheet.columns)
    writer.writerows(sheet.rows)
    return out.getvalue()
