"""Reads a table of text into rows, and says of each bad cell: file, line, column, what was found, what is wanted.

A figure that cannot be read is never skipped: a bill with a hole looks cheaper than it is.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar, Protocol, Self, TypeVar

MOST_PROBLEMS = 20
"""Of one file: a file of another kind has a fault in every line, and nobody reads a thousand lines."""


_MOST_DIGITS = 9


class TableRow(Protocol):
    FILE: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]  # what makes it a dataclass to the type checker

    @classmethod
    def read(cls, cells: "Cells") -> Self: ...

    @property
    def key(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=TableRow)


@dataclass(frozen=True, slots=True)
class Cells:
    """One line of a table. A bad cell is told in `problems` and read as something harmless."""

    where: str  # "ec2.csv, line 14"
    values: Mapping[str, str]
    problems: list[str]

    def text(self, column: str) -> str:
        return self.values[column]

    def name(self, column: str, example: str) -> str:
        found = self.values[column]
        if not found or found != found.strip():
            self._wrong(column, f"a name, for example {example}")
        return found

    def one_of(self, column: str, known: Sequence[str]) -> str:
        found = self.values[column]
        if found in known:
            return found
        self._wrong(column, f"one of {', '.join(known)}")
        return known[0]

    def whole(self, column: str) -> int:
        found = self.values[column]
        if found.isascii() and found.isdigit() and len(found) <= _MOST_DIGITS:
            return int(found)
        self._wrong(column, "a whole number, for example 8")
        return 0

    def usd(self, column: str, example: str) -> float:
        price = self._number(column)
        if price is None or price <= 0:
            self._wrong(column, f"US dollars above zero, for example {example}")
            return 1.0
        return price

    def fraction(self, column: str) -> float:
        part = self._number(column)
        if part is None or not 0 <= part < 1:
            self._wrong(column, "a fraction from 0 to below 1, for example 0.265 for 26.5 %")
            return 0.0
        return part

    def day(self, column: str) -> date:
        try:
            return date.fromisoformat(self.values[column])
        except ValueError:
            self._wrong(column, "a date, for example 2026-11-21")
            return date.min

    def _number(self, column: str) -> float | None:
        try:
            number = float(self.values[column])
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    def _wrong(self, column: str, wanted: str) -> None:
        self.problems.append(f"{self.where}, {column}: found {self.values[column]!r}, wanted {wanted}")


def read_table(row: type[R], text_of: Callable[[str], str], problems: list[str]) -> tuple[R, ...]:
    """The rows of one file; its faults are added to `problems`."""
    wanted = [field.name for field in fields(row)]
    try:
        text = text_of(row.FILE)
    except FileNotFoundError:
        problems.append(f"{row.FILE}: found no such file, wanted one with the columns {','.join(wanted)}")
        return ()
    except UnicodeDecodeError:
        problems.append(f"{row.FILE}: found bytes that are no text, wanted UTF-8")
        return ()
    except OSError as error:
        problems.append(f"{row.FILE}: cannot be read: {error.strerror}")
        return ()
    found: list[str] = []
    rows = _rows(row, text.removeprefix("\ufeff"), wanted, found)  # the mark that spreadsheets put first
    if not rows and not found:
        found.append(f"{row.FILE}: found no rows, wanted at least one")
    more = len(found) - MOST_PROBLEMS
    problems += found[:MOST_PROBLEMS] + ([f"{row.FILE}: and {more} more like these"] if more > 0 else [])
    return rows


def _rows(row: type[R], text: str, wanted: Sequence[str], problems: list[str]) -> tuple[R, ...]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    read: dict[tuple[str, ...], R] = {}
    try:
        header = next(lines, list[str]())
        if fault := _header_fault(header, wanted):
            problems.append(f"{row.FILE}: {fault}")
            return ()
        for cells in filter(None, lines):  # an empty line, at the end for instance, says nothing
            where = f"{row.FILE}, line {lines.line_num}"
            if len(cells) != len(header):
                problems.append(f"{where}: found {len(cells)} cells, wanted {len(header)}, one for each column")
                continue
            one = row.read(Cells(where, dict(zip(header, cells, strict=True)), problems))
            if one.key in read:
                problems.append(f"{where}: found {' '.join(one.key)} a second time, wanted each once")
            read[one.key] = one
    except csv.Error as error:
        problems.append(f"{row.FILE}, line {lines.line_num}: found no CSV ({error}), wanted cells parted by commas")
    return tuple(read.values())


def _header_fault(header: Sequence[str], wanted: Sequence[str]) -> str:
    missing = [name for name in wanted if name not in header]
    strange = [name for name in header if name not in wanted]
    if missing:
        return f"found no column {', '.join(missing)} (only {','.join(header) or 'nothing'}), wanted {','.join(wanted)}"
    if strange:
        return f"found the unknown column {', '.join(strange)}, wanted only {','.join(wanted)}"
    return "" if len(header) == len(wanted) else f"found a column twice in {','.join(header)}"


def cell_text(value: str | float | date) -> str:
    """As it stands in a file: every digit of a number, and no exponent."""
    if isinstance(value, float):
        plain = format(Decimal(repr(value)), "f")
        return plain.removesuffix(".0")
    return str(value)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
