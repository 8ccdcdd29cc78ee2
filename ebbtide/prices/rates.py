"""Prices of an hour: list prices by region, and approximate rates under a commitment.

No public copy of the Savings Plan rates exists, so a plan's rate is the on-demand price less the discount of the
Reserved Instance that resembles it most (a Compute plan: the convertible one; an EC2 Instance plan: the standard
one). Such a number must be shown as approximate (`PricingAssumption.approximate`), also after an update from AWS, whose
rates differ by size where the tables have one discount for a family.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from ebbtide.prices.catalog import InstanceType, instance_type_names
from ebbtide.prices.rows import NO_BAND, ListPrice, PlanDiscount, ServicePrice, SpotSaving
from ebbtide.prices.tables import in_use, priced_regions, shipped


class NoPrice(LookupError):
    """The tables have no price for this; the message lists what they have."""


class PricingAssumption(StrEnum):
    """Assumed purchase of instance hours, for estimates. Ebbtide buys nothing."""

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


_EKS_REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceDate:
    """When the figures of a region were current at the source: list prices, discounts of plans, spot, services."""

    on_demand: date
    plans: date
    spot: date
    services: date


def price_date(region: str) -> PriceDate:
    """Return the dates to show next to a figure; for a region without prices, the oldest dates of the tables."""
    prices = in_use(region)
    return PriceDate(
        on_demand=prices.as_of(ListPrice),
        plans=prices.as_of(PlanDiscount),
        spot=prices.as_of(SpotSaving),
        services=prices.as_of(ServicePrice),
    )


def plans_are_derived(region: str) -> bool:
    """True if the region's plan discounts come from similar reservations, as the shipped ones do."""
    return in_use(region).plans_are_derived


def on_demand(region: str, type: str | InstanceType) -> float:  # noqa: A002 - the usual word, passed by position
    """US dollars per hour, which may be an estimate (`estimate_note`). Raises `NoPrice`."""
    name, own_price = _named(type)
    price = in_use(region).on_demand.get(name) if own_price is None else own_price
    if price is None:
        raise NoPrice(_why_not(region, name))
    return price


def _named(type: str | InstanceType) -> tuple[str, float | None]:  # noqa: A002 - as above
    """Return the type's name, and its price in the stack file, if any, which holds for all purchases."""
    return (type, None) if isinstance(type, str) else (type.name, type.usd_per_hour)


_ESTIMATES = {
    "same_family": "estimated from us-east-1",
    "nearest_family": "estimated from us-east-1",
    "nearest_family_weak": "roughly estimated from us-east-1",
    "metal_as_virtual": "estimated from the same size without .metal",
    "p4_cut_2025_06": "estimated from its price of April 2025",
}


def estimate_note(region: str, type: str | InstanceType) -> str:  # noqa: A002 - as above
    """Return how the on-demand price in use was estimated, in a few words, or "" for other prices."""
    name, own_price = _named(type)
    method = in_use(region).sources.get(name, "").partition(":")[0] if own_price is None else ""
    return _ESTIMATES.get(method, "")


def estimates_text(region: str, types: Iterable[InstanceType]) -> str:
    """Name the types whose on-demand price in use is an estimate: "m8i.large estimated from us-east-1", or ""."""
    types_of: dict[str, list[str]] = {}
    for kind in dict.fromkeys(types):
        if note := estimate_note(region, kind):
            types_of.setdefault(note, []).append(kind.name)
    return "; ".join(f"{', '.join(names)} {note}" for note, names in types_of.items())


def shipped_on_demand(region: str, type: str | InstanceType) -> float | None:  # noqa: A002 - as above
    """US dollars per hour in the stack file or the shipped tables, estimates included, whatever prices are in use.

    None without a price.
    Use it to decide where a pod runs: newer prices may change an estimate, but must never move a pod.
    """
    name, own_price = _named(type)
    return shipped(region).on_demand.get(name) if own_price is None else own_price


def hourly(
    region: str,
    type: str | InstanceType,  # noqa: A002 - as above
    assumption: str = PricingAssumption.ON_DEMAND,
) -> float:
    """US dollars per hour under an assumption; approximate for all but on-demand. Raises `NoPrice`, ValueError."""
    price = on_demand(region, type)
    plan = _PLAN.get(PricingAssumption(assumption))
    name, own_price = _named(type)
    if plan is None or own_price is not None:
        return price
    discount = in_use(region).discounts.get((name.partition(".")[0], *plan))
    if discount is None:
        raise NoPrice(f"no {assumption} discount is known for {name} in {region}; on-demand is {price:g} USD an hour")
    return price * (1 - discount)


