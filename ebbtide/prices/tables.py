"""Reads the shipped tables: once, and only those that are asked for."""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def rows(table: str) -> tuple[Mapping[str, str], ...]:
    """All rows of `data/<table>.csv`, as text."""
    text = files("ebbtide.prices").joinpath("data", f"{table}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))
