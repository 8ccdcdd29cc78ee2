"""`ebbtide init`: a team's own repository, in an empty folder."""

from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.console import fail
from ebbtide.project.files import NoWheel, refuse_full, repository_files, wheel_of_this_version, write_repository
from ebbtide.text.files import Unwritable

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_WHEEL_HELP = "Wheel of this version of Ebbtide, to lock and copy; default: the file that pip installed from."


@command.command(epilog="Example: ebbtide init platform")
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is empty, or new.")] = Path(),
    *,
    wheel: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help=_WHEEL_HELP)] = None,
) -> None:
    """Write a repository for your own stacks, Pulumi program and workflows."""
    try:
        refuse_full(folder)
        files = repository_files(wheel_of_this_version(wheel))
        write_repository(folder, files)
    except NoWheel as error:
        fail(error, code=2)
    except (Unwritable, OSError) as error:  # the latter for a wheel that cannot be read
        fail(error)
    for name in sorted(files):
        typer.echo(f"written: {folder / name}")
    typer.echo("next: make setup; .venv/bin/ebbtide check; .venv/bin/ebbtide render example")
