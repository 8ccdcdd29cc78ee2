"""Rows of a Cost and Usage Report 2.0 of AWS Data Exports: CSV, CSV with gzip or Parquet, read as a stream.

Maps (`resource_tags`, `product`) are JSON objects in CSV. Keys of tags have the prefix `user_`, and `_` for each
character that is no letter or digit. Columns for net costs exist only in accounts with discounts, and may be empty.
Source: AWS Data Exports User Guide, "Cost and Usage Report (CUR) 2.0".
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, FiniteFloat, Json, ValidationError

from ebbtide.lab.ledger.month import LedgerError
from ebbtide.lab.simulator.trace.files import UnreadableTable, opened
from ebbtide.text.counts import number_of

_SUFFIXES = (".csv", ".csv.gz", ".parquet")
_CUR = "CUR 2.0 of Data Exports"
_IDENTIFIER = re.compile(r"arn:\S+|\d{12}|\b(?:i|vol|eni|nat)-[0-9a-f]{8,17}\b")


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Instant = Annotated[datetime, AfterValidator(_utc), Field(description="a time", examples=["2026-11-01T00:00:00Z"])]
Number = Annotated[
    FiniteFloat | None,
    BeforeValidator(lambda text: text or None),
    Field(description="a number", examples=["0.096"]),
]
Pairs = Annotated[
    Json[dict[str, Any]],
    BeforeValidator(lambda text: text or "{}"),
    Field(description="a map", examples=['{"user_team": "ml"}']),
]


class BadRow(Exception):
    """A row cannot be charged; the message has no text of the report."""


class LineItem(BaseModel):
    """The columns that a bill needs. Those with a default may be missing; None: no value."""

    bill_billing_period_start_date: Instant
    line_item_currency_code: str
    line_item_line_item_type: str
    line_item_product_code: str
    line_item_resource_id: str
    line_item_unblended_cost: Number
    line_item_usage_account_id: str
    line_item_usage_amount: Number
    line_item_usage_end_date: Instant
    line_item_usage_start_date: Instant
    line_item_usage_type: str
    pricing_public_on_demand_cost: Number
    resource_tags: Pairs
    line_item_net_unblended_cost: Number = None
    pricing_unit: str = ""
    product: Pairs = {}
    product_instance_type: str = ""
    reservation_effective_cost: Number = None
    reservation_net_effective_cost: Number = None
    reservation_net_unused_amortized_upfront_fee_for_billing_period: Number = None
    reservation_net_unused_recurring_fee: Number = None
    reservation_reservation_a_r_n: str = ""
    reservation_unused_amortized_upfront_fee_for_billing_period: Number = None
    reservation_unused_recurring_fee: Number = None
    savings_plan_net_savings_plan_effective_cost: Number = None
    savings_plan_savings_plan_effective_cost: Number = None
    savings_plan_total_commitment_to_date: Number = None
    savings_plan_used_commitment: Number = None

    def first(self, *columns: str) -> float:
        """Return the first value among these columns; 0 if all are empty. Raises `BadRow` if none of them exists."""
        if not self.model_fields_set.intersection(columns):
            raise BadRow(f"no column {columns[-1]}, which rows of this type need: wanted it in the export")
        return next((value for column in columns if (value := getattr(self, column)) is not None), 0.0)


class Faults:
    """Faults of rows: each kind once, with its first row and the number of rows."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[str, int]] = {}

    def note(self, where: str, fault: str) -> None:
        first, rows = self._rows.get(fault, (where, 0))
        self._rows[fault] = first, rows + 1

    def refuse(self) -> None:
        """Raise `LedgerError` with all faults, if there are any."""
        if self._rows:
            raise LedgerError(
                "\n".join(
                    f"{first}: {fault}" + (f" (and {number_of(rows - 1, 'more row')})" if rows > 1 else "")
                    for fault, (first, rows) in self._rows.items()
                )
            )


def read_rows(files: Sequence[Path], faults: Faults) -> Iterator[tuple[str, LineItem]]:
    """Yield the place and the values of each sound line item. Raises `LedgerError` for a file of another kind."""
    for path in _files(files):
        name = shown(path)
        try:
            with opened(path) as file:
                missing = [
                    column
                    for column, field in LineItem.model_fields.items()
                    if field.is_required() and column not in file.header
                ]
                if missing:
                    wanted = f"{_CUR} with INCLUDE_RESOURCES (table COST_AND_USAGE_REPORT)"
                    raise LedgerError(f"{name}:1: no column {', '.join(missing)}: wanted {wanted}")
                columns = [column for column in LineItem.model_fields if column in file.header]
                for number, cells in file.rows(
                    columns, lambda row, fault, name=name: faults.note(f"{name}:{row}", fault)
                ):
                    try:
                        yield f"{name}:{number}", LineItem.model_validate(dict(zip(columns, cells, strict=True)))
                    except ValidationError as invalid:
                        for column in dict.fromkeys(str(error["loc"][0]) for error in invalid.errors()):
                            faults.note(f"{name}:{number}", _fault(column))
        except OSError as error:
            raise LedgerError(f"{name}: wanted a readable file, found {error.strerror or 'an error'}") from None
        except UnreadableTable as error:
            raise LedgerError(f"{name}: {error}") from None


def _fault(column: str) -> str:
    field = LineItem.model_fields[column]
    return f"{column}: wanted {field.description}, found other text (for example {(field.examples or [''])[0]})"


def shown(path: Path) -> str:
    """Return a file's name for messages, without identifiers: exports may be named after an account."""
    return _IDENTIFIER.sub("…", path.name)


def _files(given: Sequence[Path]) -> Iterable[Path]:
    """Return each file once, and the files in folders: an export has several files a month."""
    files: dict[Path, Path] = {}
    for path in given:
        inside = sorted(file for file in path.rglob("*") if file.name.endswith(_SUFFIXES)) if path.is_dir() else [path]
        if not inside:
            raise LedgerError(f"{shown(path)}: wanted files of {_CUR}, found none ({', '.join(_SUFFIXES)})")
        files |= {file.resolve(): file for file in inside}
    return files.values()
