"""Prices of a month: recorded prices with their changes, or a directory's prices for the entire month. Pure.

The exporter records the list price that the stack was deployed with. A directory of price files (`--prices`), for
example with negotiated prices, replaces it. Spot nodes are priced at the typical saving in the price tables.
"""

from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.lab.ledger.lives import NodeKey
from ebbtide.lab.ledger.month import SPOT, LedgerError
from ebbtide.lab.ledger.reading import RecordedMonth, Steps
from ebbtide.prices import NoPrice, PricingAssumption, on_demand, price_date, spot_typical, steady
from ebbtide.prices.missing import how_to_price
from ebbtide.prices.tables import place_in_use, replacement
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.model import StackSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """On-demand dollars per hour by instance type, and the fraction of the on-demand price that a spot node costs.

    `untyped` are dollars per hour of a node without an instance type, by groups whose nodes have one stated price.
    """

    listed: Mapping[str, Steps]
    spot_share: Mapping[str, float]
    untyped: Mapping[str, float]

    def know(self, key: NodeKey) -> bool:
        """Return False for a node that has no instance type and whose group states no price, such as Fargate's."""
        return bool(key.instance_type) or key.group in self.untyped

    def usd(self, key: NodeKey, at: float) -> float:
        if not key.instance_type:
            return self.untyped[key.group]
        usd = self.listed_usd(key.instance_type, at)
        return usd * self.spot_share.get(key.instance_type, 1.0) if key.capacity_type == SPOT else usd

    def usd_bounds(self, key: NodeKey, at: float) -> tuple[float, float]:
        usd = self.usd(key, at)
        return usd, usd

    def listed_usd(self, instance_type: str, at: float) -> float:
        """Return the list price. The first recorded price also applies before it was recorded."""
        steps = self.listed[instance_type]
        return steps[max(0, bisect_right(steps, (at, float("inf"))) - 1)][1]

    def changes(self, instance_type: str) -> tuple[float, ...]:
        return tuple(at for at, _ in self.listed.get(instance_type, ())[1:])


def rates_of(settings: StackSettings, recording: RecordedMonth) -> Rates:
    """Return the rates. Raises `LedgerError` with a line for each type that ran and has no price."""
    recorded: Mapping[str, Steps] = {} if _replaced(settings) else recording.prices
    shapes = with_node_sets(settings).node_groups
    listed: dict[str, Steps] = {}
    missing: list[str] = []
    ran = {key.instance_type: key.group for key in recording.sightings.seen if key.instance_type}
    fleets = {kind.name: group for group, shape in shapes.items() for kind in shape.types}
    before = {former.instance_type: group for group, former in settings.costs.before.items() if former.instance_type}
    for name, group in {**fleets, **before, **ran}.items():
        kind = shapes[group].type_like(name) if group in shapes else None
        own = None if kind is None else kind.usd_per_hour
        try:
            listed[name] = recorded.get(name) or (
                (0.0, on_demand(settings.stated_region, name) if own is None else own),
            )
        except NoPrice as error:
            if name in ran:
                why = error if settings.stated_region else f"no price: {how_to_price('')}"
                missing.append(f"{name} ran in {group or 'no group'}: {why}")
    if missing:
        raise LedgerError("\n".join(missing))
    spot_share: dict[str, float] = {}
    for name in listed:
        with suppress(NoPrice):
            spot_share[name] = spot_typical(settings.stated_region, name) / on_demand(settings.stated_region, name)
    stated = {group: {kind.usd_per_hour for kind in shape.types} for group, shape in shapes.items()}
    untyped = {group: usd for group, (usd, *others) in stated.items() if usd is not None and not others}
    return Rates(listed=listed, spot_share=spot_share, untyped=untyped)


def plan_share(settings: StackSettings, group: str, plan: PricingAssumption, instance_type: str = "") -> float:
    """Return the part of the list price that a node costs under a plan: of this type, or of the group's first one."""
    shape = with_node_sets(settings).node_groups.get(group)
    kind = instance_type if shape is None else shape.type_like(instance_type) or instance_type or shape.types[0]
    try:
        return steady(settings.stated_region, kind, plan) / on_demand(settings.stated_region, kind)
    except NoPrice:
        return 1.0


def described(settings: StackSettings) -> dict[str, str]:
    """Return the sources of the prices, with dates, for people."""
    dates, tables = price_date(settings.stated_region), place_in_use()
    recorded = "recorded by the exporter with each change; types without a record: "
    return {
        "on-demand": f"{'' if _replaced(settings) else recorded}{tables}, {dates.on_demand}",
        "spot": f"typical saving, {tables}, {dates.spot}",
        "plan": f"{settings.costs.pricing_assumption}, {tables}, {dates.plans}",
    }


def _replaced(settings: StackSettings) -> bool:
    """True if a directory of prices applies to the entire month."""
    book = replacement()
    return book is not None and settings.stated_region in book.regions
