"""The bill of one stack and month: its rows by the tag `ebbtide.dev/customer`, added up.

A bill's month is one of UTC, so its first or last hours may lie outside the ledger's month. Rows without any tag of a
customer (taxes, credits, plans) belong to all of an organisation: they are counted apart and never divided.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field, computed_field

from ebbtide.ledger.bill.lines import (
    APART,
    Amounts,
    Charge,
    Part,
    Pricing,
    charges_of,
    instance_type_of,
    is_spot,
    part_of,
)
from ebbtide.ledger.bill.report import BadRow, Faults, LineItem, read_rows
from ebbtide.ledger.month import ON_DEMAND, SPOT, LedgerError, Month
from ebbtide.settings.model import StackSettings
from ebbtide.settings.node_sets import with_node_sets

_HOUR = timedelta(hours=1)
_OTHER_SIGN = re.compile(r"[^a-z0-9]+")
_CUSTOMER, _GROUP = "ebbtide_dev_customer", "ebbtide_dev_node_group"
_UNITS = {"Hrs": "Hours", "GB-Mo": "GB-Months", "GB": "GB", "LCU-Hrs": "LCU-Hours", "Requests": "Requests"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BillKey:
    outside: bool  # of the ledger's month
    part: Part
    charge: Charge
    pricing: Pricing
    group: str  # "" for all but nodes of a group of the stack
    instance_type: str
    capacity_type: str
    unit: str
    correction: bool  # of an earlier billing period


@dataclass(slots=True, kw_only=True)
class Bill:
    """Sums of the rows. It holds no text of the report."""

    month: Month
    lines: Annotated[dict[BillKey, Amounts], Field(exclude=True)] = field(default_factory=dict[BillKey, Amounts])
    shared_usd: dict[Charge, float] = field(default_factory=dict[Charge, float])
    """Effective dollars of rows without a tag of any customer."""
    committed_usd: float = 0.0  # of all Savings Plans in the report
    used_usd: float = 0.0
    unused_reservation_usd: float = 0.0
    accounts: int = 0  # with rows of this customer

    @computed_field
    @property
    def parts(self) -> Mapping[Part, float]:
        """Effective dollars of each line, without what is apart."""
        sums = dict.fromkeys(Part, 0.0)
        for key, amounts in self.lines.items():
            sums[key.part] += 0.0 if key.charge in APART else amounts.effective
        return {part: usd for part, usd in sums.items() if usd}

    @computed_field
    @property
    def apart(self) -> Mapping[Charge, float]:
        sums = {
            charge: sum(usd.effective for key, usd in self.lines.items() if key.charge is charge) for charge in APART
        }
        return {charge: usd for charge, usd in sums.items() if usd}

    @computed_field
    @property
    def utilisation(self) -> float | None:
        """Use of all Savings Plans in the report."""
        return self.used_usd / self.committed_usd if self.committed_usd else None

    @computed_field
    @property
    def coverage(self) -> float | None:
        """Share of this stack's nodes that commitments cover, at public prices. Spot is never covered."""
        listed = dict.fromkeys(Pricing, 0.0)
        for key, amounts in self.lines.items():
            listed[key.pricing] += amounts.listed if (key.part, key.charge) == (Part.NODES, Charge.USAGE) else 0.0
        total = listed[Pricing.COMMITTED] + listed[Pricing.STANDARD]
        return listed[Pricing.COMMITTED] / total if total else None


