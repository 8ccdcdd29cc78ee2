"""Update a directory of prices: replace the figures of the queried regions. Pure.

Other regions of the directory keep their figures and their dates. A figure that AWS no longer lists is left out instead
of kept under a new date: a price at which nothing is sold is worse than a gap.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TypeVar

from ebbtide.prices.aws_questions import Figures
from ebbtide.prices.book import Book, RegionPrices
from ebbtide.prices.catalog import instance_type
from ebbtide.prices.rows import (
    AWS_PLAN_RATE,
    NO_BAND,
    AsOf,
    ListPrice,
    PlanDiscount,
    ServicePrice,
    SpotSaving,
    Years,
    listed_sizes,
)

PRICE_LIST = "aws-price-list"
_ROUGH = 0.02  # a wider spread within a family gets a note: the table has one discount for all its sizes

R = TypeVar("R", ListPrice, PlanDiscount, SpotSaving, ServicePrice, AsOf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Changes of a region's on-demand prices by an update."""

    region: str
    types: int
    new: tuple[str, ...]
    gone: tuple[str, ...]
    moved: Mapping[str, tuple[float, float]]  # before and after, the largest change first
    notes: tuple[str, ...]  # services without a price, and wide spreads, a sentence each


def updated(book: Book, before: Mapping[str, RegionPrices], figures: Iterable[Figures], today: date) -> Book:
    """Return the newer directory; the updated regions, whose earlier prices are `before`, come last in each table."""
    updates = {region.region: region for region in figures}
    prices = [_list_price(region.region, *price) for region in updates.values() for price in region.on_demand.items()]
    discounts = [row for region in updates.values() for row in _discounts(region)]
    spot = [row for region in updates.values() for row in _spot(region, before[region.region])]
    services = [row for region in updates.values() for row in _services(region)]
    dates = [row for region in updates for row in _dates(region, today)]
    return Book(
        list_prices=(*_unchanged(book.list_prices, updates), *prices),
        discounts=(*_unchanged(book.discounts, updates), *discounts),
        spot=(*_unchanged(book.spot, updates), *spot),
        services=(*_unchanged(book.services, updates), *services),
        dates=(*_unchanged(book.dates, updates), *dates),
    )


def _unchanged(table: tuple[R, ...], updates: Mapping[str, Figures]) -> Iterator[R]:
    return (row for row in table if row.region not in updates)


def _list_price(region: str, name: str, usd: float) -> ListPrice:
    return ListPrice(region=region, instance_type=name, on_demand_usd_per_hour=usd, **listed_sizes(name))


def _spreads(figures: Figures) -> dict[tuple[str, str, Years], list[float]]:
    """The discounts of a family's sizes, by family, plan and term."""
    spreads: dict[tuple[str, str, Years], list[float]] = defaultdict(list)
    for rate in figures.plans:
        price = figures.on_demand.get(rate.instance_type)
        if price is not None and rate.usd < price:
            family = instance_type(rate.instance_type).family
            spreads[family, rate.plan, rate.term_years].append(1 - rate.usd / price)
    return dict(sorted(spreads.items()))


def _discounts(figures: Figures) -> Iterator[PlanDiscount]:
    """Use the smallest discount of a family: an estimate may promise too little, never too much."""
    for (family, plan, years), discounts in _spreads(figures).items():
        yield PlanDiscount(
            region=figures.region,
            family=family,
            plan=plan,
            term_years=years,
            payment="no_upfront",
            discount_fraction=_fraction(min(discounts)),
            proxy=AWS_PLAN_RATE,
        )


def _spot(figures: Figures, before: RegionPrices) -> Iterator[SpotSaving]:
    """Keep the previous interruption band: AWS has no API for the frequency of interruptions."""
    for name, usd in figures.spot.items():
        price = figures.on_demand.get(name)
        if price is not None:
            yield SpotSaving(
                region=figures.region,
                instance_type=name,
                savings_over_on_demand_fraction=_fraction(1 - usd / price),
                interruption_frequency_band=before.interruption_band.get(name, NO_BAND),
            )


def _fraction(saved: float) -> float:
    """Round to a hundredth of a percent, and keep the price above zero and at most the on-demand price."""
    return min(max(round(saved, 4), 0.0), 0.9999)


def _services(figures: Figures) -> Iterator[ServicePrice]:
    lines = {(item.service, item.item, item.unit): usd for item, usd in figures.services.items()}
    lines |= {("elasticache", name, "node-hour"): usd for name, usd in figures.caches.items()}
    for (service, item, unit), usd in sorted(lines.items()):
        yield ServicePrice(
            region=figures.region,
            service=service,
            item=item,
            unit=unit,
            usd=usd,
            confidence="high",
            source=PRICE_LIST,
        )


def _dates(region: str, today: date) -> Iterator[AsOf]:
    for row, source in (
        (ListPrice, "AWS price list (GetProducts)"),
        (PlanDiscount, "AWS Savings Plans (DescribeSavingsPlansOfferingRates)"),
        (SpotSaving, "AWS EC2 (DescribeSpotPriceHistory, mean of 30 days)"),
        (ServicePrice, "AWS price list (GetProducts)"),
    ):
        yield AsOf(file=row.FILE, region=region, as_of=today, source=source)


def changed(before: RegionPrices, figures: Figures) -> Changed:
    region, old = figures.region, before.on_demand
    both = {name: (old[name], usd) for name, usd in figures.on_demand.items() if name in old}
    moved = {name: pair for name, pair in both.items() if pair[0] != pair[1]}
    return Changed(
        region=region,
        types=len(figures.on_demand),
        new=tuple(name for name in figures.on_demand if name not in old),
        gone=tuple(name for name in old if name not in figures.on_demand),
        moved=dict(sorted(moved.items(), key=lambda entry: -abs(entry[1][1] / entry[1][0] - 1))),
        notes=(*_gone_services(before, figures), *_rough(figures)),
    )


def _gone_services(before: RegionPrices, figures: Figures) -> Iterator[str]:
    services = {(row.service, row.item) for row in _services(figures)}
    for row in before.services:
        if (row.service, row.item) not in services:
            yield f"{row.service} {row.item}: AWS lists no price for it, so it is left out (it was {row.usd:g} USD)"


def _rough(figures: Figures) -> Iterator[str]:
    for (family, plan, years), discounts in _spreads(figures).items():
        if max(discounts) - min(discounts) > _ROUGH:
            spread = f"{min(discounts):.1%} to {max(discounts):.1%}"
            yield f"{family}, {plan} plan of {years} years: discounts differ by size, {spread}; the least is taken"
