"""`ebbtide comment`: one comment of a pull request that is edited in place, and the summary of the job.

The token comes from GITHUB_TOKEN and from nowhere else: an option would stand in the process list and in the log. The
summary is written first, so that a refused comment does not hide what it would have said.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn
from urllib.parse import urlsplit

import typer
from rich.console import Console

from ebbtide.pull_requests.comments import PullRequest, Written, marker_line, put_comment
from ebbtide.pull_requests.fitting import COMMENT, fitted
from ebbtide.pull_requests.github import API, Clock, GithubApi, GithubError
from ebbtide.pull_requests.step_summary import append_summary

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}$)[A-Za-z0-9._-]+")
_KEY = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")  # without "--", which would end the hidden comment
_VISIBLE = re.compile(r"[!-~]+")
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_LARGEST = 16 * 1024 * 1024


class SystemClock:
    """The real one."""

    def now(self) -> float:
        return time.time()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    repo: str
    pr: int
    file: Path
    marker: str
    api: str
    edit_only: bool


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
    given = Given(repo=repo, pr=pr, file=file, marker=marker, api=api, edit_only=edit_only)
    for line in run(given, os.environ, SystemClock()):
        _console().print(line)


def run(given: Given, environment: Mapping[str, str], clock: Clock) -> Iterator[str]:
    """Do it, and say what was done line by line. Raises: `typer.Exit`, after one line on stderr for each fault."""
    token = environment.get("GITHUB_TOKEN", "").strip()
    text, unreadable = _text(given.file)
    if faults := [*_faults(given, token), *unreadable]:
        _fail(faults, 2)
    if summary := environment.get("GITHUB_STEP_SUMMARY", ""):
        try:
            append_summary(Path(summary), text)
        except OSError as error:
            # The comment is what is read; a summary that cannot be written must not cost it.
            yield f"GITHUB_STEP_SUMMARY: not written: {error.strerror or error}"
    room = COMMENT - len(marker_line(given.marker)) - 1
    api = GithubApi(token, clock, url=given.api, tell=_console(stderr=True).print)
    try:
        body = fitted(text, room, _rest(given.file, environment))
        where = PullRequest(given.repo, given.pr)
        written = put_comment(api, where, given.marker, body, create=not given.edit_only)
    except GithubError as error:
        _fail([f"{given.repo}#{given.pr}: {error}"], 1)
    yield from _said(given, written)


def _said(given: Given, written: Written) -> Iterator[str]:
    yield f"{given.repo}#{given.pr}: comment {written.done} {written.url}".rstrip()
    if written.others:
        numbers = ", ".join(str(number) for number in written.others)
        count = len(written.others) + 1
        yield f"{count} comments carry the marker {given.marker}: the first counts, {numbers} left alone"
    if written.foreign:
        yield f"{written.foreign} with the marker {given.marker} written by others: left alone"


def _rest(file: Path, environment: Mapping[str, str]) -> str:
    """Where the whole text is, for a comment that is cut."""
    server, repo, number = (environment.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    if environment.get("GITHUB_STEP_SUMMARY") and server and repo and number:
        place = f"[the job's summary]({server}/{repo}/actions/runs/{number})"
    else:
        place = f"`{file.name}`, which the job wrote"
    return f"**The rest is left out here**: a comment holds {COMMENT:,} characters. All of it is in {place}."


def _text(file: Path) -> tuple[str, list[str]]:
    """The file's text, or what is wrong with it."""
    try:
        size = file.stat().st_size
        if size > _LARGEST:
            return "", [f"--file {file}: {size:,} bytes, wanted at most {_LARGEST:,}"]
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return "", [f"--file {file}: other bytes, wanted UTF-8 text"]
    except OSError as error:
        return "", [
            f"--file {file}: {error.strerror or error}, wanted a Markdown file (ebbtide preview … > preview.md)"
        ]
    return text, [] if text.strip() else [f"--file {file}: empty, wanted what the comment is to say"]


def _faults(given: Given, token: str) -> Iterator[str]:
    if not _REPO.fullmatch(given.repo):
        yield f"--repo {given.repo!r}: wanted OWNER/NAME (for example acme/platform)"
    if given.pr < 1:
        yield f"--pr {given.pr}: wanted a pull request's number (for example 7)"
    if not _KEY.fullmatch(given.marker) or len(given.marker) > 64:
        yield f"--marker {given.marker!r}: wanted letters, digits, single '.', '_', '-', at most 64 (preview)"
    if not _is_safe(given.api):
        yield f"--api {given.api!r}: wanted an https address, for the token travels with each request (default {API})"
    # Never show what was found: it may be half of a token.
    if not token:
        yield "GITHUB_TOKEN: not set, wanted a token that may write pull requests (in a workflow: ${{ github.token }})"
    elif not _VISIBLE.fullmatch(token):
        yield "GITHUB_TOKEN: holds a space, a line break or a character that no token has"


def _is_safe(url: str) -> bool:
    """Whether a token may travel there: encrypted, or not beyond this machine."""
    if not _VISIBLE.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:  # a port, an address or a name that cannot be
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment) and port != 0
    return plain and bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK))


def _fail(lines: list[str], code: int) -> NoReturn:
    for line in lines:
        _console(stderr=True).print(line)
    raise typer.Exit(code)


def _console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)
