"""`ebbtide comment`: a Markdown file as one comment of a pull request that is edited in place."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.console import fail
from ebbtide.pull_requests.github import API
from ebbtide.pull_requests.posting import CannotPost, Post, post
from ebbtide.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)


class SystemClock:
    """The system's."""

    def now(self) -> float:
        return time.time()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


@command.command(epilog="Example: ebbtide comment --repo acme/platform --pr 7 --file preview.md")
def comment(
    *,
    repo: Annotated[str, typer.Option(metavar="OWNER/NAME", help="The repository.")],
    pr: Annotated[int, typer.Option(metavar="N", help="The pull request's number.")],
    file: Annotated[Path, typer.Option(metavar="FILE", help="The Markdown to show.")],
    marker: Annotated[str, typer.Option(metavar="KEY", help="Tells comments of one pull request apart.")] = "preview",
    api: Annotated[str, typer.Option(metavar="URL", help="GitHub's REST API.")] = API,
    edit_only: Annotated[bool, typer.Option("--edit-only", help="Edit a comment that is there; create none.")] = False,
) -> None:
    """Write a file into a comment of a pull request; needs GITHUB_TOKEN."""
    asked = Post(repo=repo, pr=pr, file=file, marker=marker, api=api, edit_only=edit_only)
    try:
        for line in post(asked, os.environ, SystemClock(), console(stderr=True).print):
            console().print(line)
    except CannotPost as error:
        fail(*error.lines, code=error.code)
