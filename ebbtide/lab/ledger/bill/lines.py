"""The kind of a line item, and its dollars: listed, billed and effective. Pure.

The effective (amortised) cost of an hour that a Savings Plan covers is in a column of the plan. The report also has the
same hour at its on-demand price, which a row of type SavingsPlanNegation cancels.
Source: AWS Data Exports User Guide, columns of line items, Savings Plans and reservations; "Monitoring your On-Demand
capacity reservations" for the usage types UnusedBox and UnusedDed. An instance that runs in reserved capacity is billed
as such, and its rows of type Reservation and DedicatedRes cost nothing.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ebbtide.lab.ledger.bill.report import LineItem, Uncharged


class Part(StrEnum):
    """A line of the bill."""

    NODES = "nodes"
    CLUSTER = "cluster fee"
    FARGATE = "pods on Fargate"
    VOLUMES = "volumes"
    NAT = "NAT gateways"
    BALANCERS = "load balancers"
    TRAFFIC = "traffic"
    ADDRESSES = "addresses and endpoints"
    CACHE = "cache"
    UNUSED_CAPACITY = "unused capacity reservations"
    PLANS = "plans and reservations"
    OTHER = "other services"


class Charge(StrEnum):
    """The charge category, in the words of FOCUS, with refunds and discounts."""

    USAGE = "Usage"
    PURCHASE = "Purchase"
    TAX = "Tax"
    CREDIT = "Credit"
    REFUND = "Refund"
    ADJUSTMENT = "Adjustment"
    DISCOUNT = "Discount"  # without a net cost: a part of the usage, unless net costs of the usage include it


class Pricing(StrEnum):
    """The pricing category, in the words of FOCUS."""

    STANDARD = "Standard"
    COMMITTED = "Committed"
    DYNAMIC = "Dynamic"


SEPARATE_CHARGES = (Charge.TAX, Charge.CREDIT, Charge.REFUND, Charge.ADJUSTMENT)

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
    (re.compile(r"(?:^|-)(?:UnusedBox|UnusedDed)(?::|$)"), Part.UNUSED_CAPACITY),
    (re.compile(r"(?:^|-)EBS:"), Part.VOLUMES),
)
_FARGATE = re.compile(r"(?:^|-)Fargate-")
"""Usage of EKS: Fargate of ECS has no pods."""
_ONE_AT_A_TIME = re.compile(
    r"(?:^|-)(?:(?:BoxUsage|SpotUsage|DedicatedUsage)(?::|$)|AmazonEKS-Hours:perCluster$|LoadBalancerUsage$)"
)
"""Usage of which a resource has at most one hour in an hour; endpoints and gateways are counted in each zone."""
COMMITMENTS = {"SavingsPlanRecurringFee", "SavingsPlanUpfrontFee", "RIFee"}
_CURRENCY = "USD"
_NAME = re.compile(r"[A-Za-z]{1,40}")
_TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")


@dataclass(slots=True)
class BilledAmounts:
    """US dollars, and a quantity in the unit of the price.

    Listed: the public on-demand price. Contracted: before commitments. Effective: amortised.
    """

    listed: float = 0.0
    contracted: float = 0.0
    billed: float = 0.0
    effective: float = 0.0
    quantity: float = 0.0

    def add(self, other: "BilledAmounts") -> None:
        self.listed += other.listed
        self.contracted += other.contracted
        self.billed += other.billed
        self.effective += other.effective
        self.quantity += other.quantity


Charged: TypeAlias = tuple[Charge, Pricing, BilledAmounts]


def part_of(row: LineItem) -> Part:
    if row.line_item_line_item_type in COMMITMENTS:
        return Part.PLANS
    for pattern, part in _USAGE:
        if pattern.search(row.line_item_usage_type):
            return part
    part = _PRODUCTS.get(row.line_item_product_code, Part.OTHER)
    return Part.FARGATE if part is Part.CLUSTER and _FARGATE.search(row.line_item_usage_type) else part


def instance_type_of(row: LineItem) -> str:
    """Return the instance type, or "" if no column names one."""
    usage = row.line_item_usage_type.partition(":")[2]
    names = (row.product_instance_type, str(row.product.get("instance_type", "")), usage)
    return next((name for name in names if _TYPE.fullmatch(name)), "")


def is_spot(row: LineItem) -> bool:
    return "SpotUsage" in row.line_item_usage_type


def lasts_an_hour(row: LineItem) -> bool:
    """Return True for hours of which one resource has no more than one in an hour, such as those of an instance."""
    return (
        row.pricing_unit.lower() in ("hrs", "hours", "") and _ONE_AT_A_TIME.search(row.line_item_usage_type) is not None
    )


def charges_of(row: LineItem) -> tuple[Charged, ...]:
    """Return the charges of one row: none for a negation, two for a fee whose commitment was not fully used.

    Raises `BadRow`; `Uncharged` for an unknown type and for another currency.
    """
    if (currency := row.line_item_currency_code) != _CURRENCY:
        fault = f"line_item_currency_code: wanted {_CURRENCY}, found another currency"
        raise Uncharged(fault, f"in currency{_word(currency)}", currency if _word(currency) else "")
    unblended = row.first("line_item_unblended_cost")
    net = row.first("line_item_net_unblended_cost", "line_item_unblended_cost")
    listed = row.first("pricing_public_on_demand_cost")
    same = BilledAmounts(net, net, net, net)
    match row.line_item_line_item_type:
        case "Usage":
            pricing = Pricing.DYNAMIC if is_spot(row) else Pricing.STANDARD
            return ((Charge.USAGE, pricing, BilledAmounts(listed, net, net, net)),)
        case "SavingsPlanCoveredUsage":
            effective = row.first(
                "savings_plan_net_savings_plan_effective_cost", "savings_plan_savings_plan_effective_cost"
            )
            return ((Charge.USAGE, Pricing.COMMITTED, BilledAmounts(listed, unblended, 0.0, effective)),)
        case "DiscountedUsage":
            effective = row.first("reservation_net_effective_cost", "reservation_effective_cost")
            return ((Charge.USAGE, Pricing.COMMITTED, BilledAmounts(listed, listed, net, effective)),)
        case "SavingsPlanNegation":
            return ()
        case "SavingsPlanRecurringFee":
            total = row.first("savings_plan_total_commitment_to_date")
            return _fee(net, total - row.first("savings_plan_used_commitment"))
        case "RIFee":
            parts = ("unused_amortized_upfront_fee_for_billing_period", "unused_recurring_fee")
            unused = sum(row.first(f"reservation_net_{part}", f"reservation_{part}") for part in parts)
            return _fee(net, unused)
        case "Fee" if not row.reservation_reservation_a_r_n:
            return ((Charge.PURCHASE, Pricing.STANDARD, same),)
        case "Fee" | "SavingsPlanUpfrontFee":
            return _fee(net, 0.0)
        case "Tax" | "Credit" | "Refund" as kind:
            return ((Charge(kind), Pricing.STANDARD, same),)
        case kind if kind.endswith("Discount") and row.line_item_net_unblended_cost is None:
            pricing = Pricing.DYNAMIC if is_spot(row) else Pricing.STANDARD
            return ((Charge.DISCOUNT, pricing, BilledAmounts(0.0, net, net, net)),)
        case kind if kind.endswith("Discount"):
            return ((Charge.ADJUSTMENT, Pricing.STANDARD, same),)
        case _:
            fault = "line_item_line_item_type: wanted a type of CUR 2.0, found another (for example Usage)"
            raise Uncharged(fault, f"of unknown type{_word(row.line_item_line_item_type)}", _CURRENCY)


def _word(name: str) -> str:
    """Return a name of a type or a currency with a blank before it; nothing for other text, which may name people."""
    return f" {name}" if _NAME.fullmatch(name) else ""


def _fee(billed: float, unused: float) -> tuple[Charged, ...]:
    """Return the fee, whose effective cost is in the hours that it covers, and the part that covered no hours."""
    fee = (Charge.PURCHASE, Pricing.STANDARD, BilledAmounts(billed, billed, billed, 0.0))
    rest = (Charge.USAGE, Pricing.COMMITTED, BilledAmounts(effective=unused))
    return (fee, rest) if unused > 0 else (fee,)
