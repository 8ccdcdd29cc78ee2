"""Where checkpoints lie: a folder (a volume), or a bucket. Names are relative paths with `/`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ebbtide.jobs.checkpoints.errors import StoreError


class Store(Protocol):
    """Everything raises `StoreError` with one line when the store cannot be used."""

    @property
    def address(self) -> str: ...

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, sorted; empty when there is no such folder."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Whether it was made: never replaces, and is there whole or not at all."""
        ...

    def write(self, name: str, content: bytes | Path) -> None:
        """Stored for good when it returns. May leave a part behind when it fails: nothing reads it by its name."""
        ...

    def size(self, name: str) -> int | None:
        """In bytes; None when there is no such thing."""
        ...

    def read(self, name: str) -> bytes: ...

    def fetch(self, name: str, into: Path) -> None: ...

    def delete(self, names: Sequence[str]) -> None:
        """Names that are not there are passed over."""
        ...


def open_store(address: str) -> Store:
    """A folder, or `s3://bucket/prefix`, `gs://…`, `az://…`, which need `ebbtide-jobs[checkpoint]`."""
    if "://" not in address:
        from ebbtide.jobs.checkpoints.folder import FolderStore

        return FolderStore(Path(address))
    try:
        from ebbtide.jobs.checkpoints.bucket import BucketStore
    except ModuleNotFoundError as missing:
        if missing.name != "obstore":
            raise
        raise StoreError(address, "a bucket needs obstore: install ebbtide-jobs[checkpoint]") from None
    return BucketStore(address)
