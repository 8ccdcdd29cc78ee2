"""One comment of a pull request that is edited in place, and the summary of the job: inputs checked, both written.

The token comes from GITHUB_TOKEN and from nowhere else: an option would stand in the process list and in the log. The
summary is written first, so that a refused comment does not hide what it would have said.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ebbtide.pull_requests.comments import PullRequest, Written, marker_line, put_comment
from ebbtide.pull_requests.fitting import COMMENT, append_summary, fitted
from ebbtide.pull_requests.github import API, Clock, GithubApi, GithubError

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}$)[A-Za-z0-9._-]+")
_KEY = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")  # without "--", which would end the hidden comment
_VISIBLE = re.compile(r"[!-~]+")
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_LARGEST = 16 * 1024 * 1024


class CannotPost(Exception):
    """Nothing, or only the summary, was written. `lines` name each fault; `code` is the command's exit code."""

    def __init__(self, lines: Sequence[str], code: int = 1) -> None:
        super().__init__("; ".join(lines))
        self.lines, self.code = lines, code


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What goes where."""

    repo: str
    pr: int
    file: Path
    marker: str
    api: str
    edit_only: bool


def post(asked: Post, environment: Mapping[str, str], clock: Clock, tell: Callable[[str], None]) -> Iterator[str]:
    """Write the comment, and yield what was done line by line; `tell` hears of waits. Raises `CannotPost`."""
    token = environment.get("GITHUB_TOKEN", "").strip()
    text, unreadable = _text(asked.file)
    if faults := [*_faults(asked, token), *unreadable]:
        raise CannotPost(faults, code=2)
    if summary := environment.get("GITHUB_STEP_SUMMARY", ""):
        try:
            append_summary(Path(summary), text)
        except OSError as error:
            # The comment is what is read; a summary that cannot be written must not cost it.
            yield f"GITHUB_STEP_SUMMARY: not written: {error.strerror or error}"
    room = COMMENT - len(marker_line(asked.marker)) - 1
    api = GithubApi(token, clock, url=asked.api, tell=tell)
    try:
        body = fitted(text, room, _rest_line(asked.file, environment))
        where = PullRequest(asked.repo, asked.pr)
        written = put_comment(api, where, asked.marker, body, create=not asked.edit_only)
    except GithubError as error:
        raise CannotPost([f"{asked.repo}#{asked.pr}: {error}"]) from error
    yield from _outcome_lines(asked, written)


def _outcome_lines(asked: Post, written: Written) -> Iterator[str]:
    yield f"{asked.repo}#{asked.pr}: comment {written.done} {written.url}".rstrip()
    if written.others:
        numbers = ", ".join(str(number) for number in written.others)
        count = len(written.others) + 1
        yield f"{count} comments carry the marker {asked.marker}: the first is used, {numbers} left alone"
    if written.foreign:
        yield f"{written.foreign} with the marker {asked.marker} written by others: left alone"


def _rest_line(file: Path, environment: Mapping[str, str]) -> str:
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


def _faults(asked: Post, token: str) -> Iterator[str]:
    if not _REPO.fullmatch(asked.repo):
        yield f"--repo {asked.repo!r}: wanted OWNER/NAME (for example acme/platform)"
    if asked.pr < 1:
        yield f"--pr {asked.pr}: wanted a pull request's number (for example 7)"
    if not _KEY.fullmatch(asked.marker) or len(asked.marker) > 64:
        yield f"--marker {asked.marker!r}: wanted letters, digits, single '.', '_', '-', at most 64 (preview)"
    if not _is_safe(asked.api):
        yield f"--api {asked.api!r}: wanted an https address, for the token travels with each request (default {API})"
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
