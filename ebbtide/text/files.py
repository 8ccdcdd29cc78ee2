"""Atomic writes of files and directories, and reads up to a size limit.

Output is written next to its target and then renamed. The limit guards against a wrong path, such as a disk image or an
endless device.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

MOST_OF_A_DOCUMENT = 12 * 2**20
"""Default limit in bytes for JSON and CSV: parsed, they take up to thirty times as much memory."""


class Unwritable(Exception):
    """A target cannot be written; the message says which and why. Existing content is unchanged."""


def read_file(path: Path, most_bytes: int) -> bytes:
    """Read the entire file. Raises OSError, also for a file larger than `most_bytes`; `strerror` gives the reason."""
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        size = f"{most_bytes // 2**20} MiB" if most_bytes >= 2**20 else f"{most_bytes // 2**10} KiB"
        raise OSError(errno.EFBIG, f"more than {size}")
    return data


def write_file(path: Path, text: str) -> None:
    """Write one file and create missing folders. Raises: `Unwritable`."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise Unwritable(f"{path}: cannot be written: {error.strerror or error}") from error


def write_directory(directory: Path, files: Mapping[str, str]) -> None:
    """Write `files` (relative path to text) as the entire content of `directory`.

    They are written next to it and renamed, so that readers never see half of them. An existing directory is replaced
    only if `files` has all its entries; otherwise it is refused, since it may hold a user's work. Raises:
    `Unwritable`.
    """
    target = directory.absolute()
    if refusal := _refusal(target, files):
        raise Unwritable(f"{directory}: {refusal}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as temporary:
            _fill(Path(temporary) / "new", files)
            _swap(target, Path(temporary))
    except OSError as error:
        raise Unwritable(f"{directory}: {error.strerror or error}") from error


def _refusal(target: Path, files: Mapping[str, str]) -> str:
    if not target.exists():
        return ""
    if not target.is_dir():
        return "wanted a directory, found a file"
    ours = {Path(name).parts[0] for name in files}
    strange = sorted(entry.name for entry in target.iterdir() if entry.name not in ours)
    return (
        f"holds other files ({', '.join(strange[:3])}); wanted a new or an earlier output directory" if strange else ""
    )


def _fill(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _swap(target: Path, temporary: Path) -> None:
    """Move the old directory out of the way and the new one in; if the second move fails, undo the first."""
    new, old = temporary / "new", temporary / "old"
    had_old = target.exists()
    if had_old:
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        if had_old:
            old.rename(target)
        raise
    if had_old:
        shutil.rmtree(old)
