"""Rows of a Cost and Usage Report 2.0 of AWS Data Exports: CSV, CSV with gzip or Parquet, read as a stream.

Maps (`resource_tags`, `product`) are JSON objects in CSV. Keys of tags have the prefix `user_`, and `_` for each
character that is no letter or digit. Columns for net costs exist only in accounts with discounts, and may be empty.
Source: AWS Data Exports User Guide, "Cost and Usage Report (CUR) 2.0".
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import cast

from ebbtide.simulator.trace.files import Unreadable, opened

REQUIRED = (
    "bill_billing_period_start_date",
    "line_item_currency_code",
    "line_item_line_item_type",
    "line_item_product_code",
    "line_item_resource_id",
    "line_item_unblended_cost",
    "line_item_usage_account_id",
    "line_item_usage_amount",
    "line_item_usage_end_date",
    "line_item_usage_start_date",
    "line_item_usage_type",
    "pricing_public_on_demand_cost",
    "resource_tags",
)
OPTIONAL = (
    "line_item_net_unblended_cost",
    "pricing_unit",
    "product",
    "product_instance_type",
    "reservation_effective_cost",
    "reservation_net_effective_cost",
    "reservation_net_unused_amortized_upfront_fee_for_billing_period",
    "reservation_net_unused_recurring_fee",
    "reservation_reservation_a_r_n",
    "reservation_unused_amortized_upfront_fee_for_billing_period",
    "reservation_unused_recurring_fee",
    "savings_plan_net_savings_plan_effective_cost",
    "savings_plan_savings_plan_effective_cost",
    "savings_plan_total_commitment_to_date",
    "savings_plan_used_commitment",
)
_SUFFIXES = (".csv", ".csv.gz", ".parquet")
_CUR = "CUR 2.0 of Data Exports"
_IDENTIFIER = re.compile(r"arn:\S+|\d{12}|\b(?:i|vol|eni|nat)-[0-9a-f]{8,17}\b")


class BillInvalid(Exception):
    """The files are no bill of this stack and month. `lines`: a line for each reason, without text of the report."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Faults:
    """Faults of rows: each kind once, with its first row and the number of rows."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[str, str, int]] = {}

    def note(self, where: str, fault: str) -> None:
        first, last, rows = self._rows.get(fault, (where, "", 0))
        self._rows[fault] = first, where, rows + (where != last)

    def refuse(self) -> None:
        """Raise `BillInvalid` with all faults, if there are any."""
        if self._rows:
            lines = (
                f"{first}: {fault}" + (f" (and {rows - 1} more rows)" if rows > 1 else "")
                for fault, (first, _, rows) in self._rows.items()
            )
            raise BillInvalid(*lines)


class Row:
    """One line item. A value that cannot be read is noted as a fault."""

    def __init__(self, cells: Mapping[str, str], where: str, faults: Faults) -> None:
        self._cells = cells
        self._where = where
        self._faults = faults

    def text(self, column: str) -> str:
        return self._cells.get(column, "")

    def amount(self, *columns: str) -> float:
        """Return the first of these columns that has a value; 0 if none has."""
        for column in columns:
            if text := self.text(column):
                try:
                    value = float(text)
                except ValueError:
                    value = float("nan")
                if isfinite(value):
                    return value
                self.fault(f"{column}: wanted a number, found other text (for example 0.096)")
        return 0.0

    def needed(self, *columns: str) -> float:
        """Return the same, and note a fault if the report has none of these columns."""
        if not self._cells.keys() & set(columns):
            self.fault(f"no column {columns[-1]}, which rows of this type need: wanted it in the export")
        return self.amount(*columns)

    def instant(self, column: str) -> datetime | None:
        moment = _instant(self.text(column))
        if moment is None:
            self.fault(f"{column}: wanted a time, found other text (for example 2026-11-01T00:00:00Z)")
        return moment

    def pairs(self, column: str) -> Mapping[str, str]:
        found = _pairs(self.text(column))
        if found is None:
            self.fault(f'{column}: wanted a map, found other text (for example {{"user_team": "ml"}})')
        return found or {}

    def fault(self, fault: str) -> None:
        self._faults.note(self._where, fault)


def read_rows(files: Sequence[Path], faults: Faults) -> Iterator[Row]:
    """Yield all line items. Raises `BillInvalid` for a file that is no such report."""
    for path in _files(files):
        name = shown(path)
        try:
            with opened(path) as file:
                if missing := [column for column in REQUIRED if column not in file.header]:
                    raise BillInvalid(_lacking(name, missing))
                columns = (*REQUIRED, *(column for column in OPTIONAL if column in file.header))
                for number, cells in file.rows(
                    columns, lambda row, fault, name=name: faults.note(f"{name}:{row}", fault)
                ):
                    yield Row(dict(zip(columns, cells, strict=True)), f"{name}:{number}", faults)
        except OSError as error:
            raise BillInvalid(f"{name}: wanted a readable file, found {error.strerror or 'an error'}") from None
        except Unreadable as error:
            raise BillInvalid(f"{name}: {error}") from None


def shown(path: Path) -> str:
    """Return the name of a file for messages; exports may be named after an account."""
    return _IDENTIFIER.sub("…", path.name)


def _files(given: Sequence[Path]) -> Iterator[Path]:
    """Yield files, and those of folders: an export has several files a month."""
    seen: set[Path] = set()
    for path in given:
        inside = sorted(file for file in path.rglob("*") if file.name.endswith(_SUFFIXES)) if path.is_dir() else [path]
        if not inside:
            raise BillInvalid(f"{shown(path)}: wanted files of {_CUR}, found none ({', '.join(_SUFFIXES)})")
        for file in inside:
            if file.resolve() in seen:
                raise BillInvalid(f"{shown(file)}: wanted each file once, found it twice")
            seen.add(file.resolve())
            yield file


def _lacking(name: str, missing: Sequence[str]) -> str:
    if missing == ["line_item_resource_id"]:
        return f"{name}:1: no column line_item_resource_id: wanted an export with INCLUDE_RESOURCES (resource ids)"
    return f"{name}:1: no column {', '.join(missing)}: wanted {_CUR} (table COST_AND_USAGE_REPORT)"


@lru_cache(4096)
def _instant(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@lru_cache(4096)
def _pairs(text: str) -> Mapping[str, str] | None:
    try:
        values: object = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    return {str(key): str(value) for key, value in cast("dict[object, object]", values).items()}
