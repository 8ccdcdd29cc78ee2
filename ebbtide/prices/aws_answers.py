"""The answers of AWS's three price APIs as plain figures. Pure: no network, no clock.

Shapes: `GetProducts` returns `PriceList`, a list of JSON *texts*, each a product with its attributes and its terms;
`DescribeSavingsPlansOfferingRates` returns `searchResults`, whose facts are in a list of named `properties`;
`DescribeSpotPriceHistory` returns a point for each change of a zone's price (botocore's service models; usage types and
units as in infracost's `internal/resources/aws`).

Usage types carry the region as a prefix that no public table explains (`EUC1-`, `EU-`, `us-east-1-`, none at all in the
oldest region), and longer names end like shorter ones (`Regional-NatGateway-Hours`), so the prefix is matched strictly.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ebbtide.prices.catalog import instance_type_names
from ebbtide.prices.rows import Years

_PREFIX = r"(?:[A-Z]+\d?-|[a-z]{2}(?:-[a-z]+)+-\d-)?"
_TERMS: Mapping[int, Years] = {31_536_000: 1, 3 * 31_536_000: 3}  # in seconds, as AWS counts


class StrangeAnswer(Exception):
    """AWS's answer has an unexpected form, from which no price is guessed. The message is one line."""


@dataclass(frozen=True, slots=True)
class Item:
    """Match a line of `services.csv` to its service's price list."""

    service: str
    item: str
    unit: str  # as in `services.csv`
    usage_type: str
    per: str  # AWS's unit, in lower case


