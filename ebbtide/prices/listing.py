"""Terminal tables of the prices in use, and of the changes by an update."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from ebbtide.prices import estimate_note, instance_type, instance_type_names
from ebbtide.prices.book import RegionPrices
from ebbtide.prices.rows import ListPrice, PlanDiscount, ServicePrice, SpotSaving
from ebbtide.prices.update import Changed
from ebbtide.text.sheet import Cell, Sheet, Unit, left, right
from ebbtide.text.terminal import sheet_table

_SHOWN = 5
_NAMED = 20


_FILES = (ListPrice, PlanDiscount, SpotSaving, ServicePrice)


def overview_parts(prices: Mapping[str, RegionPrices]) -> list[RenderableType]:
    columns = [*left("region"), *right("types", "estimated"), *left("on demand", "plans", "spot", "services")]
    return [
        sheet_table(Sheet(columns=columns, rows=[_region_row(*entry) for entry in prices.items()])),
        *_sources(prices),
    ]


def _region_row(region: str, prices: RegionPrices) -> tuple[str, ...]:
    estimated = sum(1 for name in prices.on_demand if estimate_note(region, name))
    days = (prices.as_of(kind).isoformat() for kind in (ListPrice, PlanDiscount, SpotSaving))
    services = prices.as_of(ServicePrice).isoformat() if prices.services else "-"
    return (region, str(len(prices.on_demand)), str(estimated or ""), *days, services)


def region_parts(region: str, prices: RegionPrices) -> list[RenderableType]:
    amounts = right("USD/hour", "1 year", "3 years", "spot", unit=Unit("", "{:.4f}".format), unknown="-")
    nodes = Sheet(
        columns=[*left("type"), *right("vCPU", "GiB", "GPU"), *amounts, *left("source")],
        rows=[_type_row(region, name, prices) for name in prices.on_demand],
    )
    services = Sheet(
        columns=[*left("service"), *right("USD", unit=Unit("", "{:g}".format)), *left("per")],
        rows=[(f"{row.service} {row.item}", row.usd, row.unit) for row in prices.services],
    )
    rates = (
        "approximate, from a similar reservation"
        if prices.plans_are_derived
        else "AWS's rates, the lowest of each family"
    )
    notes = f"1 year, 3 years: a Compute Savings Plan without upfront payment ({rates}); spot: the mean of one month"
    missing = f"no prices of services but the EKS fee; from AWS: ebbtide prices update --region {region}"
    listed = sheet_table(services) if prices.services else missing
    return [sheet_table(nodes), notes, "", listed, "", *_sources({region: prices})]


def _type_row(region: str, name: str, prices: RegionPrices) -> tuple[Cell, ...]:
    family = name.partition(".")[0]
    plans = (prices.discounts.get((family, "compute", years)) for years in ("1", "3"))
    usd = prices.on_demand[name]
    discounted = (_discounted(usd, part) for part in (*plans, prices.spot_saving.get(name)))
    source = estimate_note(region, name) or prices.sources.get(name, "")
    return (name, *_sizes(name), usd, *discounted, source)


def _sizes(name: str) -> tuple[str, str, str]:
    """A directory may have prices of types that the table of sizes lacks."""
    if name not in instance_type_names():
        return ("", "", "")
    kind = instance_type(name)
    return (str(kind.vcpu), str(kind.memory_mib // 1024), str(kind.gpu or ""))


def _discounted(usd: float, part: float | None) -> float | None:
    return None if part is None else usd * (1 - part)


def _sources(prices: Mapping[str, RegionPrices]) -> list[str]:
    """One line for each source of a file, with its date and regions."""
    regions: dict[tuple[str, str, str], list[str]] = {}
    for region, tables in prices.items():
        for kind in _FILES:
            entry = tables.dates[kind.FILE]
            if entry.region == region:
                regions.setdefault((kind.FILE, entry.source, entry.as_of.isoformat()), []).append(region)
    return [f"{file}: {source}, {day} ({', '.join(where)})" for (file, source, day), where in regions.items()]


def change_lines(change: Changed) -> Iterator[str]:
    """Summarize an update of a region in a few lines."""
    yield f"{change.region}: {change.types} instance types, {len(change.moved)} with another price than before"
    for name, (old, new) in list(change.moved.items())[:_SHOWN]:
        yield f"  {name}: {old:g} -> {new:g} USD an hour ({new / old - 1:+.1%})"
    if len(change.moved) > _SHOWN:
        yield f"  and {len(change.moved) - _SHOWN} that changed less"
    if change.new:
        yield f"  new: {_names(change.new)}"
    if change.gone:
        yield f"  no longer listed by AWS, left out: {_names(change.gone)}"
    for note in change.notes:
        yield f"  {note}"


def _names(types: Sequence[str]) -> str:
    more = len(types) - _NAMED
    return ", ".join(types[:_NAMED]) + (f" and {more} more" if more > 0 else "")
