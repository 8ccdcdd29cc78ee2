"""Prices of a month: recorded prices with their changes, or a directory's prices for the entire month. Pure.

The exporter records the list price that the stack was deployed with. A directory of price files (`--prices`), for
example with negotiated prices, replaces it. Spot nodes are priced at the typical saving in the price tables, with
bounds: the price of a month is not recorded.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.lab.ledger.lives import NodeKey
from ebbtide.lab.ledger.month import LIST_PRICES, SPOT, LedgerError
from ebbtide.lab.ledger.reading import RecordedNodes, Steps
from ebbtide.prices import NoPrice, PricingAssumption, on_demand, price_date, spot_typical, steady
from ebbtide.prices.missing import how_to_price
from ebbtide.prices.tables import place_in_use, replacement
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.model import StackSettings

_SPOT_FACTORS = 0.5, 2.0
"""Bounds of a spot price as multiples of the typical one, which is at most the on-demand price.

Measured: prices of five types in up to 15 regions (SkyPilot's catalog v8) over the typical prices of 2025-06-28 in the
tables. Of 63 means over a region's zones 92 % lie between the factors, and of 188 prices of single zones 88 %; the
medians are 0.97 and 0.95. Zones of one region alone differ by -30 % to +30 % from their mean in 95 % of 8,432 prices
(2022-05-31, DOI 10.5281/zenodo.14198917).
"""
SPOT_IS_A_RANGE = "Spot prices are not recorded: from half to double the typical one, at most on demand."
_CHEAPEST_SPOT = 0.1
"""The lowest fraction of the on-demand price. Source: Amazon EC2 Spot, "up to a 90 % discount"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """On-demand dollars per hour by instance type, and the fraction of the on-demand price that a spot node costs.

    `stated` are types with a price in the stack file, which also holds on spot if no saving is known. `untyped` are
    dollars per hour of a node without an instance type, by groups whose nodes have one stated price.
    """

    listed: Mapping[str, Steps]
    spot_share: Mapping[str, float]  # typical
    stated: Collection[str]
    untyped: Mapping[str, float]

    def know(self, key: NodeKey) -> bool:
        """Return False for a node that has no instance type and whose group states no price, such as Fargate's."""
        return bool(key.instance_type) or key.group in self.untyped

    def usd(self, key: NodeKey, at: float) -> float:
        if not key.instance_type:
            return self.untyped[key.group]
        usd = self.listed_usd(key.instance_type, at)
        return usd * self.spot_share.get(key.instance_type, 1.0) if key.capacity_type == SPOT else usd

    def spot_bounds(self, instance_type: str) -> tuple[float, float]:
        """Return the lowest and the highest fraction of the on-demand price that a spot node may cost."""
        if (typical := self.spot_share.get(instance_type)) is None:
            return 1.0 if instance_type in self.stated else _CHEAPEST_SPOT, 1.0
        low, high = _SPOT_FACTORS
        return min(typical, max(_CHEAPEST_SPOT, low * typical)), min(1.0, high * typical)

    def usd_bounds(self, key: NodeKey, at: float) -> tuple[float, float]:
        """Return the bounds of a node's dollars per hour: they differ for spot nodes only."""
        usd = self.usd(key, at)
        if key.capacity_type != SPOT or not key.instance_type:
            return usd, usd
        listed, (low, high) = self.listed_usd(key.instance_type, at), self.spot_bounds(key.instance_type)
        return listed * low, listed * high

    def listed_usd(self, instance_type: str, at: float) -> float:
        """Return the list price. The first recorded price also applies before it was recorded."""
        steps = self.listed[instance_type]
        return steps[max(0, bisect_right(steps, (at, float("inf"))) - 1)][1]

    def changes(self, instance_type: str) -> tuple[float, ...]:
        return tuple(at for at, _ in self.listed.get(instance_type, ())[1:])


def rates_of(settings: StackSettings, recording: RecordedNodes) -> Rates:
    """Return the rates. Raises `LedgerError` with a line for each type that ran and has no price."""
    recorded: Mapping[str, Steps] = {} if _replaced(settings) else recording.prices
    shapes = with_node_sets(settings).node_groups
    listed: dict[str, Steps] = {}
    stated: set[str] = set()
    missing: list[str] = []
    ran = {key.instance_type: key.group for key in recording.sightings.seen if key.instance_type}
    fleets = {kind.name: group for group, shape in shapes.items() for kind in shape.types}
    before = {former.instance_type: group for group, former in settings.costs.before.items() if former.instance_type}
    for name, group in {**fleets, **before, **ran}.items():
        kind = shapes[group].type_like(name) if group in shapes else None
        own = None if kind is None else kind.usd_per_hour
        if own is not None:
            stated.add(name)
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
    prices = {group: {kind.usd_per_hour for kind in shape.types} for group, shape in shapes.items()}
    untyped = {group: usd for group, (usd, *others) in prices.items() if usd is not None and not others}
    return Rates(listed=listed, spot_share=spot_share, stated=stated, untyped=untyped)


def plan_share(settings: StackSettings, group: str, plan: PricingAssumption, instance_type: str = "") -> float:
    """Return the part of the list price that a node costs under a plan: of this type, or of the group's first one."""
    shape = with_node_sets(settings).node_groups.get(group)
    kind = instance_type if shape is None else shape.type_like(instance_type) or instance_type or shape.types[0]
    try:
        return steady(settings.stated_region, kind, plan) / on_demand(settings.stated_region, kind)
    except NoPrice:
        return 1.0


def basis_of(settings: StackSettings) -> str:
    """Return the prices of the ledger's dollars: list prices, a directory's, or those that the stack file states."""
    if _replaced(settings):
        return f"the prices of {place_in_use()}"
    own = [
        kind.usd_per_hour is not None for shape in with_node_sets(settings).node_groups.values() for kind in shape.types
    ]
    return "the stack file's prices" if own and all(own) else LIST_PRICES


def described(settings: StackSettings) -> dict[str, str]:
    """Return the sources of the prices, with dates, for people."""
    dates, tables = price_date(settings.stated_region), place_in_use()
    recorded = "recorded by the exporter with each change; types without a record: "
    return {
        "on-demand": f"{'' if _replaced(settings) else recorded}{tables}, {dates.on_demand}",
        "spot": f"half to double the typical price, at most on demand; {tables}, {dates.spot}",
        "plan": f"{settings.costs.pricing_assumption}, {tables}, {dates.plans}",
    }


def _replaced(settings: StackSettings) -> bool:
    """True if a directory of prices applies to the entire month."""
    book = replacement()
    return book is not None and settings.stated_region in book.regions
