"""Commands that only read stack files: `ebbtide check` and `ebbtide dashboards`.

They need no cloud, no cluster and no secrets.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ebbtide.cli.console import fail, write_json
from ebbtide.cli.options import Stack
from ebbtide.settings import StackInvalid, load_stack, stack_names, warnings_of
from ebbtide.settings.summary import summary
from ebbtide.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_STACKS_HELP = "Names (demo for stacks/Pulumi.demo.yaml) or paths; default: all in stacks/."


@command.command(epilog="Example: ebbtide check demo")
def check(stacks: Annotated[list[str] | None, typer.Argument(metavar="STACK", help=_STACKS_HELP)] = None) -> None:
    """Check stack files; print all errors at once, or a summary."""
    out = console()
    names = stacks or list(stack_names())
    if not names:
        out.print("no stacks: there is no stacks/Pulumi.<name>.yaml here")
        raise typer.Exit(1)
    ok = [_check_one(out, name) for name in names]
    if not all(ok):
        raise typer.Exit(1)


def _check_one(out: Console, stack: str) -> bool:
    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        count = len(invalid.problems)
        out.print(f"{_title(stack)}: {count} problem{'s' if count > 1 else ''}", style="bold red")
        for problem in invalid.problems:
            out.print(f"  {problem}")
        return False
    warnings = warnings_of(settings)
    blocked = any(warning.blocks for warning in warnings)
    out.print(f"{_title(stack)}: {'blocked' if blocked else 'OK'}", style="bold red" if blocked else "bold green")
    for line in summary(settings):
        out.print(f"  {line}")
    for warning in warnings:
        kind, style = ("blocking", "red") if warning.blocks else ("warning", "yellow")
        out.print(f"  {kind}: {warning}", style=style)
    return not blocked


def _title(stack: str) -> str:
    return Path(stack).name


@command.command("dashboards", epilog="Example: ebbtide dashboards demo -o dashboards")
def write_dashboards(
    stack: Stack,
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", file_okay=False, help="Output directory.")],
) -> None:
    """Write Grafana's dashboards of a stack as files."""
    from ebbtide.monitoring.dashboards import dashboards, document_of  # not needed by check

    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)
    for dashboard in dashboards(settings.customer):
        path = folder / f"ebbtide-{settings.customer}-{dashboard.name}.json"
        write_json(path, document_of(dashboard, settings.customer, settings.business_hours.timezone))
        typer.echo(f"written: {path}")
