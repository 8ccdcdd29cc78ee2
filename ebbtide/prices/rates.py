"""What an hour costs: list prices by region, and approximate rates under a commitment.

No public copy of the Savings Plan rates exists, so a plan's rate is the on-demand price less the discount of the
Reserved Instance that resembles it most (a Compute plan: the convertible one; an EC2 Instance plan: the standard
one). Whatever shows such a number must call it approximate: `PricingAssumption.approximate`.
"""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache

from ebbtide.prices.catalog import instance_type_names
from ebbtide.prices.tables import rows


class NoPrice(LookupError):
    """The tables hold no price for this; the message says what they do hold."""


class PricingAssumption(StrEnum):
    """How the hours are thought to be bought. An assumption for estimates, never a purchase."""

    ON_DEMAND = "on-demand"
    COMPUTE_1Y = "compute-1y-no-upfront"
    COMPUTE_3Y = "compute-3y-no-upfront"
    EC2_1Y = "ec2-1y-no-upfront"
    EC2_3Y = "ec2-3y-no-upfront"

    @property
    def approximate(self) -> bool:
        return self is not PricingAssumption.ON_DEMAND


_PLAN = {
    PricingAssumption.COMPUTE_1Y: ("compute", "1"),
    PricingAssumption.COMPUTE_3Y: ("compute", "3"),
    PricingAssumption.EC2_1Y: ("ec2_instance", "1"),
    PricingAssumption.EC2_3Y: ("ec2_instance", "3"),
}

_NEWEST_REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceDate:
    """When the on-demand prices of a region, and the discounts of plans and of spot, were current at the source."""

    on_demand: date
    plans: date
    spot: date


@cache
def _on_demand_prices() -> dict[tuple[str, str], float]:
    return {(row["region"], row["instance_type"]): float(row["on_demand_usd_per_hour"]) for row in rows("ec2")}


@cache
def _discounts() -> dict[tuple[str, str, str, str], float]:
    return {
        (row["region"], row["family"], row["plan"], row["term_years"]): float(row["discount_fraction"])
        for row in rows("savings_plans_approx")
    }


@cache
def _spot_savings() -> dict[tuple[str, str], float]:
    return {
        (row["region"], row["instance_type"]): float(row["savings_over_on_demand_fraction"])
        for row in rows("spot_typical")
    }


@cache
def _service_prices() -> dict[tuple[str, str, str], float]:
    return {(row["region"], row["service"], row["item"]): float(row["usd"]) for row in rows("services")}


def priced_regions() -> tuple[str, ...]:
    return tuple(sorted({region for region, _ in _on_demand_prices()}))


def price_date(region: str) -> PriceDate:
    """The dates to show beside a figure. P types outside us-east-1 are from mid-2025."""
    newest = region == _NEWEST_REGION
    return PriceDate(
        on_demand=date(2026, 7, 20) if newest else date(2025, 4, 24), plans=date(2025, 4, 24), spot=date(2025, 6, 28)
    )


def on_demand(region: str, type: str) -> float:  # noqa: A002 - the word of the trade, and callers pass it by position
    """US dollars per hour. Raises `NoPrice`."""
    price = _on_demand_prices().get((region, type))
    if price is None:
        raise NoPrice(_why_not(region, type))
    return price


def hourly(region: str, type: str, assumption: str = PricingAssumption.ON_DEMAND) -> float:  # noqa: A002 - as above
    """US dollars per hour under an assumption; approximate for all but on-demand. Raises `NoPrice`, ValueError."""
    price = on_demand(region, type)
    plan = _PLAN.get(PricingAssumption(assumption))
    if plan is None:
        return price
    discount = _discounts().get((region, type.partition(".")[0], *plan))
    if discount is None:
        raise NoPrice(f"no {assumption} discount is known for {type} in {region}; on-demand is {price:g} USD an hour")
    return price * (1 - discount)


def spot_typical(region: str, type: str) -> float:  # noqa: A002 - as above
    """US dollars per hour on spot, by the average saving of a month: zones and days differ widely. Raises `NoPrice`."""
    saving = _spot_savings().get((region, type))
    if saving is None:
        raise NoPrice(f"no typical spot saving is known for {type} in {region}")
    return on_demand(region, type) * (1 - saving)


def service_price(region: str, service: str, item: str) -> float:
    """US dollars per unit of the table: `("eks", "control_plane_standard")` is per cluster-hour. Raises `NoPrice`."""
    price = _service_prices().get((region, service, item))
    if price is None:
        raise NoPrice(f"no price for {service} {item} in {region}; regions with prices: {', '.join(priced_regions())}")
    return price


def _why_not(region: str, name: str) -> str:
    if region not in priced_regions():
        return f"no prices for region {region}; there are prices for {', '.join(priced_regions())}"
    if name not in instance_type_names():
        return f"{name} is not in the table of instance types"
    return f"no price for {name} in {region}: it was not offered there at the date of the prices"
