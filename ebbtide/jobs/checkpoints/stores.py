"""Stores of checkpoints: a folder (a volume that several pods mount, or a disk), or a bucket.

Names are relative paths with `/`. A folder survives a power cut once `write` returns.
"""

import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from ebbtide.jobs.checkpoints.errors import StoreError


class Store(Protocol):
    """A place for files. Every method raises `StoreError` with one line if the store cannot be used."""

    @property
    def address(self) -> str: ...

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Create a file, complete or not at all; return False, without replacing it, if it exists."""
        ...

    def write(self, name: str, content: bytes | Path) -> None:
        """Write a file durably. A failure may leave a part, which nothing reads by its name."""
        ...

    def size(self, name: str) -> int | None:
        """Return the size in bytes; None if the file does not exist."""
        ...

    def read(self, name: str) -> bytes: ...

    def fetch(self, name: str, into: Path) -> None: ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; missing ones are ignored."""
        ...


def open_store(address: str) -> Store:
    """Open a folder, or `s3://bucket/prefix`, `gs://…`, `az://…`, which need `ebbtide-jobs[checkpoint]`."""
    if "://" not in address:
        return FolderStore(Path(address))
    try:
        from ebbtide.jobs.checkpoints.bucket import BucketStore
    except ModuleNotFoundError as missing:
        if missing.name != "obstore":
            raise
        raise StoreError(address, "a bucket needs obstore: install ebbtide-jobs[checkpoint]") from None
    return BucketStore(address)


class FolderStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = str(folder)

    def names(self, folder: str) -> list[str]:
        with self._store_errors("list"):
            try:
                entries = [entry.name for entry in (self._folder / folder).iterdir() if entry.suffix != ".part"]
            except FileNotFoundError:
                return []
        return sorted(f"{folder}/{name}" for name in entries)

    def create(self, name: str, content: bytes) -> bool:
        with self._store_errors("write"), self._part(name) as part:
            _write(part, content)
            try:
                # A link fails if the name is taken; a rename would replace it.
                os.link(part, self._folder / name)
            except FileExistsError:
                return False
            _sync(self._folder / name)
        return True

    def write(self, name: str, content: bytes | Path) -> None:
        with self._store_errors("write"), self._part(name) as part:
            _write(part, content)
            part.replace(self._folder / name)
            _sync(self._folder / name)

    def size(self, name: str) -> int | None:
        with self._store_errors("look"):
            try:
                return (self._folder / name).stat().st_size
            except FileNotFoundError:
                return None

    def read(self, name: str) -> bytes:
        with self._store_errors("read"):
            return (self._folder / name).read_bytes()

    def fetch(self, name: str, into: Path) -> None:
        with self._store_errors("read"):
            shutil.copyfile(self._folder / name, into)

    def delete(self, names: Sequence[str]) -> None:
        with self._store_errors("delete"):
            for name in names:
                (self._folder / name).unlink(missing_ok=True)
            for folder in {(self._folder / name).parent for name in names} - {self._folder}:
                with suppress(OSError):  # not empty
                    folder.rmdir()

    @contextmanager
    def _part(self, name: str) -> Generator[Path]:
        """Yield a temporary file next to its target, so that it is on the same file system."""
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.parent / f".{uuid4().hex}.part"
        try:
            yield part
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def _store_errors(self, action: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(self.address, f"cannot {action}: {error.strerror or error}") from error


def _write(part: Path, content: bytes | Path) -> None:
    with part.open("wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            with content.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    """Flush the folders, which store the name."""
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
