"""The bill as a FOCUS 1.2 dataset: one row for each kind of charge of the month; rows of nodes are per workload.

All columns of feature level "mandatory" are present, and others that need no identifier. The columns for ids of
accounts, resources, invoices and commitments are missing, or hold another name. Columns with the prefix `x_` hold the
allocation.
Source: FinOps Open Cost and Usage Specification 1.2, columns and attributes.
"""

from collections.abc import Iterator, Mapping

from ebbtide.lab.ledger.bill.bill import Bill, BillKey
from ebbtide.lab.ledger.bill.lines import BilledAmounts, Charge, Part
from ebbtide.lab.ledger.month import Ledger
from ebbtide.text.sheet import Sheet, csv_text, left

_AWS, _TIME = "AWS", "%Y-%m-%dT%H:%M:%SZ"
_SERVICES = {
    Part.NODES: ("Compute", "Virtual Machines", "Amazon Elastic Compute Cloud"),
    Part.CLUSTER: ("Compute", "Containers", "Amazon Elastic Kubernetes Service"),
    Part.FARGATE: ("Compute", "Containers", "Amazon Elastic Kubernetes Service"),
    Part.VOLUMES: ("Storage", "Block Storage", "Amazon Elastic Block Store"),
    Part.NAT: ("Networking", "Network Infrastructure", "Amazon Virtual Private Cloud"),
    Part.BALANCERS: ("Networking", "Application Networking", "Elastic Load Balancing"),
    Part.TRAFFIC: ("Networking", "Network Connectivity", "AWS Data Transfer"),
    Part.ADDRESSES: ("Networking", "Network Infrastructure", "Amazon Virtual Private Cloud"),
    Part.CACHE: ("Databases", "Caching", "Amazon ElastiCache"),
    Part.UNUSED_CAPACITY: ("Compute", "Virtual Machines", "Amazon Elastic Compute Cloud"),
    Part.PLANS: ("Compute", "Other (Compute)", "Savings Plans and reservations"),
    Part.OTHER: ("Other", "Other (Other)", "Other AWS services"),
}
_FREQUENCY = {Charge.USAGE: "Usage-Based", Charge.PURCHASE: "Recurring"}


def focus_text(bill: Bill, ledger: Ledger) -> str:
    """Return the dataset as CSV; a null is an empty cell."""
    rows = [*focus_rows(bill, ledger)]
    return csv_text(Sheet(columns=left(*rows[0]), rows=[[*row.values()] for row in rows]))


def focus_rows(bill: Bill, ledger: Ledger) -> Iterator[Mapping[str, str | None]]:
    period = bill.month.billed
    begin, end = (moment.strftime(_TIME) for moment in (period.begin, period.end))
    fixed = {
        "BillingAccountId": f"{ledger.customer}-payer",  # no account id leaves the report
        "BillingAccountName": None,
        "BillingCurrency": "USD",
        "BillingPeriodStart": begin,
        "BillingPeriodEnd": end,
        "ChargePeriodStart": begin,
        "ChargePeriodEnd": end,
        "InvoiceIssuerName": _AWS,
        "ProviderName": _AWS,
        "PublisherName": _AWS,
        "RegionId": ledger.region,
        "x_Customer": ledger.customer,
    }
    for key, amounts in bill.lines.items():
        shares = [share for share in ledger.shares if share.group == key.group and key.part is Part.NODES]
        total = sum(share.usd for share in shares)
        for share, fraction in [(share, share.usd / total) for share in shares] if total else [(None, 1.0)]:
            yield {
                **fixed,
                **_charge(key, amounts, fraction),
                "x_NodeGroup": key.group or None,
                "x_InstanceType": key.instance_type or None,
                "x_CapacityType": key.capacity_type or None,
                "x_Namespace": (key.namespace or share.namespace if share else key.namespace) or None,
                "x_Workload": (key.workload or None) if share is None or share.idle else share.workload,
                "x_WorkloadCategory": (share.category or None) if share else None,
                "x_Idle": None if share is None else str(share.idle).lower(),
            }


def _charge(key: BillKey, amounts: BilledAmounts, fraction: float) -> dict[str, str | None]:
    category = Charge.USAGE if key.charge is Charge.REFUND else key.charge
    has_quantity = category in (Charge.USAGE, Charge.PURCHASE)
    service, kind, name = _SERVICES[key.part]
    what = key.instance_type or key.part
    return {
        "BilledCost": _number(amounts.billed * fraction),
        "ContractedCost": _number(amounts.contracted * fraction),
        "EffectiveCost": _number(amounts.effective * fraction),
        "ListCost": _number(amounts.listed * fraction),
        "ChargeCategory": category,
        "ChargeClass": "Correction" if key.correction else None,
        "ChargeDescription": f"{what}, {key.charge.lower()}, {key.pricing.lower()}",
        "ChargeFrequency": _FREQUENCY.get(category, "One-Time"),
        "PricingCategory": key.pricing if has_quantity else None,
        "PricingQuantity": _number(amounts.quantity * fraction) if has_quantity else None,
        "PricingUnit": key.unit if has_quantity else None,
        "ServiceCategory": service,
        "ServiceName": name,
        "ServiceSubcategory": kind,
    }


def _number(value: float) -> str:
    return f"{value:.10f}"
