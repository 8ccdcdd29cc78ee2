"""A bill beside the ledger: the difference of their nodes as causes that add up to it, and savings at the bill's rates.

For each instance type and capacity type, bill - ledger is the sum of: reductions of the public price by commitments and
discounts; price difference times the bill's hours; difference of hours times the ledger's price.
The bill has no lines for the ledger's boots, gaps and assumed plan, so each of them is a cause. Without a ledger, the
bill's own public prices take its place. Pure.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ebbtide.lab.ledger.bill.bill import Bill, BillKey
from ebbtide.lab.ledger.bill.lines import BilledAmounts, Pricing
from ebbtide.lab.ledger.bill.rates import OUTSIDE, nodes_of, rates_of_bill, recorded_kinds
from ebbtide.lab.ledger.month import SPOT, Ledger

_CENT = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Dollars of the bill's nodes above the ledger's at typical spot prices; a range if the ledger has gaps.

    `saved` is the ledger's at the bill's rates, by alternative. Bills that lack hours and files of former releases have
    none.
    """

    low_usd: float
    high_usd: float
    causes: Mapping[str, tuple[float, float]]
    nodes_usd: float
    all_usd: float  # of all lines, amortised
    saved: Mapping[str, tuple[float, float] | None] = field(default_factory=dict[str, tuple[float, float] | None])
    assumptions: tuple[str, ...] = ()  # of `saved`
    billed_share: float | None = None  # of the recorded node-hours; None in files of former releases


def reductions_of(bill: Bill) -> Mapping[str, float]:
    """Return what makes the bill's nodes cheaper than their public on-demand prices; the key "" has these prices."""
    sums: defaultdict[str, float] = defaultdict(float)
    for key, amounts in nodes_of(bill).items():
        sums[""] += amounts.listed
        sums[_reduction(key)] += amounts.effective - amounts.listed
    return sums


def difference_of(ledger: Ledger, bill: Bill) -> Difference:
    nodes = nodes_of(bill)
    beyond = bill.nodes_usd - ledger.recorded_usd - ledger.boot_usd
    sums: defaultdict[str, float] = defaultdict(float)
    for name, usd in _causes(recorded_kinds(ledger), ledger, nodes):
        sums[name] += usd
    gap_usd = (-sum(gap.high_usd for gap in ledger.gaps), -sum(gap.low_usd for gap in ledger.gaps))
    rates = rates_of_bill(ledger, bill)
    causes = {**{name: (usd, usd) for name, usd in sums.items()}, "gaps of the recording": gap_usd}
    return Difference(
        low_usd=beyond + gap_usd[0],
        high_usd=beyond + gap_usd[1],
        causes={name: usd for name, usd in causes.items() if max(map(abs, usd)) >= _CENT},
        nodes_usd=bill.nodes_usd,
        all_usd=bill.amortised_usd,
        saved={entry.name: rates.saved(ledger, entry) for entry in ledger.alternatives if not rates.missing},
        assumptions=tuple(rates.assumptions()),
        billed_share=rates.billed_share,
    )


def _reduction(key: BillKey) -> str:
    if key.capacity_type == SPOT:
        return "spot prices"
    return "Savings Plans and reservations" if key.pricing is Pricing.COMMITTED else "negotiated discounts"


def _causes(
    recorded: Mapping[tuple[str, str], tuple[float, float]], ledger: Ledger, nodes: Mapping[BillKey, BilledAmounts]
) -> Iterator[tuple[str, float]]:
    billed = dict.fromkeys(recorded, 0.0)
    for key, amounts in nodes.items():
        kind = key.instance_type, key.capacity_type
        hours, usd = recorded.get(kind, (0.0, 0.0))
        if key.outside:
            yield OUTSIDE, amounts.effective
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
