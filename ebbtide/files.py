"""Files and directories that appear whole or not at all: written beside their place, then renamed into it.

And files of others, read up to a stated size: a wrong name may be that of a disk image, or of a device without an end.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

MOST_OF_A_DOCUMENT = 12 * 2**20
"""Bytes of JSON or CSV, where nothing smaller is stated: read as values they take up to thirty times as much room."""


class Unwritable(Exception):
    """A place cannot be written; the message says which and why. What was there before is untouched."""


def read_file(path: Path, most_bytes: int) -> bytes:
    """All of it. Raises OSError, for a file that is larger too; `strerror` then says so."""
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        size = f"{most_bytes // 2**20} MiB" if most_bytes >= 2**20 else f"{most_bytes // 2**10} KiB"
        raise OSError(errno.EFBIG, f"more than {size}")
    return data


def write_file(path: Path, text: str) -> None:
    """Write one file; missing folders are made. Raises: `Unwritable`."""
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
    """Write `files` (relative path to text) as the whole content of `directory`.

    They are written beside it and renamed into place, so that nobody ever reads half of them. An older directory is
    replaced if all it holds is named like ours; anything else is somebody's work and is refused.
    Raises: `Unwritable`.
    """
    target = directory.absolute()
    if refusal := _stands_in_the_way(target, files):
        raise Unwritable(f"{directory}: {refusal}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as beside:
            _fill(Path(beside) / "new", files)
            _swap(target, Path(beside))
    except OSError as error:
        raise Unwritable(f"{directory}: {error.strerror or error}") from error


def _stands_in_the_way(target: Path, files: Mapping[str, str]) -> str:
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


def _swap(target: Path, beside: Path) -> None:
    """Move the old directory out of the way and the new one in; if the second move fails, undo the first."""
    new, old = beside / "new", beside / "old"
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
