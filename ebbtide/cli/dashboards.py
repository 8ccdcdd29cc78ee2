"""`ebbtide dashboards`: Grafana's dashboards of a stack as files, to import or to mount."""

from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.console import fail, write_json
from ebbtide.cli.options import Stack
from ebbtide.monitoring.dashboards import dashboards, document_of
from ebbtide.settings import StackInvalid, load_stack

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command("dashboards", epilog="Example: ebbtide dashboards demo -o dashboards")
def write_dashboards(
    stack: Stack,
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", file_okay=False, help="Output directory.")],
) -> None:
    """Write Grafana's dashboards of a stack as files."""
    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)
    for each in dashboards(settings.customer):
        path = folder / f"ebbtide-{settings.customer}-{each.name}.json"
        write_json(path, document_of(each, settings.customer, settings.business_hours.timezone))
        typer.echo(f"written: {path}")
