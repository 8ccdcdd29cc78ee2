"""The node costs of a bill relative to the ledger's prices, and savings at the bill's rates. Pure.

A bill has no fleet that did not run, so an alternative's dollars are multiplied by ratios of the bill. On demand there
are two: of all hours, commitments included, and of the hours that no commitment covers. The first assumes that
commitments grow with the fleet, the second that they stay. A saving lies between. Commitments are paid for also if
nodes go: what the report has unused could have covered additional hours, so the low end leaves it out.
The ratios are by capacity type, of the types that the ledger recorded. The ledger's price of a bill's hours follows
from their public price on the bill, since prices change within a month. A bill without most of the recorded hours, such
as one whose tags began within the month, has no ratios, nor has a ledger with an assumed plan.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor

from ebbtide.lab.ledger.bill.bill import Bill, BillKey
from ebbtide.lab.ledger.bill.lines import BilledAmounts, Charge, Part, Pricing
from ebbtide.lab.ledger.month import ON_DEMAND, SPOT, Alternative, FleetUsd, Ledger
from ebbtide.text.counts import percent
from ebbtide.text.money import dollars

LEAST_BILLED = 0.95
"""The share of the recorded node-hours that a bill must have: its month is in UTC, and begins and ends hours apart."""
_LEAST_SAID = 0.005
"""Below this share of the dollars, lacking hours are the distance of samples."""
OUTSIDE = "hours of the billing month outside the ledger's"
Kinds = Mapping[tuple[str, str], tuple[float, float]]
"""Recorded hours and dollars by instance type and capacity type."""


def nodes_of(bill: Bill) -> Mapping[BillKey, BilledAmounts]:
    """Return the lines of nodes, net of discounts, without taxes, credits and refunds."""
    return {
        key: amounts
        for key, amounts in bill.lines.items()
        if key.part is Part.NODES and key.charge in (Charge.USAGE, Charge.PURCHASE)
    }


def recorded_kinds(ledger: Ledger) -> Kinds:
    recorded: dict[tuple[str, str], tuple[float, float]] = {}
    for row in ledger.paid:
        kind = row.instance_type, row.capacity_type
        hours, usd = recorded.get(kind, (0.0, 0.0))
        recorded[kind] = hours + row.hours, usd + row.usd
    return recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class BillRates:
    """Ratios of the bill's dollars to the ledger's price of the same hours."""

    nodes_usd: float  # within the ledger's month
    all_hours: float | None  # on demand, effective: commitments and discounts included; None without such hours
    uncovered: float | None  # on demand, hours without a commitment: discounts included; None without such hours
    spot: float | None  # effective to typical; None without spot hours in both
    unused_usd: float  # commitments of the entire report that covered nothing
    billed_share: float  # of the recorded node-hours
    lacking_usd: float  # recorded hours that the bill lacks, at its rates
    plan_is_assumed: bool  # in the ledger's dollars

    @property
    def missing(self) -> str:
        """Return why there are no savings at the bill's rates; "" if there are."""
        if self.plan_is_assumed:
            return "the ledger's dollars have the plan of costs.pricingAssumption, and the bill the real commitments"
        if self.billed_share >= LEAST_BILLED:
            return ""
        share = billed_percent(self.billed_share)
        return f"the bill has {share} of the recorded node-hours, wanted {percent(LEAST_BILLED)}"

    def saved(self, ledger: Ledger, entry: Alternative) -> tuple[float, float] | None:
        """Return the bounds of the saving at the bill's rates.

        What the entry's bounds have beyond its variants, such as the model's errors, counts as on demand.
        """
        if entry.low_usd is None or entry.high_usd is None:
            return None
        variants = entry.variants or (FleetUsd(0.0, 0.0, 0.0),)
        if self.all_hours is None and any(variant.on_demand for variant in variants):
            return None
        low, high = entry.low_usd, entry.high_usd
        if entry.paired:
            gaps_usd = sum(gap.high_usd - gap.low_usd for gap in ledger.gaps)
            low, high = low - ledger.low_usd, high - ledger.high_usd + gaps_usd
        listed = [usd + spot for usd, *both in variants for spot in both]
        ratios = [ratio for ratio in (self.all_hours, self._most_per_usd) if ratio is not None]
        billed = [
            variant.on_demand * ratio + spot
            for variant in variants
            for ratio in ratios
            for spot in self._spot_usd(ledger, variant)
        ]
        month_usd = 0.0 if entry.paired else self.nodes_usd + self.lacking_usd
        least = min(billed) + min((low - min(listed)) * ratio for ratio in ratios) - month_usd
        most = max(billed) + max((high - max(listed)) * ratio for ratio in ratios) - month_usd
        return least - max(0.0, min(self.unused_usd, least)), most

    @property
    def _most_per_usd(self) -> float:
        """Return the ratio of an additional hour on demand: without such an hour on the bill the list price."""
        return 1.0 if self.uncovered is None else self.uncovered

    def assumptions(self) -> Iterator[str]:
        if self.missing:
            yield f"Not calculated: {self.missing}."
            return
        if self.all_hours is None:
            yield "Fleets with on-demand nodes are not calculated: the bill has no such node."
        else:
            open_hours = (
                "the bill has no hour without a commitment: an alternative's hours cost between that and the ledger's"
                if self.uncovered is None
                else f"{percent(self.uncovered)} in hours without a commitment: an alternative's hours cost between the"
            )
            share = f"On-demand nodes cost {percent(self.all_hours)} of the ledger's prices"
            yield f"{share}, and {open_hours} {'prices' if self.uncovered is None else 'two'}."
        if self.spot is not None:
            yield f"Spot nodes cost {percent(self.spot)} of their typical price."
        if self.lacking_usd >= _LEAST_SAID * self.nodes_usd:
            yield f"The bill lacks hours of recorded nodes: {dollars(self.lacking_usd)} at its rates count as paid."
        if self.unused_usd:
            yield (
                f"Fewer nodes save no commitment: the low end leaves out {dollars(self.unused_usd)} of unused ones in "
                "the entire report, which could have covered additional hours."
            )

    def _spot_usd(self, ledger: Ledger, variant: FleetUsd) -> Sequence[float]:
        """Return the spot nodes' part at the bill's price, as if they had the month's types; without it both bounds."""
        rows = [row for row in ledger.paid if row.capacity_type == SPOT]
        usd, less = sum(row.usd for row in rows), sum(row.less_usd for row in rows)
        width = less + sum(row.more_usd for row in rows)
        if self.spot is None or not width:
            return variant.at_low_spot, variant.at_high_spot
        place = (usd * self.spot - (usd - less)) / width
        return [variant.at_low_spot + place * (variant.at_high_spot - variant.at_low_spot)]