ITEMS = (
    Item("eks", "control_plane_standard", "cluster-hour", "AmazonEKS-Hours:perCluster", "hrs"),
    Item("eks", "control_plane_extended_support", "cluster-hour", "AmazonEKS-Hours:extendedSupport", "hrs"),
    Item("vpc", "nat_gateway", "gateway-hour", "NatGateway-Hours", "hrs"),
    Item("vpc", "nat_gateway_data", "gb", "NatGateway-Bytes", "gb"),
    Item("vpc", "public_ipv4", "address-hour", "PublicIPv4:InUseAddress", "hrs"),
    Item("vpc", "interface_endpoint", "endpoint-zone-hour", "VpcEndpoint-Hours", "hrs"),
    Item("ebs", "gp3_storage", "gb-month", "EBS:VolumeUsage.gp3", "gb-mo"),
    Item("ebs", "gp3_iops_over_3000", "iops-month", "EBS:VolumeP-IOPS.gp3", "iops-mo"),
    Item("ebs", "gp3_throughput_over_125", "mbps-month", "EBS:VolumeP-Throughput.gp3", "mibps-mo"),
    Item("kms", "customer_managed_key", "key-month", "KMS-Keys", "keys"),
)
# AWS writes one unit in several ways, and sells throughput by the GiB/s where a stack asks for MiB/s.
_UNITS = {
    "hours": ("hrs", 1),
    "hour": ("hrs", 1),
    "gb-month": ("gb-mo", 1),
    "gibps-mo": ("mibps-mo", 1024),
    "key": ("keys", 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One product of the price list with its price on demand."""

    attributes: Mapping[str, str]
    usd: float
    unit: str  # in lower case: AWS writes both Hrs and hrs

    def is_used_as(self, usage_type: str) -> bool:
        """True for this usage type in the region itself: local zones and carriers' sites have other prices."""
        in_region = self.attributes.get("locationType", "AWS Region") == "AWS Region"
        product_usage = self.attributes.get("usagetype", "")
        return in_region and re.fullmatch(_PREFIX + re.escape(usage_type), product_usage) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPoint:
    instance_type: str
    zone: str
    since: datetime
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRate:
    instance_type: str
    plan: str  # as in `savings_plans_approx.csv`
    term_years: Years
    usd: float


def products(price_list: Iterable[object]) -> tuple[Product, ...]:
    """Return the products with an on-demand price; of several tiers the first counts."""
    parsed = (_product(text) for text in price_list)
    return tuple(product for product in parsed if product is not None)


def _product(text: object) -> Product | None:
    try:
        entry: Any = json.loads(text) if isinstance(text, str) else text
        attributes = {str(name): str(value) for name, value in entry["product"]["attributes"].items()}
        terms: Iterable[Any] = entry.get("terms", {}).get("OnDemand", {}).values()
        tiers = [tier for term in terms for tier in term["priceDimensions"].values()]
        first = [tier for tier in tiers if float(tier.get("beginRange", 0)) == 0 and "USD" in tier["pricePerUnit"]]
        prices = [_per_unit(float(tier["pricePerUnit"]["USD"]), str(tier["unit"])) for tier in first]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StrangeAnswer(f"a product of the price list has another form than documented ({error!r})") from None
    paid = [(usd, unit) for usd, unit in prices if usd > 0]
    return Product(attributes=attributes, usd=paid[0][0], unit=paid[0][1]) if paid else None


def _per_unit(usd: float, unit: str) -> tuple[float, str]:
    name, parts = _UNITS.get(unit.lower(), (unit.lower(), 1))
    return usd / parts, name


def list_prices(listed: Sequence[Product]) -> dict[str, float]:
    """US dollars an hour of the instance types in the table of sizes."""
    names = set(instance_type_names())
    prices: dict[str, set[float]] = defaultdict(set)
    for product in listed:
        name = product.attributes.get("instanceType", "")
        if name in names and product.is_used_as(f"BoxUsage:{name}"):
            _expect(product.unit, "hrs", name)
            prices[name].add(product.usd)
    return {name: _only(prices[name], name) for name in instance_type_names() if name in prices}


def service_prices(listed: Sequence[Product]) -> dict[Item, float]:
    """US dollars per unit of `services.csv`, without items that AWS does not list in the region."""
    prices: dict[Item, float] = {}
    for item in ITEMS:
        matching = [product for product in listed if product.is_used_as(item.usage_type)]
        for product in matching:
            _expect(product.unit, item.per, item.usage_type)
        if matching:
            prices[item] = _only({product.usd for product in matching}, item.usage_type)
    return prices


def cache_prices(listed: Sequence[Product]) -> dict[str, float]:
    """US dollars a node-hour, by `cache.t4g.small:valkey`."""
    prices: dict[str, set[float]] = defaultdict(set)
    for product in listed:
        name = product.attributes.get("instanceType", "")
        engine = product.attributes.get("cacheEngine", "").lower()
        if engine in ("redis", "valkey") and product.is_used_as(f"NodeUsage:{name}"):
            _expect(product.unit, "hrs", name)
            prices[f"{name}:{engine}"].add(product.usd)
    return {item: _only(prices[item], item) for item in sorted(prices)}


def plan_rates(results: Iterable[object]) -> tuple[PlanRate, ...]:
    """Rates without upfront payment of the instance types in the table of sizes."""
    rates = (_plan_rate(result) for result in results)
    return tuple(rate for rate in rates if rate is not None)


def _plan_rate(result: Any) -> PlanRate | None:
    try:
        offering = result["savingsPlanOffering"]
        facts = {str(fact["name"]): str(fact["value"]) for fact in result.get("properties", ())}
        usage = str(result["usageType"])
        usd, unit = _per_unit(float(result["rate"]), str(result["unit"]))
        plan = {"Compute": "compute", "EC2Instance": "ec2_instance"}.get(str(offering["planType"]))
        years = _TERMS.get(int(offering["durationSeconds"]))
        payment, currency = offering["paymentOption"], offering.get("currency", "USD")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StrangeAnswer(f"a Savings Plan rate has another form than documented ({error!r})") from None
    name = re.fullmatch(_PREFIX + r"BoxUsage:([a-z0-9-]+\.[a-z0-9-]+)", usage)
    linux = facts.get("productDescription", "Linux/UNIX") == "Linux/UNIX"
    shared = facts.get("tenancy", "shared") == "shared"
    is_ours = linux and shared and payment == "No Upfront" and currency == "USD"
    if name is None or plan is None or years is None or not is_ours or usd <= 0 or name[1] not in instance_type_names():
        return None
    _expect(unit, "hrs", usage)
    return PlanRate(instance_type=name[1], plan=plan, term_years=years, usd=usd)


def spot_points(history: Iterable[object]) -> tuple[SpotPoint, ...]:
    return tuple(_spot_point(point) for point in history)


def _spot_point(point: Any) -> SpotPoint:
    try:
        return SpotPoint(
            instance_type=str(point["InstanceType"]),
            zone=str(point.get("AvailabilityZone") or point["AvailabilityZoneId"]),
            since=point["Timestamp"],
            usd=float(point["SpotPrice"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StrangeAnswer(f"a spot price has another form than documented ({error!r})") from None


def spot_means(points: Iterable[SpotPoint], start: datetime, end: datetime) -> dict[str, float]:
    """Return the mean price of each type, over time within a zone and then over zones.

    A price holds from its point until the zone's next one. A mean of the points would overrate hours with many changes
    against weeks without any.
    """
    zones: dict[tuple[str, str], list[SpotPoint]] = defaultdict(list)
    for point in points:
        zones[point.instance_type, point.zone].append(point)
    means: dict[str, list[float]] = defaultdict(list)
    for (name, _), changes in zones.items():
        mean = _mean_over_time(sorted(changes, key=lambda point: point.since), start, end)
        if mean is not None:
            means[name].append(mean)
    return {name: sum(of_zones) / len(of_zones) for name, of_zones in sorted(means.items())}


def _mean_over_time(changes: Sequence[SpotPoint], start: datetime, end: datetime) -> float | None:
    seconds = dollars = 0.0
    for change, until in zip(changes, [*(point.since for point in changes[1:]), end], strict=True):
        held = (min(until, end) - max(change.since, start)).total_seconds()
        if held > 0:
            seconds += held
            dollars += held * change.usd
    return dollars / seconds if seconds else None


def _expect(unit: str, expected: str, product: str) -> None:
    if unit != expected:
        raise StrangeAnswer(f"{product} is priced per {unit!r}, wanted a price per {expected!r}")


def _only(prices: set[float], product: str) -> float:
    if len(prices) > 1:
        listed = ", ".join(f"{price:g}" for price in sorted(prices))
        raise StrangeAnswer(f"{product} has several prices ({listed} USD), and which one counts is not known")
    return next(iter(prices))
