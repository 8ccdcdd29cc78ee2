"""The stack file that advice is about: read, and changed by a patch for a pull request or in place.

`ebbtide advise apply` makes the changes that the JSON of an advice lists, all or none: only if each value is still the
one that the advice was made for.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebbtide.cli.console import fail, finish, write
from ebbtide.cli.options import Stack
from ebbtide.lab.simulator.setup import ReplayError, with_known_nodes
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import MOST_BYTES, name_of, stack_of_text, stack_path
from ebbtide.settings.patch import Change, PatchInvalid, changes_json, changes_of, difference, patched
from ebbtide.text.files import read_file

if TYPE_CHECKING:
    from rich.console import RenderableType

PatchFile = Annotated[
    Path | None,
    typer.Option(
        "--patch",
        metavar="FILE",
        dir_okay=False,
        help="Write the changes as a patch for git apply; - prints the patch instead of the advice.",
    ),
]
NOTHING = "Nothing to do."


def finish_advice(
    stack: str,
    changes: Sequence[Change],
    *,
    json_file: Path | None,
    patch: Path | None,
    document: Any,
    shown: "RenderableType",
) -> None:
    """Write the figures with the key `changes`, and the patch (empty without changes), then show the advice."""
    text = "" if patch is None else _patch(stack, changes)
    if patch is not None and str(patch) != "-":
        write(patch, text)
    elif patch is not None:
        shown = text.rstrip("\n") or NOTHING
    finish(json_file, {**document, "changes": changes_json(changes)}, shown)


def _patch(stack: str, changes: Sequence[Change]) -> str:
    path = stack_path(stack)
    before = path.read_text(encoding="utf-8")
    return difference(before, _changed(path, before, changes), _from_here(path))


def _changed(path: Path, text: str, changes: Sequence[Change]) -> str:
    """Return the changed and valid text, or end the command with one line for each fault."""
    try:
        reader = files_in(path.parent)
        changed = patched(text, str(path), changes, reader)
        stack_of_text(changed, stack=name_of(path), file=str(path), reader=reader)
    except PatchInvalid as invalid:
        fail(*invalid.lines)
    except StackInvalid as invalid:
        fail("with these changes the stack file would not be valid:", *invalid.problems)
    return changed


def _from_here(path: Path) -> str:
    """The path for `git apply` in the current folder."""
    folder, absolute = Path.cwd(), path.absolute()
    return (absolute.relative_to(folder) if absolute.is_relative_to(folder) else path).as_posix().lstrip("/")


def apply(
    stack: Stack,
    advice: Annotated[Path, typer.Argument(metavar="ADVICE", help="File that --json of an advice wrote.")],
) -> None:
    """Apply an advice to the stack file, all changes or none; comments stay."""
    try:
        load_stack(stack)
        document = json.loads(read_file(advice, MOST_BYTES))
        changes = changes_of(document, str(advice))
    except StackInvalid as invalid:
        fail(invalid)
    except PatchInvalid as invalid:
        fail(*invalid.lines)
    except (OSError, ValueError):
        fail(f"{advice}: wanted the JSON file of an advice, found none that can be read (ebbtide advise … --json FILE)")
    path = stack_path(stack)
    before = path.read_text(encoding="utf-8")
    after = _changed(path, before, changes)
    if after == before:
        typer.echo(NOTHING)
        return
    write(path, after)
    typer.echo(difference(before, after, _from_here(path)), nl=False)


def stack_on_eks(stack: str, why: str) -> StackSettings:
    """Load a stack whose nodes Ebbtide creates, or end the command."""
    try:
        settings = load_stack(stack)
    except StackInvalid as error:
        fail(error)
    if settings.cluster.context is not None:
        fail(f"{stack}: wanted a stack on EKS, found an existing cluster: {why}")
    return settings


def stack_with_nodes(stack: str) -> StackSettings:
    """Load a stack whose nodes have a known size, or end the command."""
    try:
        return with_known_nodes(load_stack(stack))
    except (StackInvalid, ReplayError) as error:
        fail(error)