def steady(region: str, type: str | InstanceType, assumption: str) -> float:  # noqa: A002 - as above
    """US dollars per hour of a node that always runs: under the assumption, or on demand if no discount is known.

    Raises `NoPrice`, ValueError.
    """
    return hourly(region, type, assumption if has_rate(region, type, assumption) else PricingAssumption.ON_DEMAND)


def has_rate(region: str, type: str | InstanceType, assumption: str) -> bool:  # noqa: A002 - as above
    """True if the rate of this assumption is known. Raises ValueError."""
    try:
        hourly(region, type, assumption)
    except NoPrice:
        return False
    return True


def spot_typical(region: str, type: str | InstanceType) -> float:  # noqa: A002 - as above
    """US dollars per hour on spot, by the average saving of a month: zones and days differ widely. Raises `NoPrice`."""
    name, own_price = _named(type)
    if own_price is not None:
        return own_price
    saving = in_use(region).spot_saving.get(name)
    if saving is None:
        raise NoPrice(_without_saving([name], region))
    return on_demand(region, name) * (1 - saving)


def unknown_spot_prices(region: str, types: Iterable[InstanceType]) -> str:
    """Name the types that have a list price and no typical spot price, as `NoPrice` does; "" if there are none."""
    prices = in_use(region)
    listed = [kind.name for kind in types if kind.usd_per_hour is None and kind.name in prices.on_demand]
    bare = [name for name in listed if name not in prices.spot_saving]
    return _without_saving(bare, region) if bare else ""


def _without_saving(names: Iterable[str], region: str) -> str:
    return f"no typical spot saving is known for {', '.join(names)} in {region}"


def interruption_band(region: str, type: str) -> str | None:  # noqa: A002 - as above
    """The share of the type's spot instances that AWS interrupted within a month, as a band; None if unknown."""
    band = in_use(region).interruption_band.get(type)
    return None if band == NO_BAND else band


def service_price(region: str, service: str, item: str) -> float:
    """US dollars per unit of the table: `("eks", "control_plane_standard")` is per cluster-hour. Raises `NoPrice`."""
    price = in_use(region).service.get((service, item))
    if price is None and service == "eks":  # its fee is the same in every region
        price = in_use(_EKS_REGION).service.get((service, item))
    if price is None:
        what = f"price for {service} {item} in" if in_use(region).services else "prices of services for region"
        raise NoPrice(_no_region(region) or f"no {what} {region} (from AWS: {_update(region)})")
    return price


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRate:
    """US dollars per node-hour of a group: for its first `floor` nodes, which a plan covers, and for all others.

    A Savings Plan is paid for every hour of its term, used or not, so it should cover only a group's `min`. Nodes up
    to that floor cost the plan's rate in every hour, even while one is missing.
    """

    floor: int
    floor_usd: float
    above_usd: float

    def usd_per_hour(self, nodes: float) -> float:
        """Return the cost of `nodes` nodes, which may be a mean if there were never fewer than the floor."""
        return self.floor * self.floor_usd + max(0.0, nodes - self.floor) * self.above_usd


def group_rate(region: str, type: str | InstanceType, assumption: str, *, floor: int) -> GroupRate:  # noqa: A002 - as above
    """Return the group's rates. Without a floor no plan is needed; without a known discount all nodes are on demand.

    Raises `NoPrice`, ValueError.
    """
    price = on_demand(region, type)
    covered = PricingAssumption(assumption) if floor else PricingAssumption.ON_DEMAND
    return GroupRate(floor=floor, floor_usd=steady(region, type, covered), above_usd=price)


def _why_not(region: str, name: str) -> str:
    if no_region := _no_region(region):
        return no_region
    if name not in instance_type_names():
        return f"{name} is not in the table of instance types, and its shape has no usdPerHour"
    day = price_date(region).on_demand
    return f"no price for {name} in {region} in the tables of {day} (from AWS: {_update(region)})"


def _no_region(region: str) -> str:
    if region in priced_regions():
        return ""
    return f"no prices for region {region}; ebbtide prices show lists the others (from AWS: {_update(region)})"


def _update(region: str) -> str:
    return f"ebbtide prices update --region {region}"
