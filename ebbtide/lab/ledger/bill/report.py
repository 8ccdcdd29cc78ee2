"""Rows of a Cost and Usage Report 2.0 of AWS Data Exports: CSV, CSV with gzip or Parquet, read as a stream.

Maps (`resource_tags`, `product`) are JSON objects in CSV. Keys of tags have the prefix `user_`, and `_` for each
character that is no letter or digit. Columns for net costs exist only in accounts with discounts, and may be empty.
Source: AWS Data Exports User Guide, "Cost and Usage Report (CUR) 2.0".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
A_NUMBER = "a number"
Number = Annotated[
    FiniteFloat | None,
    BeforeValidator(lambda text: text or None),
    Field(description=A_NUMBER, examples=["0.096"]),
]
Pairs = Annotated[
    Json[dict[str, Any]],
    BeforeValidator(lambda text: text or "{}"),
    Field(description="a map", examples=['{"user_team": "ml"}']),
]


class BadRow(Exception):
    """A row cannot be charged; the message has no text of the report."""


class Uncharged(BadRow):
    """The row has an unknown type, or another currency than dollars. `what`: words for a line of the bill."""

    def __init__(self, fault: str, what: str, currency: str) -> None:
        super().__init__(fault)
        self.what, self.currency = what, currency


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
    identity_line_item_id: str = ""
    line_item_availability_zone: str = ""
    line_item_net_unblended_cost: Number = None
    line_item_operation: str = ""
    pricing_unit: str = ""
    product: Pairs = {}
    product_instance_type: str = ""
    product_region_code: str = ""
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
    split_line_item_net_split_cost: Number = None
    split_line_item_net_unused_cost: Number = None
    split_line_item_parent_resource_id: str = ""
    split_line_item_public_on_demand_split_cost: Number = None
    split_line_item_public_on_demand_unused_cost: Number = None
    split_line_item_split_cost: Number = None
    split_line_item_unused_cost: Number = None

    def first(self, *columns: str) -> float:
        """Return the first value among these columns; 0 if all are empty. Raises `BadRow` if none of them exists."""
        if not self.model_fields_set.intersection(columns):
            raise BadRow(f"no column {columns[-1]}, which rows of this type need: wanted it in the export")
        return next((value for column in columns if (value := getattr(self, column)) is not None), 0.0)


_KUBERNETES_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


def kubernetes_name(text: str) -> str:
    """Return a name of a namespace, workload or Service; "" for other text and for identifiers of AWS."""
    return text if _KUBERNETES_NAME.fullmatch(text) and not _IDENTIFIER.search(text) else ""


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a row: the number and the name of its file, and its number there."""

    file: int
    name: str
    row: int

    def __str__(self) -> str:
        return f"{self.name}:{self.row}"


@dataclass(slots=True)
class Faults:
    """Faults of rows: each kind once, with its first row and the number of rows."""

    rows: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def note(self, where: str, fault: str) -> None:
        first, rows = self.rows.get(fault, (where, 0))
        self.rows[fault] = first, rows + 1

    def include(self, other: "Faults") -> None:
        for fault, (where, rows) in other.rows.items():
            first, before = self.rows.get(fault, (where, 0))
            self.rows[fault] = first, rows + before

    def refuse(self, *of_files: str) -> None:
        """Raise `LedgerError` with all faults, if there are any; `of_files`: faults of entire files, or ""."""
        of_rows = [
            f"{first}: {fault}" + (f" (and {number_of(rows - 1, 'more row')})" if rows > 1 else "")
            for fault, (first, rows) in self.rows.items()
        ]
        if faults := [*sorted(of_rows), *filter(None, of_files)]:
            raise LedgerError("\n".join(faults))


def read_rows(files: Sequence[Path], faults: Faults) -> Iterator[tuple[Where, LineItem]]:
    """Yield the place and the values of each sound row. Raises `LedgerError` for a file of another kind.

    Empty files are skipped: Data Exports writes empty data over chunks that a smaller delivery no longer has.
    """
    for file_number, (path, name) in enumerate(_files(files).items()):
        try:
            with opened(path) as file:
                if not any(file.header):
                    continue
                missing = [
                    column
                    for column, info in LineItem.model_fields.items()
                    if info.is_required() and column not in file.header
                ]
                if missing:
                    wanted = f"{_CUR} with INCLUDE_RESOURCES (table COST_AND_USAGE_REPORT)"
                    raise LedgerError(f"{name}:1: no column {', '.join(missing)}: wanted {wanted}{_kind(file.header)}")
                columns = [column for column in LineItem.model_fields if column in file.header]
                for number, cells in file.rows(
                    columns, lambda row, fault, name=name: faults.note(f"{name}:{row}", fault)
                ):
                    try:
                        yield (
                            Where(file_number, name, number),
                            LineItem.model_validate(dict(zip(columns, cells, strict=True))),
                        )
                    except ValidationError as invalid:
                        for column in dict.fromkeys(str(error["loc"][0]) for error in invalid.errors()):
                            faults.note(f"{name}:{number}", _fault(column))
        except OSError as error:
            raise LedgerError(f"{name}: wanted a readable file, found {error.strerror or 'an error'}") from None
        except UnreadableTable as error:
            raise LedgerError(f"{name}: {error}") from None


def _kind(header: Sequence[str]) -> str:
    """Return words for a table that has a report's content under other names of columns."""
    if any("/" in column for column in header):
        return ", found columns of the legacy Cost and Usage Report"
    if any(column.startswith("resource_tags_") for column in header):
        return ", found tags in separate columns"
    return ""


def _fault(column: str) -> str:
    info = LineItem.model_fields[column]
    return f"{column}: wanted {info.description}, found other text (for example {(info.examples or [''])[0]})"


def shown(path: Path) -> str:
    """Return a path for messages, without identifiers: exports may be named after an account."""
    return _IDENTIFIER.sub("…", path.as_posix())


def _files(given: Sequence[Path]) -> Mapping[Path, str]:
    """Return each file once with its name for messages, in a folder from there on: deliveries differ in folders."""
    files: dict[Path, str] = {}
    for path in given:
        inside = (
            sorted(file for file in path.rglob("*") if file.name.lower().endswith(_SUFFIXES))
            if path.is_dir()
            else [path]
        )
        if not inside:
            raise LedgerError(f"{shown(Path(path.name))}: wanted files of {_CUR}, found none ({', '.join(_SUFFIXES)})")
        top = path if path.is_dir() else path.parent
        for file in inside:
            name = shown(file.relative_to(top))
            files.setdefault(file.resolve(), name if name not in files.values() else shown(file))
    return files
