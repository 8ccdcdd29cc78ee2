"""Cut a text that is too long for a comment or a job summary between two lines, so that it stays valid Markdown.

A block of code or a folded part that is open at the cut is closed, so that it does not hide the line about the
omission.
"""

import re
from collections.abc import Callable
from pathlib import Path

COMMENT = 65_536
"""Characters of a comment; GitHub refuses more with 422, "Body is too long"."""
SUMMARY = 1_048_576
"""Bytes of a job summary, for each step (GitHub's page "Workflow commands", "Step isolation and limits")."""

_REST = "**The rest is left out here**: a summary holds 1 MiB. All of it is in the file that the job wrote."
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FOLD = re.compile(r"</?details\b", re.IGNORECASE)


def utf16(text: str) -> int:
    """Characters as JavaScript counts them, the safe choice: no other count is higher."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def fitted(text: str, limit: int, last_line: str, size: Callable[[str], int] = utf16) -> str:
    """Return the text, or as many of its first lines as fit together with `last_line`."""
    if size(text) <= limit:
        return text
    lines = [f"{line}\n" for line in text.split("\n")]
    lines_kept, ending = 0, f"{last_line}\n"
    used, fence, folds = 0, "", 0
    for number, line in enumerate(lines, start=1):
        used += size(line)
        if used > limit:
            break
        fence, folds = _open_after(line, fence, folds)
        closing = (f"{fence}\n" if fence else "") + "</details>\n" * folds + f"\n{last_line}\n"
        if used + size(closing) <= limit:
            lines_kept, ending = number, closing
    return "".join(lines[:lines_kept]) + ending


def append_summary(path: Path, text: str) -> None:
    """Add the text to the summary of a job's step, a file that GitHub names in GITHUB_STEP_SUMMARY. Raises: OSError.

    GitHub shows none of a summary that is too long, so a full one gets no line at all.
    """
    room = SUMMARY - (path.stat().st_size if path.exists() else 0)
    added = fitted(f"{text.rstrip()}\n", max(room, 0), _REST, utf8)
    if utf8(added) <= room:
        with path.open("a", encoding="utf-8") as file:
            file.write(added)


def _open_after(line: str, fence: str, folds: int) -> tuple[str, int]:
    """The open block of code and the number of open folded parts after this line."""
    fence_match = _FENCE.match(line)
    if fence:
        closes = fence_match is not None and fence_match[1].startswith(fence) and not line[fence_match.end() :].strip()
        return ("" if closes else fence), folds
    if fence_match is not None:
        return fence_match[1], folds
    for tag in _FOLD.findall(line):
        folds = max(folds - 1, 0) if tag.startswith("</") else folds + 1
    return "", folds
