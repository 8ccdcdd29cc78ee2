"""`ebbtide explain`: show the values of a stack with its bases, and the file and line of each."""

from typing import Annotated

import typer

from ebbtide.cli.console import fail
from ebbtide.cli.options import Stack
from ebbtide.settings import StackInvalid
from ebbtide.settings.explain import explained
from ebbtide.settings.load import read_stack

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command(epilog="Example: ebbtide explain acme workers.train.max")
def explain(
    stack: Stack,
    path: Annotated[
        str, typer.Argument(metavar="PATH", show_default=False, help="Only this key, such as workers.train.max.")
    ] = "",
) -> None:
    """Show the values of a stack, and the file and line of each.

    Values of bases and of Pulumi.yaml are included, and with PATH the defaults of the keys that the stack leaves out.
    Encrypted values and values of other namespaces are hidden.
    """
    try:
        stack_file = read_stack(stack)
        if stack_file.merged.problems:
            raise StackInvalid(stack_file.merged.problems)
        lines = list(explained(stack_file, path))
    except StackInvalid as invalid:
        fail(invalid)
    typer.echo("\n".join(lines))
