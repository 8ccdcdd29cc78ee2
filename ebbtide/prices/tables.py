"""Load the prices of a region: shipped with the package, or from a directory of files.

The environment variable EBBTIDE_PRICES names the directory. `ebbtide --prices DIR` sets it, so that child processes use
the same prices. A region that the directory lacks has its shipped prices. Each file is read once, when it is needed.

The shipped rows are validated by the tests and not here; those of a directory are validated when they are read.
"""

import csv
import os
from datetime import date
from functools import cache, lru_cache
from pathlib import Path

from ebbtide.prices.book import FILES, Book, PricesInvalid, RegionPrices, dates_of, read_book
from ebbtide.prices.data_files import shipped_regions, shipped_text
from ebbtide.prices.rows import AsOf, PlanDiscount, ServicePrice
from ebbtide.text.files import MOST_OF_A_DOCUMENT, read_file

ENVIRONMENT = "EBBTIDE_PRICES"


def in_use(region: str) -> RegionPrices:
    """The prices from which the costs of a region are calculated. Raises `PricesInvalid`."""
    directory = os.environ.get(ENVIRONMENT)
    if directory and region in _read_directory(directory).regions:
        return _replaced(directory, region)
    return shipped(region)


def priced_regions() -> tuple[str, ...]:
    """The regions with prices, sorted."""
    book = replacement()
    return tuple(sorted(shipped_regions().union(book.regions if book else ())))


def replacement() -> Book | None:
    """The prices of the directory, or None if the shipped ones are in use. Raises `PricesInvalid`."""
    directory = os.environ.get(ENVIRONMENT)
    return _read_directory(directory) if directory else None


def place_in_use() -> str:
    """The source of the prices in use, for people."""
    return os.environ.get(ENVIRONMENT) or "shipped with Ebbtide"


@lru_cache(maxsize=1)  # a process has one directory, with 20 MiB of rows
def _read_directory(directory: str) -> Book:
    folder = Path(directory)
    if not folder.is_dir():
        raise PricesInvalid((f"{folder}: found no such directory, wanted one with {', '.join(FILES)}",))
    try:
        return read_book(lambda name: read_file(folder / name, MOST_OF_A_DOCUMENT).decode("utf-8"))
    except PricesInvalid as invalid:
        raise PricesInvalid(tuple(f"{folder}/{line}" for line in invalid.problems)) from None


@cache
def _replaced(directory: str, region: str) -> RegionPrices:
    return _read_directory(directory).prices_of(region)


@cache
def shipped(region: str) -> RegionPrices:
    """The shipped prices of a region. A region without prices has only the dates of the tables."""
    types = _cells(f"regions/{region}.csv") if region in shipped_regions() else []
    discounts = _cells(PlanDiscount.FILE, region)
    return RegionPrices(
        on_demand={name: float(usd) for name, usd, *_ in types},
        discounts={(family, plan, years): float(fraction) for _, family, plan, years, _, fraction, _ in discounts},
        plans_are_derived=bool(discounts),
        spot_saving={name: float(saving) for name, _, _, saving, _ in types if saving},
        interruption_band={name: band for name, _, _, _, band in types if band},
        services=tuple(_service(*cells) for cells in _cells(ServicePrice.FILE, region)),
        dates=dates_of(region, [_as_of(*cells) for cells in _cells(AsOf.FILE)]),
        sources={name: source for name, _, source, *_ in types},
    )


def _service(region: str, service: str, item: str, unit: str, usd: str, confidence: str, source: str) -> ServicePrice:
    return ServicePrice.model_construct(
        region=region, service=service, item=item, unit=unit, usd=float(usd), confidence=confidence, source=source
    )


def _as_of(file: str, region: str, as_of: str, source: str) -> AsOf:
    return AsOf.model_construct(file=file, region=region, as_of=date.fromisoformat(as_of), source=source)


def _cells(name: str, region: str = "") -> list[list[str]]:
    """Return the rows of a shipped file, or those of a region, which the first column names."""
    lines = shipped_text(name).splitlines()[1:]
    return [*csv.reader(line for line in lines if line.startswith(f"{region}," if region else ""))]
