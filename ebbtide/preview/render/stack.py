"""One stack on a terminal: its components, resources, owners and monthly cost."""

from collections.abc import Sequence
from datetime import date

from rich.console import RenderableType

from ebbtide.preview.cost.monthly import GroupCost, group_costs, not_in_figures, price_hint, sum_known, unpriced
from ebbtide.preview.cost.shares import service_costs
from ebbtide.prices.missing import named
from ebbtide.prices.tables import place_in_use
from ebbtide.recording.graph import component_tree, counts_by_type
from ebbtide.recording.ownership import lasting_rows, ownership_rows
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings
from ebbtide.terminal import table
from ebbtide.units.money import whole_dollars


def stack_parts(settings: StackSettings, resources: Sequence[Resource], day: date) -> list[RenderableType]:
    counts = counts_by_type(resources)
    return [
        component_tree(resources, f"stack {settings.stack} ({settings.customer}, {settings.place})"),
        "",
        f"{sum(counts.values())} resources",
        table(("type", ">number"), ((type_, str(count)) for type_, count in counts.items())),
        "",
        "Fields that Pulumi declares once and then leaves to their owner",
        table(("object", "field", "owner", ">declared"), _ownership(resources, settings)),
        "",
        "What `pulumi destroy` refuses to delete or leaves behind (docs/how-to/life.md)",
        table(("resource", "what"), ((row.resource, row.what) for row in lasting_rows(resources))),
        "",
        "US dollars per month",
        *cost_parts(group_costs(settings, day), settings.region, not_in_figures(settings)),
        *_services(settings),
    ]


def _services(settings: StackSettings) -> list[RenderableType]:
    """The share of the nodes that each service uses."""
    costs = service_costs(settings)
    if not costs:
        return []
    rows = [(c.pods, f"{c.least} to {c.most}", _share(c.usd_at_min), _share(c.usd_at_max)) for c in costs]
    heading = ("service", ">pods", ">at min", ">at max")
    return ["", "Of these, the nodes that services take: US dollars per month, on demand", table(heading, rows)]


def _share(usd: float | None) -> str:
    return "-" if usd is None else whole_dollars(usd)


def _ownership(resources: Sequence[Resource], settings: StackSettings) -> list[tuple[str, ...]]:
    rows = ownership_rows(resources, settings.adopted, settings.budgeted_node_pools)
    return [(row.object, row.field, row.owner, row.initial) for row in rows]


def cost_parts(lines: Sequence[GroupCost], region: str, missing: Sequence[str] = ()) -> list[RenderableType]:
    """The monthly table and its notes."""
    if not lines:
        return ["not estimated: what the nodes of an existing cluster cost is not known here"]
    rows = [_cost_row(line) for line in lines]
    at_min, at_max = (sum_known(lines, lambda line: line.usd_at_min), sum_known(lines, lambda line: line.usd_at_max))
    sums = (at_min, at_max, sum_known(lines, lambda line: line.usd_at_usage))
    without, hint = unpriced(lines), price_hint(lines, region)
    basis = f"at least, without {named(without)}" if without else ""
    rows.append(("total", *map(whole_dollars, sums), basis))
    costs = table(("line", ">at min", ">at max", ">at usage", "price basis"), rows, fold=("price basis",))
    notes = [*_notes(lines), *([f"{hint}."] if hint else []), *missing]
    dates = sorted({line.price_date.isoformat() for line in lines})
    usage = "" if any(line.node_hours for line in lines) else "; usage: not stated (costs.expectedNodeHours)"
    return [costs, *notes, f"list prices of {', '.join(dates)} ({place_in_use()}){usage}"]


def _cost_row(line: GroupCost) -> tuple[str, ...]:
    basis = f"about {line.assumption}" if line.approximate else line.assumption
    return (line.name, *map(whole_dollars, (line.usd_at_min, line.usd_at_max, line.usd_at_usage)), basis)


def _notes(lines: Sequence[GroupCost]) -> list[str]:
    """Each note once with all its lines: in a region without prices every line has the same note."""
    lines_of: dict[str, list[str]] = {}
    for line in lines:
        if line.note:
            lines_of.setdefault(line.note, []).append(line.name)
    return [f"{', '.join(names)}: {note}" for note, names in lines_of.items()]
