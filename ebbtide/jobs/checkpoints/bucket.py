"""Checkpoints in a bucket, by `obstore`: S3 and compatible stores, Google's and Azure's.

Rights and regions come from the same sources as in their own clients: the pod's role, or `AWS_…` variables.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore, from_url

from ebbtide.jobs.checkpoints.errors import StoreError

PART = 8 << 20  # bytes of one part of an upload
MOST_PARTS = 9_000  # S3 takes 10,000
WAIT = timedelta(seconds=20)  # obstore's default is three minutes, longer than a spot node's notice

_PLAIN = (
    (PermissionDeniedError, "the pod's role has no right to it"),
    (UnauthenticatedError, "the credentials were refused"),
    (FileNotFoundError, "there is no such bucket, or no such object in it"),
)


class BucketStore:
    def __init__(self, address: str) -> None:
        self.address = address
        with self._store_errors("open"):
            self._store: ObjectStore = from_url(
                address,
                retry_config={"max_retries": 5, "retry_timeout": WAIT},
                # Explicit options replace those of the environment.
                client_options={"timeout": "5m", "allow_http": os.environ.get("AWS_ALLOW_HTTP") == "true"},
            )

    def names(self, folder: str) -> list[str]:
        with self._store_errors("list"):
            return sorted(meta["path"] for page in obstore.list(self._store, folder) for meta in page)

    def create(self, name: str, content: bytes) -> bool:
        with self._store_errors("write"):
            try:
                obstore.put(self._store, name, content, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def write(self, name: str, content: bytes | Path) -> None:
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        with self._store_errors("write"):
            obstore.put(self._store, name, content, chunk_size=max(PART, size // MOST_PARTS + 1))

    def size(self, name: str) -> int | None:
        with self._store_errors("look"):
            try:
                return obstore.head(self._store, name)["size"]
            except FileNotFoundError:
                return None

    def read(self, name: str) -> bytes:
        with self._store_errors("read"):
            return bytes(obstore.get(self._store, name).bytes())

    def fetch(self, name: str, into: Path) -> None:
        with self._store_errors("read"), into.open("wb") as file:
            for chunk in obstore.get(self._store, name):
                file.write(chunk)

    def delete(self, names: Sequence[str]) -> None:
        with self._store_errors("delete"):
            if names:
                obstore.delete(self._store, list(names))

    @contextmanager
    def _store_errors(self, action: str) -> Generator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            plain = next((text for kind, text in _PLAIN if isinstance(error, kind)), _first_line(error))
            raise StoreError(self.address, f"cannot {action}: {plain}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
