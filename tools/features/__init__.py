"""Scratch features: for each kind of change that the product often gets, a patch with one complete example of it.

The number of files in a patch is the price of such a change. A test applies every patch to the tree, runs the patches'
own tests, and compares the numbers with `README.md`, so that a price cannot rise unseen.

    python -m tools.features              prints the number of files of each patch
    python -m tools.features refresh      writes patches again whose surroundings have moved
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "out", "site", "__pycache__", ".*_cache", "*.egg-info")
_FILE = re.compile(r"^\+\+\+ b/(\S+)$", re.MULTILINE)
_TEST = re.compile(r"^Test: (\S+)$", re.MULTILINE)
_ROW = re.compile(r"^\| `(\S+)` \|.*\| (\d+) \|$", re.MULTILINE)


class CannotApply(Exception):
    """A patch does not fit the tree. The message has the patch's name and what git or patch printed."""


class Feature(NamedTuple):
    """One patch. `files` are all that it touches, relative to the root; `tests` are pytest's names of its tests."""

    name: str
    patch: Path
    files: tuple[str, ...]
    tests: tuple[str, ...]


def features() -> tuple[Feature, ...]:
    """Return the patches by name. The lines before a patch's first file name its tests."""
    texts = {patch: patch.read_text(encoding="utf-8") for patch in sorted(FOLDER.glob("*.patch"))}
    return tuple(
        Feature(patch.stem, patch, tuple(_FILE.findall(text)), tuple(_TEST.findall(text)))
        for patch, text in texts.items()
    )


def stated() -> dict[str, int]:
    """Return the numbers of files that the README's table states, by feature: its last column."""
    return {name: int(count) for name, count in _ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8"))}


def copy_to(folder: Path) -> None:
    shutil.copytree(ROOT, folder, symlinks=True, ignore=_LEFT_OUT, dirs_exist_ok=True)


def apply(feature: Feature, folder: Path) -> None:
    """Apply a patch exactly. Raises `CannotApply`."""
    _run(feature, folder, "git", "apply", str(feature.patch))


def refresh(feature: Feature, folder: Path) -> None:
    """Write a patch again as it fits a copy of the tree, where each hunk may have moved. Raises `CannotApply`."""
    _run(feature, folder, "git", "init", "--quiet")
    _run(feature, folder, "git", "add", "--all")
    _run(feature, folder, "patch", "--strip=1", "--no-backup-if-mismatch", f"--input={feature.patch}")
    _run(feature, folder, "git", "add", "--all", "--intent-to-add")
    head = feature.patch.read_text(encoding="utf-8").partition("diff --git")[0]
    feature.patch.write_text(head + _run(feature, folder, "git", "diff", "--no-ext-diff"), encoding="utf-8")


def _run(feature: Feature, folder: Path, *command: str) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise CannotApply(f"{feature.name}: {' '.join(command[:2])}: {(ran.stdout + ran.stderr).strip()}")
    return ran.stdout
