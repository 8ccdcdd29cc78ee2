"""`ebbtide docs`: print a page of the documentation, or one section of it."""

from typing import Annotated, ClassVar

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table

from ebbtide.cli.console import fail
from ebbtide.text.pages import NoPage, section, titles
from ebbtide.text.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_PAGE_HELP = "A page, or a section of one: not-here#queues. Without it, list the pages."


class _UncutTable(TableElement):
    """Folds long words, which Rich would cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, Table) else ():
                column.overflow = "fold"
            yield part


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": _UncutTable}


@command.command(epilog="Example: ebbtide docs not-here#queues")
def docs(
    page: Annotated[str, typer.Argument(metavar="PAGE[#SECTION]", show_default=False, help=_PAGE_HELP)] = "",
) -> None:
    """Print a page of the documentation, or one section of it.

    A terminal shows headings, tables and links; a file or another program receives the Markdown.
    """
    if not page:
        names = titles()
        width = max(map(len, names))
        typer.echo("\n".join(f"{name:<{width}}  {title}" for name, title in names.items()))
        return
    try:
        text = section(page)
    except NoPage as missing:
        fail(missing, code=2)
    out = console(fold=True)
    if out.is_terminal:
        out.print(_Page(text, hyperlinks=False))  # shows the targets of links, which `ebbtide docs` reads, too
    else:
        typer.echo(text)
