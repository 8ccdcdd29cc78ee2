"""A directory of five price tables, read from CSV files and written as such, and the prices of one region.

Instance sizes are not part of a directory: they decide what is built, and two people with different price files must
build the same.

A figure that cannot be read is an error and never skipped: a bill with a hole looks cheaper than it is.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from pydantic import ValidationError

from ebbtide.prices.rows import AWS_PLAN_RATE, AsOf, ListPrice, PlanDiscount, Row, ServicePrice, SpotSaving

FILES = tuple(row.FILE for row in (ListPrice, PlanDiscount, SpotSaving, ServicePrice, AsOf))
MOST_PROBLEMS = 20
"""Per file: in a file of another kind every line is faulty."""

R = TypeVar("R", bound=Row)


class PricesInvalid(Exception):
    """A directory cannot serve as prices. `problems`: a line each, with file, line, found and wanted value."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = tuple(map(_printable, problems))
        super().__init__("\n".join(self.problems))


def _printable(text: str) -> str:
    """Escape cursor movements and direction marks: anybody may have written the files."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


@dataclass(frozen=True, kw_only=True)
class RegionPrices:
    """The prices of one region. Lookups use it; it has no row objects for types, so that it is loaded quickly."""

    on_demand: Mapping[str, float]  # by type
    discounts: Mapping[tuple[str, str, str], float]  # by family, plan and years
    plans_are_derived: bool  # from similar reservations
    spot_saving: Mapping[str, float]  # by type
    interruption_band: Mapping[str, str]  # by type
    services: tuple[ServicePrice, ...]
    dates: Mapping[str, AsOf]  # by file; for a file without figures of the region, its oldest entry
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    """Codes of `data/README.md` by type, for shipped prices."""

    @cached_property
    def service(self) -> Mapping[tuple[str, str], float]:
        return {(row.service, row.item): row.usd for row in self.services}

    def as_of(self, row: type[Row]) -> date:
        return self.dates[row.FILE].as_of


def dates_of(region: str, entries: Sequence[AsOf]) -> dict[str, AsOf]:
    """Return the entry of each file for a region; for a file without one, its oldest entry."""
    dates: dict[str, AsOf] = {}
    for entry in sorted(entries, key=lambda entry: (entry.region != region, entry.as_of)):
        dates.setdefault(entry.file, entry)
    return dates


@dataclass(frozen=True, kw_only=True)
class Book:
    """A directory of price files."""

    list_prices: tuple[ListPrice, ...] = ()
    discounts: tuple[PlanDiscount, ...] = ()
    spot: tuple[SpotSaving, ...] = ()
    services: tuple[ServicePrice, ...] = ()
    dates: tuple[AsOf, ...] = ()

    @cached_property
    def regions(self) -> frozenset[str]:
        return frozenset(row.region for row in self.list_prices)

    def prices_of(self, region: str) -> RegionPrices:
        spot = [row for row in self.spot if row.region == region]
        discounts = [row for row in self.discounts if row.region == region]
        return RegionPrices(
            on_demand={
                row.instance_type: row.on_demand_usd_per_hour for row in self.list_prices if row.region == region
            },
            discounts={(row.family, row.plan, str(row.term_years)): row.discount_fraction for row in discounts},
            plans_are_derived=any(row.proxy != AWS_PLAN_RATE for row in discounts),
            spot_saving={row.instance_type: row.savings_over_on_demand_fraction for row in spot},
            interruption_band={row.instance_type: row.interruption_frequency_band for row in spot},
            services=tuple(row for row in self.services if row.region == region),
            dates=dates_of(region, self.dates),
        )


def read_book(text_of: Callable[[str], str]) -> Book:
    """Read the book from files whose text `text_of` returns by name. Raises `PricesInvalid` with all faults."""
    problems: list[str] = []
    book = Book(
        list_prices=_read_table(ListPrice, text_of, problems),
        discounts=_read_table(PlanDiscount, text_of, problems),
        spot=_read_table(SpotSaving, text_of, problems),
        services=_read_table(ServicePrice, text_of, problems),
        dates=_read_table(AsOf, text_of, problems),
    )
    if not problems:
        problems = _undated(book)
    if problems:
        raise PricesInvalid(tuple(problems))
    return book


def _read_table(kind: type[R], text_of: Callable[[str], str], problems: list[str]) -> tuple[R, ...]:
    """The rows of one file; its faults are added to `problems`."""
    try:
        text = text_of(kind.FILE).removeprefix("\ufeff")  # spreadsheets begin a file with this mark
    except FileNotFoundError:
        problems.append(f"{kind.FILE}: found no such file, wanted one with the columns {','.join(kind.columns())}")
        return ()
    except UnicodeDecodeError:
        problems.append(f"{kind.FILE}: found bytes that are no text, wanted UTF-8")
        return ()
    except OSError as error:
        problems.append(f"{kind.FILE}: cannot be read: {error.strerror}")
        return ()
    faults: list[str] = []
    rows = _rows(kind, text, faults)
    if not rows and not faults:
        faults.append(f"{kind.FILE}: found no rows, wanted at least one")
    more = len(faults) - MOST_PROBLEMS
    problems += faults[:MOST_PROBLEMS] + ([f"{kind.FILE}: and {more} more like these"] if more > 0 else [])
    return rows


def _rows(kind: type[R], text: str, faults: list[str]) -> tuple[R, ...]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[R] = []
    keys: set[tuple[str, ...]] = set()
    try:
        header = next(lines, list[str]())
        if fault := _header_fault(header, kind.columns()):
            faults.append(f"{kind.FILE}: {fault}")
            return ()
        for cells in filter(None, lines):  # an empty line is allowed, for example at the end
            where = f"{kind.FILE}, line {lines.line_num}"
            if len(cells) != len(header):
                faults.append(f"{where}: found {len(cells)} cells, wanted {len(header)}, one for each column")
                continue
            values = dict(zip(header, cells, strict=True))
            try:
                rows.append(kind.model_validate(values))
            except ValidationError as invalid:
                faults += (f"{where}, {fault}" for fault in _cell_faults(kind, invalid))
            key = tuple(values[column] for column in kind.KEY)
            if key in keys:
                faults.append(f"{where}: found {' '.join(key)} a second time, wanted each once")
            keys.add(key)
    except csv.Error as error:
        faults.append(f"{kind.FILE}, line {lines.line_num}: found no CSV ({error}), wanted cells parted by commas")
    return tuple(rows)


def _header_fault(header: Sequence[str], columns: Sequence[str]) -> str:
    missing = [name for name in columns if name not in header]
    unknown = [name for name in header if name not in columns]
    expected = ",".join(columns)
    if missing:
        return f"found no column {', '.join(missing)} (only {','.join(header) or 'nothing'}), wanted {expected}"
    if unknown:
        return f"found the unknown column {', '.join(unknown)}, wanted only {expected}"
    return "" if len(header) == len(columns) else f"found a column twice in {','.join(header)}"


def _cell_faults(kind: type[Row], invalid: ValidationError) -> Iterator[str]:
    for error in invalid.errors(include_url=False):
        column = str(error["loc"][0])
        field = kind.model_fields[column]
        expected = ", for example ".join(map(str, (field.description, *(field.examples or ()))))
        yield f"{column}: found {error['input']!r}, wanted {expected}"


def _undated(book: Book) -> list[str]:
    """Return a problem for each region whose figures have no date: their age would be unknown."""
    tables: tuple[tuple[Row, ...], ...] = (book.list_prices, book.discounts, book.spot, book.services)
    figures = sorted({(row.FILE, row.region) for table in tables for row in table})
    dated = {entry.key for entry in book.dates}
    return [
        f"{AsOf.FILE}: found no line for {file} in {region}; wanted one, for example: {file},{region},2026-11-21,offer"
        for file, region in figures
        if (file, region) not in dated
    ]


def files_of(book: Book) -> dict[str, str]:
    """The five files, name to text; reading them gives an equal book."""
    return {
        **_csv_file(ListPrice, book.list_prices),
        **_csv_file(PlanDiscount, book.discounts),
        **_csv_file(SpotSaving, book.spot),
        **_csv_file(ServicePrice, book.services),
        **_csv_file(AsOf, book.dates),
    }


def _csv_file(kind: type[R], rows: Sequence[R]) -> dict[str, str]:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(kind.columns())
    writer.writerows([_cell(value) for _, value in row] for row in rows)
    return {kind.FILE: out.getvalue()}


def _cell(value: object) -> str:
    """Every digit of a number, without an exponent."""
    return format(Decimal(repr(value)), "f").removesuffix(".0") if isinstance(value, float) else str(value)
