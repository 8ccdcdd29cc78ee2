"""One stack on a terminal: its components, resources, owners and monthly cost."""

from collections.abc import Sequence
from datetime import date

from rich.console import RenderableType
from rich.table import Table

from ebbtide.preview.cost.always import what_always_runs
from ebbtide.preview.cost.monthly import GroupCost, group_costs, not_in_figures, price_hint, sum_known, unpriced
from ebbtide.preview.cost.shares import ServiceCost, service_costs
from ebbtide.preview.render.cost import ALWAYS, line_notes
from ebbtide.prices.missing import named
from ebbtide.prices.tables import place_in_use
from ebbtide.recording.graph import component_tree, counts_by_type
from ebbtide.recording.ownership import lasting_rows, ownership_rows
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings
from ebbtide.text.pages import page_command
from ebbtide.text.sheet import WHOLE_DOLLARS, Cell, Column, Sheet, left, right
from ebbtide.text.terminal import sheet_table


def stack_parts(settings: StackSettings, resources: Sequence[Resource], day: date) -> list[RenderableType]:
    counts = counts_by_type(resources)
    always = what_always_runs(settings, day.year) if settings.cluster.context is None else None
    return [
        component_tree(resources, f"stack {settings.stack} ({settings.customer}, {settings.place})"),
        "",
        f"{sum(counts.values())} resources",
        _table([*left("type"), *right("number")], [(type_, str(count)) for type_, count in counts.items()]),
        "",
        "Fields that Pulumi declares once and then leaves to their owner",
        _table([*left("object", "field", "owner"), *right("declared")], _ownership(resources, settings)),
        "",
        f"What `pulumi destroy` refuses to delete or leaves behind ({page_command('life#the-last-day')})",
        _table(left("resource", "what"), [(row.resource, row.what) for row in lasting_rows(resources)]),
        "",
        "US dollars per month",
        *cost_parts(group_costs(settings, day, always=always), settings.region, not_in_figures(settings)),
        *_services(service_costs(settings, day.year, always)),
    ]


def _services(costs: Sequence[ServiceCost]) -> list[RenderableType]:
    """The share of the nodes that each service uses."""
    if not costs:
        return []
    columns = [*left("service"), *right("pods"), *_dollars("always", "at max")]
    rows = [(cost.pods, f"{cost.least} to {cost.most}", cost.usd_always, cost.usd_at_max) for cost in costs]
    return ["", "Of these, the nodes that services take: US dollars per month, on demand", _table(columns, rows)]


def _ownership(resources: Sequence[Resource], settings: StackSettings) -> list[tuple[str, ...]]:
    rows = ownership_rows(resources, settings.adopted, settings.budgeted_node_pools)
    return [(row.object, row.field, row.owner, row.initial) for row in rows]


def cost_parts(lines: Sequence[GroupCost], region: str, missing: Sequence[str] = ()) -> list[RenderableType]:
    """The monthly table and its notes."""
    if not lines:
        return ["not estimated: the cost of an existing cluster's nodes is not known here"]
    sums = (
        sum_known(lines, lambda line: line.usd_always),
        sum_known(lines, lambda line: line.usd_at_max),
        sum_known(lines, lambda line: line.usd_at_usage),
    )
    without, hint = unpriced(lines), price_hint(lines, region)
    basis = f"at least, without {named(without)}" if without else ""
    columns = [*left("line"), *_dollars("always", "at max", "at usage"), *left("price basis", fold=True)]
    costs = _table(columns, [*map(_cost_row, lines), ("total", *sums, basis)])
    notes = [f"always: {ALWAYS}", *line_notes(lines), *([f"{hint}."] if hint else []), *missing]
    dates = sorted({line.price_date.isoformat() for line in lines})
    usage = "" if any(line.node_hours for line in lines) else "; usage: not stated (costs.expectedNodeHours)"
    return [costs, *notes, f"list prices of {', '.join(dates)} ({place_in_use()}){usage}"]


def _cost_row(line: GroupCost) -> tuple[Cell, ...]:
    basis = f"about {line.assumption}" if line.approximate else line.assumption
    return (line.name, line.usd_always, line.usd_at_max, line.usd_at_usage, basis)


def _dollars(*names: str) -> list[Column]:
    return right(*names, unit=WHOLE_DOLLARS, unknown="-")


def _table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Table:
    return sheet_table(Sheet(columns=columns, rows=rows))
