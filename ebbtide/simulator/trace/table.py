"""A CSV file of a trace, read completely; all its problems are reported together.

A bad cell is noted and reading continues, so that the user can fix the file in one pass. A file may have a problem in
each of 100,000 rows, so the first ones are shown and the others counted.
"""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from ebbtide.settings.file.problems import one_line, show

SHOWN = 20
_LONGEST_HEADER = 400
MOST_MIB = 32
"""The limit of an unpacked file: the largest bundled one has 1 MiB."""
_GZIP_MAGIC = b"\x1f\x8b"
_NO_HEADER: list[str] = []


class TraceError(ValueError):
    """The trace cannot be replayed. The message has one line for each problem."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    number: int  # the header is row 1
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Number:
    """The limits of a column's cells. Numbers have no thousands separators, no NaN, no infinity."""

    column: str
    wanted: str
    example: str
    above: float = 0.0  # at least this
    most: float = math.inf


@dataclass(slots=True)
class Table:
    """One file. Problems are collected; `refuse` ends the reading if there are any."""

    path: Path
    problems: list[str] = field(default_factory=list[str])

    def text(self) -> TextIO:
        """The unpacked file. Raises `TraceError`, and FileNotFoundError."""
        try:
            with gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb") as file:
                data = file.read(MOST_MIB * 2**20 + 1)
            if len(data) > MOST_MIB * 2**20:
                raise TraceError(
                    f"{self.path}: wanted at most {MOST_MIB} MiB of text, found more (for example its first weeks)"
                )
            data.decode("utf-8-sig")  # checked before the first row; bytes take a quarter of the memory
            return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
        except UnicodeDecodeError as error:
            hint = " (a gzip file has to be named .gz)" if error.object.startswith(_GZIP_MAGIC) else ""
            raise TraceError(
                f"{self.path}: wanted UTF-8 text, found something else at byte {error.start}{hint}"
            ) from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TraceError(
                f"{self.path}: wanted a whole gzip file: {error} (for example from: gzip jobs.csv)"
            ) from error
        except FileNotFoundError:
            raise
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {error.strerror}") from error

    def rows(self, header: Sequence[str], lines: Iterator[list[str]], columns: Sequence[str]) -> Iterator[TraceRow]:
        """The cells of the requested columns, in any order of the file; blank lines are skipped."""
        place = {name: header.index(name) for name in columns}
        number = 1
        try:
            for number, cells in enumerate(lines, start=2):
                if not cells:
                    continue
                if len(cells) != len(header):
                    self.note(f"row {number}: wanted {len(header)} columns, found {len(cells)}")
                else:
                    yield TraceRow(number, {name: cells[i].strip() for name, i in place.items()})
        except csv.Error as error:
            self.note(f"row {number + 1}: wanted CSV: {error}")

    def number(self, row: TraceRow, expected: Number) -> float:
        """The cell's value; NaN and a note for a bad one."""
        text = row.cells[expected.column]
        try:
            value = math.nan if "_" in text else float(text)  # Python reads 1_000; a spreadsheet does not
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and expected.above <= value <= expected.most):
            self.bad_cell(row, expected, text)
            return math.nan
        return value

    def bad_cell(self, row: TraceRow, expected: Number, found: str) -> None:
        self.note(
            f"row {row.number}, column {expected.column}: wanted {expected.wanted}, found {show(found)} "
            f"(for example {expected.example})"
        )

    def note(self, problem: str) -> None:
        self.problems.append(one_line(f"{self.path}: {problem}"))

    def refuse(self) -> None:
        """Raises `TraceError` with all problems, if there are any."""
        if self.problems:
            more = len(self.problems) - SHOWN
            tail = [f"{self.path}: and {more} more problems"] if more > 0 else []
            raise TraceError("\n".join([*self.problems[:SHOWN], *tail]))


def header_text(header: Sequence[str]) -> str:
    """The header, shortened."""
    text = ",".join(header)
    return text if len(text) <= _LONGEST_HEADER else f"{text[:_LONGEST_HEADER]}…"


def split(text: TextIO) -> tuple[list[str], Iterator[list[str]]]:
    """The names of the header, and an iterator over the rows."""
    lines = csv.reader(text, strict=True)
    return [name.strip() for name in next(lines, _NO_HEADER)], lines
