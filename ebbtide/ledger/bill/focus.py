"""The bill as a FOCUS 1.2 dataset: one row for each kind of charge of the month, nodes divided among their causes.

All columns of feature level "mandatory" are there, and others that need no identifier. The columns for ids of
accounts, resources, invoices and commitments are missing, or hold another name. Columns with the prefix `x_` hold the
allocation.
Source: FinOps Open Cost and Usage Specification 1.2, columns and attributes.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ebbtide.ledger.bill.bill import Bill, BillKey, period_of
from ebbtide.ledger.bill.lines import Amounts, Charge, Part
from ebbtide.ledger.month import Ledger, Share

Cell: TypeAlias = str | float | None

_AWS, _TIME = "AWS", "%Y-%m-%dT%H:%M:%SZ"
_SERVICES = {
    Part.NODES: ("Compute", "Virtual Machines", "Amazon Elastic Compute Cloud"),
    Part.CLUSTER: ("Compute", "Containers", "Amazon Elastic Kubernetes Service"),
    Part.VOLUMES: ("Storage", "Block Storage", "Amazon Elastic Block Store"),
    Part.NAT: ("Networking", "Network Infrastructure", "Amazon Virtual Private Cloud"),
    Part.BALANCERS: ("Networking", "Application Networking", "Elastic Load Balancing"),
    Part.TRAFFIC: ("Networking", "Network Connectivity", "AWS Data Transfer"),
    Part.ADDRESSES: ("Networking", "Network Infrastructure", "Amazon Virtual Private Cloud"),
    Part.CACHE: ("Databases", "Caching", "Amazon ElastiCache"),
    Part.PLANS: ("Compute", "Other (Compute)", "Savings Plans and reservations"),
    Part.OTHER: ("Other", "Other (Other)", "Other AWS services"),
}
_FREQUENCY = {Charge.USAGE: "Usage-Based", Charge.PURCHASE: "Recurring"}


def focus_text(bill: Bill, ledger: Ledger) -> str:
    """Return the dataset as CSV; a null is an empty cell."""
    rows = [*focus_rows(bill, ledger)]
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(map(_text, row.values()) for row in rows)
    return out.getvalue()


def focus_rows(bill: Bill, ledger: Ledger) -> Iterator[Mapping[str, Cell]]:
    shares = _shares(ledger.shares)
    for key, amounts in _by_month(bill).items():
        parts = shares.get(key.group, ()) if key.part is Part.NODES else ()
        for share, fraction in parts or ((None, 1.0),):
            yield {**_fixed(bill), **_charge(key, amounts, fraction), **_allocation(bill, key, share)}


def _by_month(bill: Bill) -> Mapping[BillKey, Amounts]:
    """Add up the days: the ledger's shares are those of the month."""
    begin, _ = period_of(bill.month)
    sums: dict[BillKey, Amounts] = {}
    for key, amounts in bill.lines.items():
        sums.setdefault(replace(key, day=begin.date()), Amounts(0.0, 0.0, 0.0, 0.0)).add(amounts)
    return sums


def _shares(shares: Iterable[Share]) -> dict[str, list[tuple[Share, float]]]:
    """Return the share of each cause in the dollars of its group."""
    by_group: dict[str, list[Share]] = {}
    for share in shares:
        by_group.setdefault(share.group, []).append(share)
    totals = {group: sum(share.usd for share in found) for group, found in by_group.items()}
    return {
        group: [(share, share.usd / totals[group]) for share in found]
        for group, found in by_group.items()
        if totals[group] > 0
    }


def _fixed(bill: Bill) -> dict[str, Cell]:
    begin, end = (moment.strftime(_TIME) for moment in period_of(bill.month))
    return {
        "BillingAccountId": f"{bill.customer}-payer",  # no account id leaves the report
        "BillingAccountName": None,
        "BillingCurrency": "USD",
        "BillingPeriodStart": begin,
        "BillingPeriodEnd": end,
        "ChargePeriodStart": begin,
        "ChargePeriodEnd": end,
        "InvoiceIssuerName": _AWS,
        "ProviderName": _AWS,
        "PublisherName": _AWS,
        "RegionId": bill.region,
    }


def _charge(key: BillKey, amounts: Amounts, fraction: float) -> dict[str, Cell]:
    category = Charge.USAGE if key.charge is Charge.REFUND else key.charge
    has_quantity = category in (Charge.USAGE, Charge.PURCHASE)
    service, kind, name = _SERVICES[key.part]
    what = key.instance_type or key.part
    return {
        "BilledCost": amounts.billed * fraction,
        "ContractedCost": amounts.contracted * fraction,
        "EffectiveCost": amounts.effective * fraction,
        "ListCost": amounts.listed * fraction,
        "ChargeCategory": category,
        "ChargeClass": "Correction" if key.correction else None,
        "ChargeDescription": f"{what}, {key.charge.lower()}, {key.pricing.lower()}",
        "ChargeFrequency": _FREQUENCY.get(category, "One-Time"),
        "PricingCategory": key.pricing if has_quantity else None,
        "PricingQuantity": amounts.quantity * fraction if has_quantity else None,
        "PricingUnit": key.unit if has_quantity else None,
        "ServiceCategory": service,
        "ServiceName": name,
        "ServiceSubcategory": kind,
    }


def _allocation(bill: Bill, key: BillKey, share: Share | None) -> dict[str, Cell]:
    return {
        "x_Customer": bill.customer,
        "x_NodeGroup": key.group or None,
        "x_InstanceType": key.instance_type or None,
        "x_CapacityType": key.capacity_type or None,
        "x_Workload": share.workload if share and not share.idle else None,
        "x_WorkloadCategory": (share.category or None) if share else None,
        "x_Idle": None if share is None else str(share.idle).lower(),
    }


def _text(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:.10f}".rstrip("0").rstrip(".") if cell else "0"
    return "" if cell is None else str(cell)
