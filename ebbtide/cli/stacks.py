"""Commands that only read stack files: `ebbtide check`, `ebbtide stacks` and `ebbtide dashboards`.

They need no cloud, no cluster and no secrets.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group

from ebbtide.cli.console import fail, finish, write_json
from ebbtide.cli.options import JsonFile, Stack
from ebbtide.settings import StackInvalid, StackSettings, load_stack, stack_names, warnings_of
from ebbtide.settings.checks.customers import shared_names
from ebbtide.settings.load import name_of, read_stack, stack_path
from ebbtide.settings.summary import summary
from ebbtide.text.counts import several
from ebbtide.text.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_WIDTH = 200  # columns: enough for a row where the output is a file

_STACKS_HELP = "Names (demo for stacks/Pulumi.demo.yaml) or paths; default: all in stacks/."


@command.command(epilog="Example: ebbtide check demo")
def check(stacks: Annotated[list[str] | None, typer.Argument(metavar="STACK", help=_STACKS_HELP)] = None) -> None:
    """Check stack files; print all errors at once, or a summary."""
    out = console()
    valid: list[StackSettings] = []
    ok = [_check_one(out, name, valid) for name in stacks or _all_names()]
    for warning in () if stacks else dict.fromkeys(shared_names(valid).values()):
        out.print(f"warning: {warning}", style="yellow")
    if not all(ok):
        raise typer.Exit(1)


def _all_names() -> list[str]:
    names = list(stack_names())
    if not names:
        fail("no stacks: there is no stacks/Pulumi.<name>.yaml here")
    return names


def _check_one(out: Console, stack: str, valid: list[StackSettings]) -> bool:
    """Print the result, and add the settings of a valid stack to the list."""
    try:
        stack_file = read_stack(stack)
        settings = stack_file.settings()
    except StackInvalid as invalid:
        out.print(f"{_title(stack)}: {several(len(invalid.problems), 'problem')}", style="bold red")
        for problem in invalid.problems:
            out.print(f"  {problem}")
        return False
    valid.append(settings)
    warnings = [*stack_file.secret_cautions(), *warnings_of(settings)]
    blocked = any(warning.blocks for warning in warnings)
    out.print(f"{_title(stack)}: {'blocked' if blocked else 'OK'}", style="bold red" if blocked else "bold green")
    for line in summary(settings):
        out.print(f"  {line}")
    for warning in warnings:
        out.print(f"  {warning.severity}: {warning}", style="red" if warning.blocks else "yellow")
    return not blocked


def _title(stack: str) -> str:
    return name_of(stack_path(stack))


@command.command("stacks", epilog="Example: ebbtide stacks --json -")
def stacks_command(json_file: JsonFile = None) -> None:
    """Show all customers in one table: images, versions, business hours, cost of nodes, warnings."""
    from ebbtide.preview.customers import as_document, customer_parts, customer_rows  # not needed by check

    rows = customer_rows(_all_names(), datetime.now(UTC))
    out = console(min_width=_WIDTH)
    finish(json_file, as_document(rows), Group(*customer_parts(rows)), out)
    if not all(row.passes for row in rows):
        raise typer.Exit(1)


@command.command("dashboards", epilog="Example: ebbtide dashboards demo -o dashboards")
def write_dashboards(
    stack: Stack,
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", file_okay=False, help="Output directory.")],
) -> None:
    """Write a stack's Grafana dashboards as files."""
    from ebbtide.monitoring.dashboards import dashboards, document_of  # not needed by check

    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)
    for dashboard in dashboards(settings.customer):
        path = folder / f"ebbtide-{settings.customer}-{dashboard.name}.json"
        write_json(path, document_of(dashboard, settings.customer, settings.business_hours.timezone))
        typer.echo(f"written: {path}")
