"""Load the tables: shipped with the package, or prices from a directory of the same files.

The environment variable EBBTIDE_PRICES names the directory. `ebbtide --prices DIR` sets it, so that child processes use
the same prices. Each table is read once, when it is needed.
"""

import csv
import os
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from ebbtide.files import MOST_OF_A_DOCUMENT, read_file
from ebbtide.prices.book import FILES, Book, PricesInvalid, read_book

ENVIRONMENT = "EBBTIDE_PRICES"
SIZES = "instance_types.csv"
_OTHER_SIZES = f"{SIZES}: found other sizes than shipped, wanted none: sizes decide what is built, and prices do not"


@cache
def rows(table: str) -> tuple[Mapping[str, str], ...]:
    """All rows of the shipped `data/<table>.csv`, as text."""
    return tuple(csv.DictReader(_shipped_text(f"{table}.csv").splitlines()))


def in_use() -> Book:
    """The prices that every cost is calculated from. Raises `PricesInvalid`."""
    directory = os.environ.get(ENVIRONMENT)
    return _replacement(directory) if directory else shipped()


def place_in_use() -> str:
    """The source of the prices in use, for people."""
    return os.environ.get(ENVIRONMENT) or "shipped with Ebbtide"


@cache
def shipped() -> Book:
    return read_book(_shipped_text)


@cache
def _replacement(directory: str) -> Book:
    folder = Path(directory)
    if not folder.is_dir():
        raise PricesInvalid((f"{folder}: found no such directory, wanted one with {', '.join(FILES)}",))
    problems = [_OTHER_SIZES] if _has_other_sizes(folder / SIZES) else []
    try:
        book = read_book(lambda name: read_file(folder / name, MOST_OF_A_DOCUMENT).decode("utf-8"))
    except PricesInvalid as invalid:
        problems += invalid.problems
    else:
        if not problems:
            return book
    raise PricesInvalid(tuple(f"{folder}/{line}" for line in problems))


def _has_other_sizes(path: Path) -> bool:
    try:
        return path.read_bytes() != _shipped_text(SIZES).encode()
    except OSError:
        return False


def _shipped_text(name: str) -> str:
    return files("ebbtide.prices").joinpath("data", name).read_text(encoding="utf-8")
