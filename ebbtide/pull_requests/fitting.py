"""A text that is too long for a comment or a job summary, cut between two lines, and still sound Markdown.

What stays open at the cut (a block of code, a folded part) is closed, or the line that says where the rest is would be
hidden inside it.
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
    """Characters as JavaScript counts them: never fewer than by any other count, so it is the safe one."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def fitted(text: str, limit: int, rest: str, size: Callable[[str], int] = utf16) -> str:
    """The text, or as many of its first lines as fit with the line `rest` after them."""
    if size(text) <= limit:
        return text
    lines = [f"{line}\n" for line in text.split("\n")]
    kept, ending = 0, f"{rest}\n"
    used, fence, folds = 0, "", 0
    for number, line in enumerate(lines, start=1):
        used += size(line)
        if used > limit:
            break
        fence, folds = _open_after(line, fence, folds)
        closing = (f"{fence}\n" if fence else "") + "</details>\n" * folds + f"\n{rest}\n"
        if used + size(closing) <= limit:
            kept, ending = number, closing
    return "".join(lines[:kept]) + ending


def append_summary(path: Path, text: str) -> None:
    """Add the text to the summary of a job's step, a file that GitHub names in GITHUB_STEP_SUMMARY. Raises: OSError."""
    so_far = path.stat().st_size if path.exists() else 0
    with path.open("a", encoding="utf-8") as file:
        file.write(fitted(f"{text.rstrip()}\n", max(SUMMARY - so_far, 0), _REST, utf8))


def _open_after(line: str, fence: str, folds: int) -> tuple[str, int]:
    """The block of code and the number of folded parts that are open after this line."""
    found = _FENCE.match(line)
    if fence:
        closes = found is not None and found[1].startswith(fence) and not line[found.end() :].strip()
        return ("" if closes else fence), folds
    if found is not None:
        return found[1], folds
    for tag in _FOLD.findall(line):
        folds = max(folds - 1, 0) if tag.startswith("</") else folds + 1
    return "", folds
