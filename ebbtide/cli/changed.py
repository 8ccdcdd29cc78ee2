"""`ebbtide changed`: the stacks that a change concerns, as a JSON array for a workflow's matrix.

stdout has the array and nothing else; the reasons go to stderr, where a job's log shows them.
"""

import json
from typing import Annotated

import typer

from ebbtide.cli.console import fail
from ebbtide.pull_requests.changed_stacks import GitFailed, changed_stacks
from ebbtide.settings.load import project_root

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_AGAINST_HELP = "Branch, tag or commit to compare with, from the merge base on."


@command.command(epilog="Example: ebbtide changed --against origin/main")
def changed(
    *,
    against: Annotated[str | None, typer.Option(metavar="GIT_REF", help=_AGAINST_HELP)] = None,
    all_: Annotated[bool, typer.Option("--all", help="All stacks in stacks/, without a comparison.")] = False,
    gone: Annotated[bool, typer.Option("--gone", help="Print the stacks whose file was deleted instead.")] = False,
) -> None:
    """Print the stacks that differ from a git ref, as JSON."""
    if (against is None) is not all_:
        raise typer.BadParameter(
            "wanted --against GIT_REF or --all (for example: ebbtide changed --against origin/main)"
        )
    try:
        found = changed_stacks(against, project_root())
    except GitFailed as error:
        fail(error)
    if found.cause:
        typer.echo(f"all stacks: {found.cause}", err=True)
    for name in found.gone:
        typer.echo(
            f"stack {name}: its file is gone; its resources stay until `pulumi destroy` (docs/how-to/life.md)", err=True
        )
    for name in found.misnamed:
        typer.echo(f"stacks/Pulumi.{name}.yaml: wanted letters, digits, '-', '_', '.' in the stack's name", err=True)
    typer.echo(json.dumps(found.gone if gone else found.stacks))
    if found.misnamed:
        raise typer.Exit(1)
