"""The rows of an exported table: CSV, JSON or Parquet, read as a stream.

Every cell is text, so that one table gives the same jobs in each format. The content decides the format: gzip and
Parquet have magic bytes, JSON begins with a bracket, and anything else is delimited text.
"""

import csv
import gzip
import json
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias, cast

DELIMITERS = ",;\t|"
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_FIRST_OBJECTS = 1_000
"""JSON objects that are searched for the names of columns, since some exports omit empty values."""
_BLOCK_ROWS = 20_000
_BLOCK = 2**20
_LONGEST_OBJECT = 16 * 2**20
_BETWEEN = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")

Note: TypeAlias = Callable[[int, str], None]
"""Receives the number of a bad row and the fault."""
Cells: TypeAlias = tuple[int, Sequence[str]]
"""The number of a row (the header of a CSV file is row 1), and the texts of the requested columns."""


class UnreadableTable(ValueError):
    """The file cannot be read as a table. The message is one line, without the file's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """`rows(columns, note)` yields the cells of these columns; `done()` is the share of the file that was read."""

    header: tuple[str, ...]
    delimiter: str
    rows: Callable[[Sequence[str], Note], Iterator[Cells]]
    done: Callable[[], float]


@contextmanager
def opened(path: Path) -> Generator[OpenFile]:
    """Open a table, and read it within the context. Raises `UnreadableTable` and OSError, also while it is read."""
    with path.open("rb") as raw:
        magic = raw.peek(4)[:4]
        if magic == _PARQUET:
            yield _parquet(raw)
            return
        size = max(1, path.stat().st_size)
        unpacked: Any = gzip.open(raw) if magic[:2] == _GZIP else raw  # noqa: SIM115 - the wrapper closes it
        try:
            with TextIOWrapper(unpacked, encoding="utf-8-sig", newline="") as text:
                first = text.readline(_BLOCK)
                read = _json if first.lstrip()[:1] in ("{", "[") else _csv
                yield read(text, first, lambda: raw.tell() / size)
        except UnicodeDecodeError as error:
            raise UnreadableTable(
                "wanted UTF-8 text, found another encoding (for example export it as UTF-8)"
            ) from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UnreadableTable(
                f"wanted a complete gzip file: {error} (for example one that gzip --test accepts)"
            ) from error


def _csv(text: TextIOWrapper, first: str, done: Callable[[], float]) -> OpenFile:
    delimiter = max(DELIMITERS, key=first.count)
    quoting = csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL  # sacct and psql quote nothing
    lines = csv.reader(chain([first], text), delimiter=delimiter, quoting=quoting, strict=True)
    try:
        header = tuple(name.strip() for name in next(lines, ()))
    except csv.Error as error:
        raise UnreadableTable(f"row 1: wanted CSV: {error}") from error

    def rows(columns: Sequence[str], note: Note) -> Iterator[Cells]:
        pick = itemgetter(*(header.index(name) for name in columns))
        number = 1
        try:
            for number, cells in enumerate(lines, start=2):
                if len(cells) == len(header):
                    yield number, pick(cells)
                elif cells:
                    note(number, f"wanted {len(header)} columns, found {len(cells)}")
        except csv.Error as error:
            note(number + 1, f"wanted CSV: {error}")

    return OpenFile(header=header, delimiter=delimiter, rows=rows, done=done)


def _json(text: TextIOWrapper, first: str, done: Callable[[], float]) -> OpenFile:
    values = _values(text, first)
    begin = list(islice(values, _FIRST_OBJECTS))
    names = (name for _, value in begin if isinstance(value, Mapping) for name in cast("Mapping[str, Any]", value))

    def rows(columns: Sequence[str], note: Note) -> Iterator[Cells]:
        for number, value in chain(begin, values):
            if isinstance(value, Mapping):
                cells = cast("Mapping[str, Any]", value)
                yield number, [_cell(cells.get(name)) for name in columns]
            else:
                note(number, "wanted a JSON object, found something else")

    return OpenFile(header=tuple(dict.fromkeys(names)), delimiter="", rows=rows, done=done)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _values(text: TextIOWrapper, first: str) -> Iterator[tuple[int, object]]:
    """Yield the objects of JSON lines, of an array, or of an object that has an object for each key."""
    value = _loaded(first)
    if not isinstance(value, dict) or all(isinstance(inner, dict) for inner in cast("dict[str, Any]", value).values()):
        yield from enumerate(_members(text, first.lstrip()), start=1)
        return
    yield 1, value
    for number, line in enumerate(iter(lambda: text.readline(_LONGEST_OBJECT), ""), start=2):
        if line.strip():
            yield number, _loaded(line)


def _loaded(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _members(text: TextIOWrapper, buffer: str) -> Iterator[object]:
    """Yield the values of one array or object, decoded one by one."""
    decode = json.JSONDecoder().raw_decode
    has_keys, at = buffer.startswith("{"), 1
    while True:
        at = _end(_BETWEEN, buffer, at)
        if buffer[at : at + 1] in ("]", "}") and buffer[at:]:
            return
        try:
            begin = _end(_COLON, buffer, decode(buffer, at)[1]) if has_keys else at
            value, at = decode(buffer, begin)
        except (ValueError, RecursionError) as error:
            block = text.read(_BLOCK)
            if not block or len(buffer) - at > _LONGEST_OBJECT:
                raise UnreadableTable(f"wanted JSON: {error}") from error
            buffer, at = buffer[at:] + block, 0
        else:
            yield value


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _parquet(raw: object) -> OpenFile:
    try:
        pa: Any = import_module("pyarrow")  # has no types
        file: Any = import_module("pyarrow.parquet").ParquetFile(raw, pre_buffer=False, buffer_size=_BLOCK)
    except ModuleNotFoundError as missing:
        raise UnreadableTable(
            "Parquet needs pyarrow, which is not installed; pip install 'ebbtide[parquet]'"
        ) from missing
    except (ValueError, OSError) as error:
        raise UnreadableTable(f"wanted a Parquet file: {error}") from error
    total = max(1, file.metadata.num_rows)
    position = [0]

    def rows(columns: Sequence[str], _note: Note) -> Iterator[Cells]:
        try:
            for batch in file.iter_batches(_BLOCK_ROWS, columns=list(columns)):
                texts = [_texts(pa, batch.column(name)) for name in columns]
                yield from enumerate(cast("Iterable[Sequence[str]]", zip(*texts, strict=True)), start=position[0] + 1)
                position[0] += len(batch)
        except (ValueError, OSError, NotImplementedError) as error:
            raise UnreadableTable(
                f"after row {position[0]}: wanted text, numbers and times in Parquet: {error}"
            ) from error

    names = tuple(file.schema_arrow.names)
    return OpenFile(header=names, delimiter="", rows=rows, done=lambda: position[0] / total)


def _texts(pa: Any, column: Any) -> list[str]:
    """Return a column as text; an instant gets the suffix Z, a map is a JSON object."""
    if pa.types.is_map(column.type):
        return ["" if pairs is None else json.dumps(dict(pairs)) for pairs in column.to_pylist()]
    aware = pa.types.is_timestamp(column.type) and column.type.tz is not None
    if aware:
        column = column.cast(pa.timestamp(column.type.unit))
    suffix = "Z" if aware else ""
    return ["" if text is None else text + suffix for text in column.cast(pa.string()).to_pylist()]
