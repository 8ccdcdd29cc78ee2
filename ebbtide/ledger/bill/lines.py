"""The kind of a line item, and its dollars: listed, billed and effective. Pure.

The effective (amortised) cost of an hour that a Savings Plan covers is in a column of the plan. The same hour is a
second time in the report, at its on-demand price, and a row of type SavingsPlanNegation takes that back.
Source: AWS Data Exports User Guide, columns of line items, Savings Plans and reservations.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.ledger.bill.report import Row


class Part(StrEnum):
    """A line of the bill."""

    NODES = "nodes"
    CLUSTER = "cluster fee"
    VOLUMES = "volumes"
    NAT = "NAT gateways"
    BALANCERS = "load balancers"
    TRAFFIC = "traffic"
    ADDRESSES = "addresses and endpoints"
    CACHE = "cache"
    PLANS = "plans and reservations"
    OTHER = "other services"


class Charge(StrEnum):
    """The charge category, in the words of FOCUS, and refunds."""

    USAGE = "Usage"
    PURCHASE = "Purchase"
    TAX = "Tax"
    CREDIT = "Credit"
    REFUND = "Refund"
    ADJUSTMENT = "Adjustment"


class Pricing(StrEnum):
    """The pricing category, in the words of FOCUS."""

    STANDARD = "Standard"
    COMMITTED = "Committed"
    DYNAMIC = "Dynamic"


APART = (Charge.TAX, Charge.CREDIT, Charge.REFUND, Charge.ADJUSTMENT)

_PRODUCTS = {
    "AmazonEKS": Part.CLUSTER,
    "AWSELB": Part.BALANCERS,
    "AmazonVPC": Part.ADDRESSES,
    "AmazonElastiCache": Part.CACHE,
}
_USAGE = (  # in this order: traffic of a load balancer or gateway is traffic
    (re.compile(r"(?:^|-)(?:DataTransfer-|AWS-(?:In|Out)-)"), Part.TRAFFIC),
    (re.compile(r"(?:^|-)NatGateway-"), Part.NAT),
    (re.compile(r"(?:^|-)(?:BoxUsage|SpotUsage|DedicatedUsage)(?::|$)"), Part.NODES),
    (re.compile(r"(?:^|-)EBS:"), Part.VOLUMES),
)
_COMMITMENTS = {"SavingsPlanRecurringFee", "SavingsPlanUpfrontFee", "RIFee"}
_TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dollars:
    """`listed`: public on-demand price. `contracted`: before commitments. `effective`: amortised."""

    charge: Charge
    pricing: Pricing
    listed: float
    contracted: float
    billed: float
    effective: float


def part_of(row: Row) -> Part:
    if row.text("line_item_line_item_type") in _COMMITMENTS:
        return Part.PLANS
    usage = row.text("line_item_usage_type")
    for pattern, part in _USAGE:
        if pattern.search(usage):
            return part
    return _PRODUCTS.get(row.text("line_item_product_code"), Part.OTHER)


def instance_type_of(row: Row) -> str:
    """Return the instance type, or "" if no column names one."""
    usage = row.text("line_item_usage_type").partition(":")[2]
    for text in (row.text("product_instance_type"), row.pairs("product").get("instance_type", ""), usage):
        if _TYPE.fullmatch(text):
            return text
    return ""


def is_spot(row: Row) -> bool:
    return "SpotUsage" in row.text("line_item_usage_type")


def dollars_of(row: Row) -> tuple[Dollars, ...]:
    """Return the charges of one row: none for a negation, two for a fee whose commitment was not used up."""
    unblended = row.amount("line_item_unblended_cost")
    net = row.amount("line_item_net_unblended_cost", "line_item_unblended_cost")
    listed = row.amount("pricing_public_on_demand_cost")
    kind = row.text("line_item_line_item_type")
    match kind:
        case "Usage":
            pricing = Pricing.DYNAMIC if is_spot(row) else Pricing.STANDARD
            return (_charge(Charge.USAGE, net, listed=listed, pricing=pricing),)
        case "SavingsPlanCoveredUsage":
            columns = ("savings_plan_net_savings_plan_effective_cost", "savings_plan_savings_plan_effective_cost")
            return (_covered(listed, unblended, 0.0, row.needed(*columns)),)
        case "DiscountedUsage":
            columns = ("reservation_net_effective_cost", "reservation_effective_cost")
            return (_covered(listed, listed, net, row.needed(*columns)),)
        case "SavingsPlanNegation":
            return ()
        case "SavingsPlanRecurringFee":
            total = row.needed("savings_plan_total_commitment_to_date")
            return _fee(net, total - row.needed("savings_plan_used_commitment"))
        case "RIFee":
            return _fee(net, _unused_reservation(row))
        case "SavingsPlanUpfrontFee":
            return _fee(net, 0.0)
        case "Fee":
            if row.text("reservation_reservation_a_r_n"):
                return _fee(net, 0.0)
            return (_charge(Charge.PURCHASE, net),)
        case "Tax" | "Credit" | "Refund":
            return (_charge(Charge(kind), net),)
        case _ if kind.endswith("Discount"):
            return (_charge(Charge.ADJUSTMENT, net),)
        case _:
            row.fault("line_item_line_item_type: wanted a type of CUR 2.0, found another (for example Usage)")
            return ()


def _charge(charge: Charge, usd: float, *, listed: float | None = None, pricing: Pricing = Pricing.STANDARD) -> Dollars:
    return Dollars(
        charge=charge,
        pricing=pricing,
        listed=usd if listed is None else listed,
        contracted=usd,
        billed=usd,
        effective=usd,
    )


def _covered(listed: float, contracted: float, billed: float, effective: float) -> Dollars:
    return Dollars(
        charge=Charge.USAGE,
        pricing=Pricing.COMMITTED,
        listed=listed,
        contracted=contracted,
        billed=billed,
        effective=effective,
    )


def _fee(billed: float, unused: float) -> tuple[Dollars, ...]:
    """Return the fee, whose cost is in the hours that it covers, and the part that covered none."""
    fee = Dollars(
        charge=Charge.PURCHASE,
        pricing=Pricing.STANDARD,
        listed=billed,
        contracted=billed,
        billed=billed,
        effective=0.0,
    )
    return (fee, _covered(0.0, 0.0, 0.0, unused)) if unused > 0 else (fee,)


def _unused_reservation(row: Row) -> float:
    upfront, fee = (
        "reservation_{}unused_amortized_upfront_fee_for_billing_period",
        "reservation_{}unused_recurring_fee",
    )
    return sum(row.needed(column.format("net_"), column.format("")) for column in (upfront, fee))
