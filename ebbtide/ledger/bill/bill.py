"""The bill of one stack and month: its rows by the tag `ebbtide.dev/customer`, added up.

A bill's month is one of UTC; days here are local dates of the stack, so the first or last hours may lie outside the
ledger's month. Rows without any tag of a customer (taxes, credits, plans) belong to all of an organisation: they are
counted apart and never divided.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

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
from ebbtide.ledger.bill.report import BillInvalid, Faults, Row, read_rows
from ebbtide.ledger.month import ON_DEMAND, SPOT, Month, plain
from ebbtide.settings.model import StackSettings
from ebbtide.settings.node_sets import with_node_sets

T = TypeVar("T")

SOURCE = "AWS Cost and Usage Report 2.0"
_HOUR = timedelta(hours=1)
_OTHER_SIGN = re.compile(r"[^a-z0-9]+")
_CUSTOMER, _GROUP = "ebbtide_dev_customer", "ebbtide_dev_node_group"
_UNITS = {"Hrs": "Hours", "GB-Mo": "GB-Months", "GB": "GB", "LCU-Hrs": "LCU-Hours", "Requests": "Requests"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BillKey:
    day: date
    part: Part
    charge: Charge
    pricing: Pricing
    group: str  # "" for all but nodes of a group of the stack
    instance_type: str
    capacity_type: str
    unit: str
    correction: bool  # of an earlier billing period


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitments:
    """Use of all plans in the report, and coverage of this stack's nodes at public on-demand prices."""

    committed_usd: float
    used_usd: float
    unused_reservation_usd: float
    covered_usd: float
    uncovered_usd: float  # on demand; spot is never covered

    @property
    def utilisation(self) -> float | None:
        return self.used_usd / self.committed_usd if self.committed_usd else None

    @property
    def coverage(self) -> float | None:
        total = self.covered_usd + self.uncovered_usd
        return self.covered_usd / total if total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    month: Month
    region: str
    customer: str
    lines: Mapping[BillKey, Amounts]
    commitments: Commitments
    nodes: int  # instances
    accounts: int  # with rows of this customer
    shared_usd: Mapping[Charge, float]  # of rows without a tag of any customer, effective
    usage: Mapping[tuple[datetime, str], float]  # nodes by hour and group
    rows: int

    @property
    def parts(self) -> Mapping[Part, float]:
        """Effective dollars of each line, without what is apart."""
        return self._sums(Part, lambda key: None if key.charge in APART else key.part)

    @property
    def apart(self) -> Mapping[Charge, float]:
        return self._sums(APART, lambda key: key.charge)

    def _sums(self, names: Iterable[T], name_of: Callable[[BillKey], T | None]) -> Mapping[T, float]:
        sums = dict.fromkeys(names, 0.0)
        for key, amounts in self.lines.items():
            if (name := name_of(key)) in sums:
                sums[name] += amounts.effective
        return {name: usd for name, usd in sums.items() if usd}

    @property
    def notes(self) -> tuple[str, ...]:
        notes = ["Effective (amortised) cost. The bill's month is one of UTC, the ledger's one of the stack's zone."]
        if self.accounts > 1:
            notes.append(f"Rows of {self.accounts} accounts have this customer's tag.")
        if self.shared_usd:
            notes.append("Rows without a customer's tag are of all of an organisation, and in no line of this stack.")
        return tuple(notes)


