"""The summary of a job's step: a file that GitHub names in GITHUB_STEP_SUMMARY and shows beside the job's log."""

from pathlib import Path

from ebbtide.pull_requests.fitting import SUMMARY, fitted, utf8

_REST = "**The rest is left out here**: a summary holds 1 MiB. All of it is in the file that the job wrote."


def append_summary(path: Path, text: str) -> None:
    """Add the text to what the step has written so far, within the limit. Raises: OSError."""
    so_far = path.stat().st_size if path.exists() else 0
    with path.open("a", encoding="utf-8") as file:
        file.write(fitted(f"{text.rstrip()}\n", max(SUMMARY - so_far, 0), _REST, utf8))
