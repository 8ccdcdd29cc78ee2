"""`ebbtide changed`: the stacks that a change concerns, as a JSON array for a workflow's matrix.

The array alone is on stdout; why it is what it is goes to stderr, where a job's log shows it.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.pull_requests.changed_stacks import GitFailed, changed_stacks

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_AGAINST_HELP = "The branch, tag or commit to compare with, as of where this one left it."


@command.command(epilog="Example: ebbtide changed --against origin/main")
def changed(
    *,
    against: Annotated[str | None, typer.Option(metavar="REF", help=_AGAINST_HELP)] = None,
    all_: Annotated[bool, typer.Option("--all", help="All stacks in stacks/, compared with nothing.")] = False,
    gone: Annotated[bool, typer.Option("--gone", help="Print those whose file was taken away instead.")] = False,
) -> None:
    """Print the stacks that differ from a git ref, as JSON."""
    if (against is None) is not all_:
        raise typer.BadParameter("wanted --against REF or --all (for example: ebbtide changed --against origin/main)")
    try:
        found = changed_stacks(against, Path())
    except GitFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if found.because:
        typer.echo(f"all stacks: {found.because}", err=True)
    for name in found.gone:
        typer.echo(
            f"stack {name}: its file is gone; what it made stays until `pulumi destroy` (docs/life.md)", err=True
        )
    for name in found.misnamed:
        typer.echo(f"stacks/Pulumi.{name}.yaml: wanted letters, digits, '-', '_', '.' in the stack's name", err=True)
    typer.echo(json.dumps(found.gone if gone else found.stacks))
    if found.misnamed:
        raise typer.Exit(1)
