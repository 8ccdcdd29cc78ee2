"""Terminal tables of the prices in use, and of the changes by an update."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from ebbtide.prices import plans_are_derived
from ebbtide.prices.book import Book
from ebbtide.prices.rows import ListPrice, PlanDiscount, ServicePrice, SpotSaving
from ebbtide.prices.update import Changed
from ebbtide.terminal import table

_SHOWN = 5


def overview_parts(book: Book) -> list[RenderableType]:
    columns = ("region", ">types", "on demand", "plans", "spot", "services")
    return [table(columns, (_region_row(book, region) for region in book.regions)), *_sources(book, book.regions)]


def _region_row(book: Book, region: str) -> tuple[str, ...]:
    count = sum(1 for row in book.list_prices if row.region == region)
    days = (book.as_of(kind, region) for kind in (ListPrice, PlanDiscount, SpotSaving, ServicePrice))
    return (region, str(count), *(day.isoformat() for day in days))


def region_parts(book: Book, region: str) -> list[RenderableType]:
    columns = ("type", ">vCPU", ">GiB", ">GPU", ">USD/hour", ">1 year", ">3 years", ">spot")
    nodes = table(columns, (_type_row(book, row) for row in book.list_prices if row.region == region))
    services = table(
        ("service", ">USD", "per"),
        ((f"{row.service} {row.item}", f"{row.usd:g}", row.unit) for row in book.services if row.region == region),
    )
    rates = (
        "approximate, from a similar reservation"
        if plans_are_derived(region)
        else "AWS's rates, the lowest of each family"
    )
    notes = f"1 year, 3 years: a Compute Savings Plan without upfront payment ({rates}); spot: the mean of one month"
    return [nodes, notes, "", services, "", *_sources(book, (region,))]


def _type_row(book: Book, row: ListPrice) -> tuple[str, ...]:
    family = row.instance_type.partition(".")[0]
    plans = (book.discount.get((row.region, family, "compute", years)) for years in ("1", "3"))
    saving = book.spot_saving.get((row.region, row.instance_type))
    usd = row.on_demand_usd_per_hour
    sizes = (str(row.vcpu), str(row.memory_gib), str(row.gpu or ""), f"{usd:.4f}")
    return (row.instance_type, *sizes, *(_discounted(usd, part) for part in (*plans, saving)))


def _discounted(usd: float, part: float | None) -> str:
    return "-" if part is None else f"{usd * (1 - part):.4f}"


def _sources(book: Book, regions: Sequence[str]) -> list[str]:
    """One line for each source of a file, with its regions and dates."""
    dated: dict[tuple[str, str], list[str]] = {}
    for row in book.dates:
        if row.region in regions:
            dated.setdefault((row.file, row.source), []).append(f"{row.region} {row.as_of.isoformat()}")
    return [f"{file}: {source} ({', '.join(where)})" for (file, source), where in dated.items()]


def change_lines(change: Changed) -> Iterator[str]:
    """Summarize an update of a region in a few lines."""
    yield f"{change.region}: {change.types} instance types, {len(change.moved)} with another price than before"
    for name, (old, new) in list(change.moved.items())[:_SHOWN]:
        yield f"  {name}: {old:g} -> {new:g} USD an hour ({new / old - 1:+.1%})"
    if len(change.moved) > _SHOWN:
        yield f"  and {len(change.moved) - _SHOWN} that changed less"
    if change.new:
        yield f"  new: {', '.join(change.new)}"
    if change.gone:
        yield f"  no longer listed by AWS, left out: {', '.join(change.gone)}"
    for note in change.notes:
        yield f"  {note}"
