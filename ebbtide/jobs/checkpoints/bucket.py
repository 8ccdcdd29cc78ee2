"""Checkpoints in a bucket, by `obstore`: S3 and what speaks its language, Google's and Azure's.

Rights and regions come from where their own clients take them: the pod's role, or `AWS_…` variables.
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
WAIT = timedelta(seconds=20)  # obstore's own wait is three minutes, more than a spot node has

_PLAIN = (
    (PermissionDeniedError, "the pod's role has no right to it"),
    (UnauthenticatedError, "the credentials were refused"),
    (FileNotFoundError, "there is no such bucket, or no such object in it"),
)


class BucketStore:
    def __init__(self, address: str) -> None:
        self.address = address
        with self._telling("open"):
            self._store: ObjectStore = from_url(
                address,
                retry_config={"max_retries": 5, "retry_timeout": WAIT},
                # Options that are given replace those of the environment.
                client_options={"timeout": "5m", "allow_http": os.environ.get("AWS_ALLOW_HTTP") == "true"},
            )

    def names(self, folder: str) -> list[str]:
        with self._telling("list"):
            return sorted(meta["path"] for page in obstore.list(self._store, folder) for meta in page)

    def create(self, name: str, content: bytes) -> bool:
        with self._telling("write"):
            try:
                obstore.put(self._store, name, content, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def write(self, name: str, content: bytes | Path) -> None:
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        with self._telling("write"):
            obstore.put(self._store, name, content, chunk_size=max(PART, size // MOST_PARTS + 1))

    def size(self, name: str) -> int | None:
        with self._telling("look"):
            try:
                return obstore.head(self._store, name)["size"]
            except FileNotFoundError:
                return None

    def read(self, name: str) -> bytes:
        with self._telling("read"):
            return bytes(obstore.get(self._store, name).bytes())

    def fetch(self, name: str, into: Path) -> None:
        with self._telling("read"), into.open("wb") as file:
            for chunk in obstore.get(self._store, name):
                file.write(chunk)

    def delete(self, names: Sequence[str]) -> None:
        with self._telling("delete"):
            if names:
                obstore.delete(self._store, list(names))

    @contextmanager
    def _telling(self, what: str) -> Generator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            plain = next((text for kind, text in _PLAIN if isinstance(error, kind)), _first_line(error))
            raise StoreError(self.address, f"cannot {what}: {plain}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
