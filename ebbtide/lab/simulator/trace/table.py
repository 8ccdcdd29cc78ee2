"""A table of a trace: its rows by column, and its problems, one message for each cause.

A bad cell is noted and reading continues, so that the user can fix the file in one pass. A message names the first row
with its fault and counts the others.
"""

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ebbtide.lab.simulator.trace.files import OpenFile, UnreadableTable, opened
from ebbtide.settings.file.problems import show
from ebbtide.text.one_line import printable

_DATA = Path(__file__).parent / "data"
_SUFFIXES = (".gz", ".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".parquet")
_LONGEST_HEADER = 400
_PROGRESS_ROWS = 50_000

Progress: TypeAlias = Callable[[float], None]
"""Receives the share of a file that was read."""


class TraceError(ValueError):
    """The trace cannot be replayed. The message has one line for each problem."""


class TraceRow(NamedTuple):
    number: int
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
    """An open file. Problems are collected; `refuse` ends the reading if there are any."""

    path: Path
    file: OpenFile
    progress: Progress
    _problems: dict[str, str] = field(default_factory=dict[str, str])
    _counts: Counter[str] = field(default_factory=Counter[str])

    @property
    def header(self) -> tuple[str, ...]:
        return self.file.header

    def rows(self, columns: Sequence[str]) -> Iterator[TraceRow]:
        """Yield the cells of these columns, in any file order; skip blank lines and rows without data."""
        for count, (number, cells) in enumerate(
            self.file.rows(columns, lambda number, fault: self.note("row", f"row {number}: {fault}"))
        ):
            if count % _PROGRESS_ROWS == _PROGRESS_ROWS - 1:
                self.progress(self.file.done())
            yield TraceRow(number, dict(zip(columns, map(str.strip, cells), strict=True)))

    def number(self, row: TraceRow, expected: Number) -> float:
        """Return the cell's value; NaN, with a note, for a bad one."""
        text = row.cells[expected.column]
        value = self.read_number(text)
        if not expected.above <= value <= expected.most:
            self.bad_cell(row, expected, text)
            return math.nan
        return value

    def read_number(self, text: str) -> float:
        """Return a finite number, or NaN."""
        text = self.with_point(text)
        try:
            value = math.nan if "_" in text else float(text)  # Python reads 1_000; a spreadsheet does not
        except ValueError:
            return math.nan
        return value if math.isfinite(value) else math.nan

    def with_point(self, text: str) -> str:
        """Return a number with a decimal point. With semicolons between columns a comma is the decimal sign."""
        return text.replace(",", ".") if self.file.delimiter == ";" else text

    def bad_cell(self, row: TraceRow, expected: Number, found: str) -> None:
        example = f" (for example {expected.example})" if expected.example else ""
        place = f"row {row.number}, column {expected.column}"
        self.note(
            f"{expected.column}: {expected.wanted}", f"{place}: wanted {expected.wanted}, found {show(found)}{example}"
        )

    def once(self, columns: Sequence[str]) -> None:
        """Raises `TraceError` if the header has one of these columns twice, or has other problems."""
        twice = [name for name in columns if self.header.count(name) > 1]
        if twice:
            self.note("twice", f"row 1: wanted every column once, found {', '.join(twice)} more often")
        self.refuse()

    def note(self, cause: str, problem: str) -> None:
        """Note a problem, and count problems with the same cause."""
        self._counts[cause] += 1
        self._problems.setdefault(cause, printable(f"{self.path}: {problem}"))

    def refuse(self) -> None:
        """Raises `TraceError` with all problems, if there are any."""
        if self._problems:
            more = {cause: f"; {count - 1:,} more like this" for cause, count in self._counts.items() if count > 1}
            raise TraceError("\n".join(problem + more.get(cause, "") for cause, problem in self._problems.items()))


@contextmanager
def open_table(path: Path, progress: Progress | None = None) -> Generator[Table]:
    """Open a file to read it within the context. Raises `TraceError`."""
    try:
        with opened(path) as file:
            yield Table(path, file, progress or (lambda _share: None))
    except UnreadableTable as error:
        raise TraceError(printable(f"{path}: {error}")) from error
    except FileNotFoundError as error:
        raise TraceError(f"{path}: no such file (bundled traces: {', '.join(bundled())})") from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error


def header_text(header: Sequence[str]) -> str:
    """Return the header, shortened."""
    text = ",".join(header)
    return text if len(text) <= _LONGEST_HEADER else f"{text[:_LONGEST_HEADER]}…"


def bundled() -> tuple[str, ...]:
    """The names of the bundled traces."""
    return tuple(sorted(path.name.removesuffix(".csv.gz") for path in _DATA.glob("*.csv.gz")))


def trace_path(path_or_name: Path | str) -> Path:
    """The path of a file, or of a bundled trace by its name."""
    path = Path(path_or_name)
    return _DATA / f"{path}.csv.gz" if str(path) in bundled() and not path.is_file() else path


def trace_name(path: Path) -> str:
    """Return a file's name without the suffixes of its format."""
    name = path.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
