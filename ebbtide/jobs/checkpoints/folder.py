"""Checkpoints in a folder: a volume that several pods mount, or a disk. Survives a power cut once `write` returns."""

import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from ebbtide.jobs.checkpoints.errors import StoreError


class FolderStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = str(folder)

    def names(self, folder: str) -> list[str]:
        with self._telling("list"):
            try:
                found = [entry.name for entry in (self._folder / folder).iterdir() if entry.suffix != ".part"]
            except FileNotFoundError:
                return []
        return sorted(f"{folder}/{name}" for name in found)

    def create(self, name: str, content: bytes) -> bool:
        with self._telling("write"), self._part(name) as part:
            _write(part, content)
            try:
                # A link fails where the name is taken; a rename would replace it.
                os.link(part, self._folder / name)
            except FileExistsError:
                return False
            _sync(self._folder / name)
        return True

    def write(self, name: str, content: bytes | Path) -> None:
        with self._telling("write"), self._part(name) as part:
            _write(part, content)
            part.replace(self._folder / name)
            _sync(self._folder / name)

    def size(self, name: str) -> int | None:
        with self._telling("look"):
            try:
                return (self._folder / name).stat().st_size
            except FileNotFoundError:
                return None

    def read(self, name: str) -> bytes:
        with self._telling("read"):
            return (self._folder / name).read_bytes()

    def fetch(self, name: str, into: Path) -> None:
        with self._telling("read"):
            shutil.copyfile(self._folder / name, into)

    def delete(self, names: Sequence[str]) -> None:
        with self._telling("delete"):
            for name in names:
                (self._folder / name).unlink(missing_ok=True)
            for folder in {(self._folder / name).parent for name in names} - {self._folder}:
                with suppress(OSError):  # still holds something
                    folder.rmdir()

    @contextmanager
    def _part(self, name: str) -> Generator[Path]:
        """Beside its target, so that it is on the same file system."""
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.parent / f".{uuid4().hex}.part"
        try:
            yield part
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def _telling(self, what: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(self.address, f"cannot {what}: {error.strerror or error}") from error


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
    """The name is stored when its folder is."""
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