def rates_of_bill(ledger: Ledger, bill: Bill) -> BillRates:
    recorded = recorded_kinds(ledger)
    nodes_usd = billed_hours = 0.0
    on_demand, open_hours, spot = _Sum(), _Sum(), _Sum()
    nodes = nodes_of(bill)
    levels = _levels(recorded, nodes)
    for key, amounts in nodes.items():
        if key.outside:
            continue
        nodes_usd += amounts.effective
        hours, usd = recorded.get((key.instance_type, key.capacity_type), (0.0, 0.0))
        if not hours:
            continue
        billed_hours += amounts.quantity
        level = levels[key.instance_type, key.capacity_type]
        at_ledger = usd / hours * amounts.quantity if level is None else amounts.listed * level
        (spot if key.capacity_type == SPOT else on_demand).add(amounts.effective, at_ledger)
        if key.pricing is Pricing.STANDARD:
            open_hours.add(amounts.contracted, at_ledger)
    lacking = {SPOT: 0.0, ON_DEMAND: 0.0}
    for (_, capacity_type), (usd, share) in _lacking(recorded, nodes).items():
        lacking[capacity_type] += usd * share
    recorded_hours = sum(hours for hours, _ in recorded.values())
    unused = 0.0 if bill.utilisation is None else bill.committed_usd * (1 - bill.utilisation)
    return BillRates(
        nodes_usd=nodes_usd,
        all_hours=on_demand.ratio,
        uncovered=open_hours.ratio,
        spot=spot.ratio,
        unused_usd=unused + bill.unused_reservation_usd,
        billed_share=billed_hours / recorded_hours if recorded_hours else 0.0,
        lacking_usd=sum(
            lacking[kind] * (1.0 if of.ratio is None else of.ratio)
            for kind, of in ((SPOT, spot), (ON_DEMAND, on_demand))
        ),
        plan_is_assumed=ledger.has_plan,
    )


def billed_percent(share: float) -> str:
    """Return whole percent, rounded down: rounded up it could be the wanted share."""
    return percent(floor(100 * share) / 100)


def _lacking(recorded: Kinds, nodes: Mapping[BillKey, BilledAmounts]) -> Mapping[tuple[str, str], tuple[float, float]]:
    """Return each kind's recorded dollars, and the share of its hours that the bill lacks."""
    billed = dict.fromkeys(recorded, 0.0)
    for key, amounts in nodes.items():
        kind = key.instance_type, key.capacity_type
        if kind in billed and not key.outside:
            billed[kind] += amounts.quantity
    return {kind: (usd, max(0.0, 1 - billed[kind] / hours)) for kind, (hours, usd) in recorded.items() if hours}


def _levels(recorded: Kinds, nodes: Mapping[BillKey, BilledAmounts]) -> Mapping[tuple[str, str], float | None]:
    """Return the ledger's price of each kind's billed hours as a part of their public price; None without one."""
    sums: dict[tuple[str, str], BilledAmounts] = {}
    for key, amounts in nodes.items():
        if not key.outside:
            sums.setdefault((key.instance_type, key.capacity_type), BilledAmounts()).add(amounts)
    levels: dict[tuple[str, str], float | None] = {}
    for kind, billed in sums.items():
        hours, usd = recorded.get(kind, (0.0, 0.0))
        levels[kind] = usd / hours * billed.quantity / billed.listed if hours and billed.listed else None
    return levels


@dataclass(slots=True)
class _Sum:
    usd: float = 0.0
    at_ledger: float = 0.0

    def add(self, usd: float, at_ledger: float) -> None:
        self.usd += usd
        self.at_ledger += at_ledger

    @property
    def ratio(self) -> float | None:
        return self.usd / self.at_ledger if self.at_ledger else None