@dataclass(slots=True)
class _Sums:
    """Running totals over the rows of the report."""

    settings: StackSettings
    month: Month
    groups: frozenset[str]
    faults: Faults
    lines: dict[BillKey, Amounts] = field(default_factory=dict[BillKey, Amounts])
    discounts: dict[BillKey, Amounts] = field(default_factory=dict[BillKey, Amounts])
    shared: dict[Charge, float] = field(default_factory=dict[Charge, float])
    shared_discounts: float = 0.0
    usage: dict[tuple[datetime, str], float] = field(default_factory=dict[tuple[datetime, str], float])
    nodes: set[str] = field(default_factory=set[str])
    accounts: set[str] = field(default_factory=set[str])
    months: set[str] = field(default_factory=set[str])
    customers: bool = False
    has_net: bool = False
    committed: float = 0.0
    used: float = 0.0
    unused_reservation: float = 0.0
    rows: int = 0

    def add(self, row: Row) -> None:
        period = row.instant("bill_billing_period_start_date")
        if period is None:
            return
        self.months.add(f"{period:%Y-%m}")
        if (period.year, period.month) != (self.month.year, self.month.month):
            return
        self.rows += 1
        if row.text("line_item_currency_code") != "USD":
            row.fault("line_item_currency_code: wanted USD, found another currency")
        tags = {_plain(key): value for key, value in row.pairs("resource_tags").items()}
        customer = tags.get(_CUSTOMER, "")
        self.customers |= bool(customer)
        self.has_net |= bool(row.text("line_item_net_unblended_cost"))
        if customer == self.settings.customer:
            self._own(row, tags, period)
        elif not customer:
            self._share(row)
        self._commitment(row)

    def _own(self, row: Row, tags: Mapping[str, str], period: datetime) -> None:
        begin, end = row.instant("line_item_usage_start_date"), row.instant("line_item_usage_end_date")
        if begin is None or end is None:
            return
        self.accounts.add(row.text("line_item_usage_account_id"))
        part = part_of(row)
        group = tags.get(_GROUP, "") if part is Part.NODES else ""
        group = group if group in self.groups else ""
        quantity = row.amount("line_item_usage_amount")
        for charge, pricing, amounts in charges_of(row):
            if part is Part.NODES and charge is Charge.USAGE:
                self._node(row, begin, end, group, quantity)
            key = BillKey(
                day=self.month.day_of(begin),
                part=part,
                charge=charge,
                pricing=pricing,
                group=group,
                instance_type=instance_type_of(row) if part is Part.NODES else "",
                capacity_type=(SPOT if is_spot(row) else ON_DEMAND) if part is Part.NODES else "",
                unit=_UNITS.get(row.text("pricing_unit"), "Hours" if part is Part.NODES else "Units"),
                correction=charge is Charge.REFUND and begin < period,
            )
            amounts.quantity = quantity
            sums = self.discounts if _is_bare_discount(row, charge) else self.lines
            sums.setdefault(key, Amounts(0.0, 0.0, 0.0, 0.0)).add(amounts)

    def _node(self, row: Row, begin: datetime, end: datetime, group: str, hours: float) -> None:
        if end - begin > _HOUR:
            row.fault("line_item_usage_end_date: wanted rows of one hour (TIME_GRANULARITY HOURLY), found longer ones")
        if not row.text("line_item_resource_id"):
            row.fault("line_item_resource_id: wanted the id of each node (INCLUDE_RESOURCES), found an empty cell")
        self.nodes.add(row.text("line_item_resource_id"))
        hour = begin.replace(minute=0, second=0, microsecond=0)
        if group:
            self.usage[hour, group] = self.usage.get((hour, group), 0.0) + hours

    def _share(self, row: Row) -> None:
        for charge, _, amounts in charges_of(row):
            if _is_bare_discount(row, charge):
                self.shared_discounts += amounts.effective
            else:
                self.shared[charge] = self.shared.get(charge, 0.0) + amounts.effective

    def _commitment(self, row: Row) -> None:
        kind = row.text("line_item_line_item_type")
        if kind == "SavingsPlanRecurringFee":
            self.committed += row.amount("savings_plan_total_commitment_to_date")
            self.used += row.amount("savings_plan_used_commitment")
        elif kind == "RIFee":
            self.unused_reservation += sum(amounts.effective for _, _, amounts in charges_of(row))

    def bill(self) -> Bill:
        if not self.has_net:  # net costs have the discounts already
            self.lines.update(self.discounts)
            self.shared[Charge.ADJUSTMENT] = self.shared.get(Charge.ADJUSTMENT, 0.0) + self.shared_discounts
        return Bill(
            month=self.month,
            region=self.settings.region,
            customer=self.settings.customer,
            lines=self.lines,
            commitments=Commitments(
                committed_usd=self.committed,
                used_usd=self.used,
                unused_reservation_usd=self.unused_reservation,
                covered_usd=self._listed(Pricing.COMMITTED),
                uncovered_usd=self._listed(Pricing.STANDARD),
            ),
            nodes=len(self.nodes),
            accounts=len(self.accounts),
            shared_usd={charge: usd for charge, usd in self.shared.items() if usd},
            usage=self.usage,
            rows=self.rows,
        )

    def _listed(self, pricing: Pricing) -> float:
        return sum(
            amounts.listed
            for key, amounts in self.lines.items()
            if (key.part, key.charge, key.pricing) == (Part.NODES, Charge.USAGE, pricing)
        )


def read_bill(files: Sequence[Path], settings: StackSettings, month: Month) -> Bill:
    """Read the bill of a stack and month. Raises `BillInvalid` with all faults."""
    faults = Faults()
    groups = frozenset(with_node_sets(settings).node_groups)
    sums = _Sums(settings=settings, month=month, groups=groups, faults=faults)
    for row in read_rows(files, faults):
        sums.add(row)
    if month.name not in sums.months:
        faults.refuse()
        others = ", ".join(sorted(sums.months)) or "no row at all"
        raise BillInvalid(f"--bill: wanted the billing period {month.name}, found {others}")
    if not sums.customers:
        raise BillInvalid(
            "--bill: no row has the tag ebbtide.dev/customer: wanted it activated as a cost allocation tag before "
            f"{month.name} (docs/how-to/cost-tags.md)"
        )
    if not sums.accounts:
        raise BillInvalid(f"--bill: no row of {month.name} has the tag ebbtide.dev/customer={settings.customer}")
    faults.refuse()
    return sums.bill()


def bill_json(bill: Bill) -> dict[str, Any]:
    """Return plain values: dollars by line, and what is apart."""
    found = bill.commitments
    document = {
        "source": f"{SOURCE}, {bill.rows} rows",
        "billing_period": bill.month.name,
        "usd": dict(bill.parts),
        "apart_usd": dict(bill.apart),
        "shared_usd": dict(bill.shared_usd),
        "commitments": {**asdict(found), "coverage": found.coverage, "utilisation": found.utilisation},
        "nodes": bill.nodes,
        "accounts": bill.accounts,
        "notes": bill.notes,
    }
    return cast("dict[str, Any]", plain(document))


def _is_bare_discount(row: Row, charge: Charge) -> bool:
    """True for a discount that other rows may hold too, in their net cost."""
    return charge is Charge.ADJUSTMENT and not row.text("line_item_net_unblended_cost")


def _plain(key: str) -> str:
    """Return a tag's key as the report writes it, without its prefix: `user_ebbtide_dev_customer`."""
    return _OTHER_SIGN.sub("_", key.lower()).removeprefix("user_")


def period_of(month: Month) -> tuple[datetime, datetime]:
    """Return the billing period: AWS' months are those of UTC."""
    after = month.after
    return datetime(month.year, month.month, 1, tzinfo=UTC), datetime(after.year, after.month, 1, tzinfo=UTC)
