"""How a command ends: files that are whole, text as it is, one line for what is wrong."""

import json
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console, RenderableType

from ebbtide.files import Unwritable, write_file


def fail(message: str) -> NoReturn:
    """The answer is "no"."""
    typer.echo(message, err=True)
    raise typer.Exit(1)


def write(path: Path, text: str) -> None:
    try:
        write_file(path, text)
    except Unwritable as error:
        fail(str(error))


def finish(json_file: Path | None, document: Any, shown: RenderableType) -> None:
    """The file first: whoever sees the figures has them."""
    if json_file is not None:
        write(json_file, json.dumps(document, indent=2) + "\n")
    Console(highlight=False, markup=False, emoji=False).print(shown)