@dataclass(slots=True)
class _Reader:
    """Adds rows to a bill. What it keeps of the report's text ends with it."""

    settings: StackSettings
    bill: Bill
    groups: frozenset[str]
    nodes: dict[str, float] = field(default_factory=dict[str, float])  # hours
    accounts: set[str] = field(default_factory=set[str])
    months: set[str] = field(default_factory=set[str])
    customers: bool = False
    has_net: bool = False

    def add(self, row: LineItem) -> None:
        """Raises `BadRow`."""
        period = f"{row.bill_billing_period_start_date:%Y-%m}"
        self.months.add(period)
        if period != self.bill.month.name:
            return
        if row.line_item_currency_code != "USD":
            raise BadRow("line_item_currency_code: wanted USD, found another currency")
        tags = {_OTHER_SIGN.sub("_", key.lower()).removeprefix("user_"): tag for key, tag in row.resource_tags.items()}
        customer = tags.get(_CUSTOMER, "")
        self.customers |= bool(customer)
        self.has_net |= row.line_item_net_unblended_cost is not None
        self._commitment(row)
        if customer == self.settings.customer:
            self._own(row, tags.get(_GROUP, ""))
        elif not customer:
            shared = self.bill.shared_usd
            for charge, _, amounts in charges_of(row):
                shared[charge] = shared.get(charge, 0.0) + amounts.effective

    def _commitment(self, row: LineItem) -> None:
        if row.line_item_line_item_type == "SavingsPlanRecurringFee":
            self.bill.committed_usd += row.first("savings_plan_total_commitment_to_date")
            self.bill.used_usd += row.first("savings_plan_used_commitment")
        elif row.line_item_line_item_type == "RIFee":
            self.bill.unused_reservation_usd += sum(amounts.effective for _, _, amounts in charges_of(row))

    def _own(self, row: LineItem, group: str) -> None:
        self.accounts.add(row.line_item_usage_account_id)
        part = part_of(row)
        is_node = part is Part.NODES
        group = group if is_node and group in self.groups else ""
        begin, quantity = row.line_item_usage_start_date, row.first("line_item_usage_amount")
        for charge, pricing, amounts in charges_of(row):
            if is_node and charge is Charge.USAGE:
                self._node(row, quantity)
            key = BillKey(
                outside=not self.bill.month.begin <= begin < self.bill.month.end,
                part=part,
                charge=charge,
                pricing=pricing,
                group=group,
                instance_type=instance_type_of(row) if is_node else "",
                capacity_type=(SPOT if is_spot(row) else ON_DEMAND) if is_node else "",
                unit=_UNITS.get(row.pricing_unit, "Hours" if is_node else "Units"),
                correction=charge is Charge.REFUND and begin < row.bill_billing_period_start_date,
            )
            amounts.quantity = quantity
            self.bill.lines.setdefault(key, Amounts()).add(amounts)

    def _node(self, row: LineItem, hours: float) -> None:
        if row.line_item_usage_end_date - row.line_item_usage_start_date > _HOUR:
            raise BadRow(
                "line_item_usage_end_date: wanted rows of one hour (TIME_GRANULARITY HOURLY), found longer ones"
            )
        if not row.line_item_resource_id:
            raise BadRow("line_item_resource_id: wanted the id of each node (INCLUDE_RESOURCES), found an empty cell")
        self.nodes[row.line_item_resource_id] = self.nodes.get(row.line_item_resource_id, 0.0) + hours

    def close(self) -> Bill:
        """Return the bill. Where rows have net costs, these have the discounts already. Raises `LedgerError`."""
        bill = self.bill
        if max(self.nodes.values(), default=0.0) > replace(bill.month, zone="UTC").hours + 1:
            raise LedgerError("--bill: a node has more hours than the month: wanted each row once, found rows twice")
        if self.has_net:
            bill.shared_usd.pop(Charge.DISCOUNT, None)
            bill.lines = {key: amounts for key, amounts in bill.lines.items() if key.charge is not Charge.DISCOUNT}
        bill.shared_usd = {charge: usd for charge, usd in bill.shared_usd.items() if usd}
        bill.accounts = len(self.accounts)
        return bill


def read_bill(files: Sequence[Path], settings: StackSettings, month: Month) -> Bill:
    """Read the bill of a stack and month. Raises `LedgerError` with all faults."""
    faults = Faults()
    reader = _Reader(settings, Bill(month=month), frozenset(with_node_sets(settings).node_groups))
    for where, row in read_rows(files, faults):
        try:
            reader.add(row)
        except BadRow as fault:
            faults.note(where, str(fault))
    faults.refuse()
    if month.name not in reader.months:
        others = ", ".join(sorted(reader.months)) or "no row at all"
        raise LedgerError(f"--bill: wanted the billing period {month.name}, found {others}")
    if not reader.customers:
        raise LedgerError(
            "--bill: no row has the tag ebbtide.dev/customer: wanted it activated as a cost allocation tag before "
            f"{month.name} (docs/how-to/cost-tags.md)"
        )
    bill = reader.close()
    if not bill.lines:
        raise LedgerError(f"--bill: no charge of {month.name} has the tag ebbtide.dev/customer={settings.customer}")
    return bill
