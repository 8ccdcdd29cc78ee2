"""The bill of one stack and month: its rows by the tag `ebbtide.dev/customer`, added up.

A bill's month is in UTC, so its first or last hours may lie outside the ledger's month. Rows without a customer's tag
(taxes, credits, plans) belong to the entire organisation: they are counted apart and never divided.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ebbtide.lab.ledger.bill.lines import (
    SEPARATE_CHARGES,
    BilledAmounts,
    Charge,
    Part,
    Pricing,
    charges_of,
    instance_type_of,
    is_spot,
    part_of,
)
from ebbtide.lab.ledger.bill.report import BadRow, Faults, LineItem, read_rows
from ebbtide.lab.ledger.month import ON_DEMAND, SPOT, LedgerError, Month
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.model import StackSettings
from ebbtide.text.pages import page_command

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Sums of the rows in effective dollars. It holds no text of the report."""

    month: Month
    lines: Annotated[Mapping[BillKey, BilledAmounts], Field(exclude=True)]
    parts: Mapping[Part, float]  # without the charges in `apart`
    apart: Mapping[Charge, float]
    shared_usd: Mapping[Charge, float]  # of rows without a tag of any customer
    committed_usd: float  # of all Savings Plans in the report
    utilisation: float | None  # used share of these commitments
    unused_reservation_usd: float
    coverage: float | None  # share of this stack's nodes that commitments cover, at public prices, spot excluded
    accounts: int  # with rows of this customer


@dataclass(slots=True)
class _Reader:
    """Adds up rows. Text of the report is kept only as long as the reader itself."""

    month: Month
    customer: str
    groups: frozenset[str]
    lines: dict[BillKey, BilledAmounts] = field(default_factory=dict[BillKey, BilledAmounts])
    shared_usd: dict[Charge, float] = field(default_factory=lambda: dict.fromkeys(Charge, 0.0))
    committed_usd: float = 0.0
    used_usd: float = 0.0
    unused_reservation_usd: float = 0.0
    nodes: dict[str, float] = field(default_factory=dict[str, float])  # hours
    accounts: set[str] = field(default_factory=set[str])
    months: set[str] = field(default_factory=set[str])
    customers: bool = False
    has_net: bool = False

    def add(self, row: LineItem) -> None:
        """Raises `BadRow`."""
        period = f"{row.bill_billing_period_start_date:%Y-%m}"
        self.months.add(period)
        if period != self.month.name:
            return
        if row.line_item_currency_code != "USD":
            raise BadRow("line_item_currency_code: wanted USD, found another currency")
        tags = {_OTHER_SIGN.sub("_", key.lower()).removeprefix("user_"): tag for key, tag in row.resource_tags.items()}
        customer = tags.get(_CUSTOMER, "")
        self.customers |= bool(customer)
        self.has_net |= row.line_item_net_unblended_cost is not None
        if row.line_item_line_item_type == "SavingsPlanRecurringFee":
            self.committed_usd += row.first("savings_plan_total_commitment_to_date")
            self.used_usd += row.first("savings_plan_used_commitment")
        elif row.line_item_line_item_type == "RIFee":
            self.unused_reservation_usd += sum(amounts.effective for _, _, amounts in charges_of(row))
        if customer == self.customer:
            self._own(row, tags.get(_GROUP, ""))
        elif not customer:
            for charge, _, amounts in charges_of(row):
                self.shared_usd[charge] += amounts.effective

    def _own(self, row: LineItem, group: str) -> None:
        self.accounts.add(row.line_item_usage_account_id)
        part = part_of(row)
        is_node = part is Part.NODES
        begin, quantity = row.line_item_usage_start_date, row.first("line_item_usage_amount")
        for charge, pricing, amounts in charges_of(row):
            if is_node and charge is Charge.USAGE:
                self._node(row, quantity)
            key = BillKey(
                outside=not self.month.begin <= begin < self.month.end,
                part=part,
                charge=charge,
                pricing=pricing,
                group=group if is_node and group in self.groups else "",
                instance_type=instance_type_of(row) if is_node else "",
                capacity_type=(SPOT if is_spot(row) else ON_DEMAND) if is_node else "",
                unit=_UNITS.get(row.pricing_unit, "Hours" if is_node else "Units"),
                correction=charge is Charge.REFUND and begin < row.bill_billing_period_start_date,
            )
            amounts.quantity = quantity
            self.lines.setdefault(key, BilledAmounts()).add(amounts)

    def _node(self, row: LineItem, hours: float) -> None:
        if row.line_item_usage_end_date - row.line_item_usage_start_date > timedelta(hours=1):
            raise BadRow(
                "line_item_usage_end_date: wanted rows of one hour (TIME_GRANULARITY HOURLY), found longer ones"
            )
        if not row.line_item_resource_id:
            raise BadRow("line_item_resource_id: wanted the id of each node (INCLUDE_RESOURCES), found an empty cell")
        self.nodes[row.line_item_resource_id] = self.nodes.get(row.line_item_resource_id, 0.0) + hours

    def bill(self) -> Bill:
        """Add up the rows. Discounts are dropped if any row has a net cost, since net costs include them."""
        dropped = Charge.DISCOUNT if self.has_net else None
        lines = {key: amounts for key, amounts in self.lines.items() if key.charge is not dropped}
        sums = dict.fromkeys((*Part, *Charge), 0.0)
        listed = dict.fromkeys(Pricing, 0.0)
        for key, amounts in lines.items():
            sums[key.charge if key.charge in SEPARATE_CHARGES else key.part] += amounts.effective
            if (key.part, key.charge) == (Part.NODES, Charge.USAGE):
                listed[key.pricing] += amounts.listed
        coverable = listed[Pricing.COMMITTED] + listed[Pricing.STANDARD]
        return Bill(
            month=self.month,
            lines=lines,
            parts={part: sums[part] for part in Part if sums[part]},
            apart={charge: sums[charge] for charge in SEPARATE_CHARGES if sums[charge]},
            shared_usd={charge: usd for charge, usd in self.shared_usd.items() if usd and charge is not dropped},
            committed_usd=self.committed_usd,
            utilisation=self.used_usd / self.committed_usd if self.committed_usd else None,
            unused_reservation_usd=self.unused_reservation_usd,
            coverage=listed[Pricing.COMMITTED] / coverable if coverable else None,
            accounts=len(self.accounts),
        )


def read_bill(files: Sequence[Path], settings: StackSettings, month: Month) -> Bill:
    """Read the bill of a stack and month. Raises `LedgerError` with all faults."""
    faults = Faults()
    reader = _Reader(month, settings.customer, frozenset(with_node_sets(settings).node_groups))
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
            f"{month.name} ({page_command('cost-tags')})"
        )
    if max(reader.nodes.values(), default=0.0) > month.billed.hours + 1:
        raise LedgerError("--bill: a node has more hours than the month: wanted each row once, found rows twice")
    bill = reader.bill()
    if not bill.lines:
        raise LedgerError(f"--bill: no charge of {month.name} has the tag ebbtide.dev/customer={settings.customer}")
    return bill
