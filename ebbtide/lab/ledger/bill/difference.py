"""The difference between a bill's nodes and the ledger's, as dollars of causes that add up to it. Pure.

For each instance type and capacity type, bill - ledger is the sum of: reductions of the public price by commitments and
discounts; price difference times the bill's hours; difference of hours times the ledger's price.
The bill has no lines for the ledger's boots, gaps and assumed plan, so each of them is a cause. Without a ledger, the
bill's own public prices take its place.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ebbtide.lab.ledger.bill.bill import Bill, BillKey
from ebbtide.lab.ledger.bill.lines import BilledAmounts, Charge, Part, Pricing
from ebbtide.lab.ledger.month import SPOT, Ledger

_CENT = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Dollars of the bill's nodes above the ledger's; a range if the ledger is one."""

    low_usd: float
    high_usd: float
    causes: Mapping[str, tuple[float, float]]


def reductions_of(bill: Bill) -> Mapping[str, float]:
    """Return what makes the bill's nodes cheaper than their public on-demand prices; the key "" has these prices."""
    sums: defaultdict[str, float] = defaultdict(float)
    for key, amounts in _nodes(bill).items():
        sums[""] += amounts.listed
        sums[_reduction(key)] += amounts.effective - amounts.listed
    return sums


def difference_of(ledger: Ledger, bill: Bill) -> Difference:
    nodes = _nodes(bill)
    total = sum(amounts.effective for amounts in nodes.values())
    sums: defaultdict[str, float] = defaultdict(float)
    for name, usd in _causes(ledger, nodes):
        sums[name] += usd
    gap_usd = (-sum(gap.high_usd for gap in ledger.gaps), -sum(gap.low_usd for gap in ledger.gaps))
    causes = {**{name: (usd, usd) for name, usd in sums.items()}, "gaps of the recording": gap_usd}
    return Difference(
        low_usd=total - ledger.high_usd,
        high_usd=total - ledger.low_usd,
        causes={name: usd for name, usd in causes.items() if max(map(abs, usd)) >= _CENT},
    )


def _nodes(bill: Bill) -> Mapping[BillKey, BilledAmounts]:
    return {
        key: amounts
        for key, amounts in bill.lines.items()
        if key.part is Part.NODES and key.charge in (Charge.USAGE, Charge.PURCHASE)
    }


def _reduction(key: BillKey) -> str:
    if key.capacity_type == SPOT:
        return "spot prices"
    return "Savings Plans and reservations" if key.pricing is Pricing.COMMITTED else "negotiated discounts"


def _causes(ledger: Ledger, nodes: Mapping[BillKey, BilledAmounts]) -> Iterator[tuple[str, float]]:
    recorded: dict[tuple[str, str], tuple[float, float]] = {}  # hours, dollars
    for row in ledger.paid:
        kind = row.instance_type, row.capacity_type
        hours, usd = recorded.get(kind, (0.0, 0.0))
        recorded[kind] = hours + row.hours, usd + row.usd
    billed = dict.fromkeys(recorded, 0.0)
    for key, amounts in nodes.items():
        kind = key.instance_type, key.capacity_type
        hours, usd = recorded.get(kind, (0.0, 0.0))
        if key.outside:
            yield "hours of the billing month outside the ledger's", amounts.effective
            continue
        if not hours:
            yield "instance types that were not recorded", amounts.effective
            continue
        billed[kind] += amounts.quantity
        at_ledger = usd / hours * amounts.quantity
        if key.capacity_type == SPOT:
            yield _reduction(key), amounts.effective - at_ledger
            continue
        yield _reduction(key), amounts.effective - amounts.listed
        yield "the bill's public prices against the ledger's", amounts.listed - at_ledger
    for kind, (hours, usd) in recorded.items():
        yield "hours that one of them lacks", usd / hours * (billed[kind] - hours) if hours else -usd
    yield "boots, which the ledger estimates", -ledger.boot_usd
    yield "the plan that the stack file assumes", -ledger.plan_usd
