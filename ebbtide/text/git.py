"""Git, for reading a clone.

It fetches nothing and asks for no password. Its environment variables (such as a hook's `GIT_DIR`) are not passed on,
since they could point to another repository.
"""

import os
import subprocess
from pathlib import Path

from ebbtide.text.one_line import collapsed

_SECONDS = 60
_OFFLINE = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


class NoSuchRef(Exception):
    """Nothing to compare with: no repository, no such commit, or no common ancestor. The text is one line."""


def run_git(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run git in the repository of `root`. Raises `NoSuchRef` without git or a repository."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=root,
            env={**environment, **_OFFLINE},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise NoSuchRef(collapsed(f"git cannot be asked: {error}")) from None
    if done.returncode == 128 and _no_repository(done.stderr):
        raise NoSuchRef(collapsed(f"there is no git repository to compare with: {first_line(done.stderr)}"))
    return done


def in_repository(root: Path) -> bool:
    """Return True if a folder is inside a clone. Starts no git."""
    folder = root.resolve()
    return any((place / ".git").exists() for place in (folder, *folder.parents))


def is_shallow(root: Path) -> bool:
    """Return True for a clone that lacks the oldest commits."""
    return run_git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true"


def _no_repository(stderr: str) -> bool:
    return "not a git repository" in stderr or "dubious ownership" in stderr


def first_line(stderr: str) -> str:
    """Return the first line of git's error."""
    return next(iter(stderr.strip().splitlines()), "git says nothing more").removeprefix("fatal: ")
