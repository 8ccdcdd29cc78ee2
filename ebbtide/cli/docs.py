"""`ebbtide docs`: print a page of the documentation, or one section of it."""

from typing import Annotated

import typer

from ebbtide.cli.console import fail
from ebbtide.text.pages import NoPage, section, titles

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_PAGE_HELP = "A page, or a section of one: not-here#queues. Without it, list the pages."


@command.command(epilog="Example: ebbtide docs not-here#queues")
def docs(
    page: Annotated[str, typer.Argument(metavar="PAGE[#SECTION]", show_default=False, help=_PAGE_HELP)] = "",
) -> None:
    """Print a page of the documentation, or one section of it."""
    if not page:
        names = titles()
        width = max(map(len, names))
        typer.echo("\n".join(f"{name:<{width}}  {title}" for name, title in names.items()))
        return
    try:
        typer.echo(section(page))
    except NoPage as missing:
        fail(missing, code=2)
