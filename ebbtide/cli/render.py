"""`ebbtide render`: what a stack would create, with no cloud, no cluster, no credentials and no network.

Three views of one recording: text for people, JSON for tools, Mermaid for a page; and with `--output` the files that
`kubectl apply --server-side` takes, without the fields that others write. Values that only AWS knows are invented and
look it (account 111122223333).
"""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table

from ebbtide.files import Unwritable, write_directory
from ebbtide.preview.cost import GroupCost, group_costs
from ebbtide.preview.graph import mermaid
from ebbtide.preview.lasting import LastingRow, lasting_rows
from ebbtide.preview.manifests import manifests, steps
from ebbtide.preview.masked import as_json
from ebbtide.preview.needed_secrets import needed_secrets
from ebbtide.preview.ownership import OwnershipRow, ownership_rows
from ebbtide.preview.recording import record
from ebbtide.preview.resources import Resource
from ebbtide.preview.tree import component_tree, counts_by_type
from ebbtide.prices.tables import place_in_use
from ebbtide.settings import StackInvalid, StackSettings, load_stack

command = typer.Typer(add_completion=False, rich_markup_mode=None)


_WIDTH = 160


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


_STACK_HELP = "A name (demo for stacks/Pulumi.demo.yaml) or a path."
_OUTPUT_HELP = (
    "Write kubernetes/*.yaml, APPLY.md, resources.json, graph.mmd and controller-config.json to this directory."
)


@command.command(epilog="Example: ebbtide render demo --output out/demo")
def render(
    stack: Annotated[str, typer.Argument(metavar="STACK", help=_STACK_HELP)],
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help=_OUTPUT_HELP)] = None,
    format_: Annotated[Format, typer.Option("--format", help="Text for people or JSON for tools.")] = Format.TEXT,
    graph: Annotated[
        bool, typer.Option("--graph", help="Print the components as a Mermaid graph, nothing else.")
    ] = False,
) -> None:
    """Write what a stack would create, without a cloud."""
    out = _console()
    try:
        settings = load_stack(stack)
        resources = record(settings)
        if output is not None:
            write_directory(output, output_files(resources))
    except (StackInvalid, Unwritable) as error:
        _console(stderr=True).print(str(error))
        raise typer.Exit(1) from None
    if graph:
        out.out(mermaid(resources), end="", highlight=False)
    elif format_ is Format.JSON:
        out.out(json.dumps(as_json(resources), indent=2), highlight=False)
    else:
        for part in text_parts(settings, resources):
            out.print(part)
        if output is not None:
            out.print(f"\nwritten to {output}")
            if needed := ", ".join(map(str, needed_secrets(resources))):
                out.print(f"first make the Secrets that pods wait for ({output}/APPLY.md): {needed}")


def _console(*, stderr: bool = False) -> Console:
    """Wide enough for whole names: a terminal wraps a long line, and a file has no edge to cut it at."""
    width = max(Console(stderr=stderr).width, _WIDTH)
    return Console(stderr=stderr, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)


def output_files(resources: Sequence[Resource]) -> dict[str, str]:
    """The files of `--output`, path to text."""
    files = {f"kubernetes/{name}": text for name, text in manifests(resources).items()}
    files["APPLY.md"] = steps(resources)
    files["resources.json"] = json.dumps(as_json(resources), indent=2) + "\n"
    files["graph.mmd"] = mermaid(resources)
    files["controller-config.json"] = controller_document(resources)
    return files


def controller_document(resources: Sequence[Resource]) -> str:
    """The controller's config as it stands in its ConfigMap."""
    documents = [r.inputs["data"]["config.json"] for r in resources if "config.json" in _data(r)]
    return documents[0]


def _data(resource: Resource) -> Any:
    return resource.inputs.get("data", {}) if resource.inputs.get("kind") == "ConfigMap" else {}


def text_parts(settings: StackSettings, resources: Sequence[Resource]) -> list[RenderableType]:
    counts = counts_by_type(resources)
    return [
        component_tree(resources, f"stack {settings.stack} ({settings.customer}, {settings.place})"),
        "",
        f"{sum(counts.values())} resources",
        _counts_table(counts),
        "",
        "Fields that Pulumi declares once and then leaves to their owner",
        _ownership_table(ownership_rows(resources)),
        "",
        "What a destroy refuses or leaves (docs/life.md)",
        _lasting_table(lasting_rows(resources)),
        "",
        "US dollars per month",
        *cost_parts(group_costs(settings)),
    ]


def _counts_table(counts: dict[str, int]) -> Table:
    table = _table("type", ">number")
    for type_, count in counts.items():
        table.add_row(type_, str(count))
    return table


def _ownership_table(rows: Sequence[OwnershipRow]) -> Table:
    table = _table("object", "field", "owner", ">declared")
    for row in rows:
        table.add_row(row.object, row.field, row.owner, row.initial)
    return table


def _lasting_table(rows: Sequence[LastingRow]) -> Table:
    table = _table("resource", "what")
    for row in rows:
        table.add_row(row.resource, row.what)
    return table


def cost_parts(lines: Sequence[GroupCost]) -> list[RenderableType]:
    """The monthly table and its notes."""
    if not lines:
        return ["not estimated: what the nodes of an existing cluster cost is not known here"]
    table = _table("line", ">at min", ">at max", ">at usage")
    table.add_column("reckoned as", overflow="fold")
    for line in lines:
        reckoned = f"about {line.assumption}" if line.approximate else line.assumption
        amounts = [_usd(amount) for amount in (line.usd_at_min, line.usd_at_max, line.usd_at_usage)]
        table.add_row(line.name, *amounts, reckoned)
    columns = zip(*[(line.usd_at_min, line.usd_at_max, line.usd_at_usage) for line in lines], strict=True)
    table.add_row("together", *[_total(column) for column in columns], "")
    notes = _notes(lines)
    dates = sorted({line.price_date.isoformat() for line in lines})
    usage = "" if any(line.node_hours for line in lines) else "; usage: not stated (costs.expectedNodeHours)"
    return [table, *notes, f"list prices of {', '.join(dates)} ({place_in_use()}){usage}"]


def _notes(lines: Sequence[GroupCost]) -> list[str]:
    """Each note once, with all its lines: a region without prices leaves every line open for the same reason."""
    said: dict[str, list[str]] = {}
    for line in lines:
        if line.note:
            said.setdefault(line.note, []).append(line.name)
    return [f"{', '.join(names)}: {note}" for note, names in said.items()]


def _usd(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:,.0f}"


def _total(amounts: Sequence[float | None]) -> str:
    """A sum with an unknown part is unknown."""
    known = [amount for amount in amounts if amount is not None]
    return _usd(sum(known)) if len(known) == len(amounts) else "-"


def _table(*columns: str) -> Table:
    """Headers that begin with `>` are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left", no_wrap=True)
    return table
