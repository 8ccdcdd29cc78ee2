"""Layout of one job's checkpoints in a store.

    <job>/<attempt>.attempt              created once by each attempt: the greatest is the newest attempt
    <job>/<attempt>-<number>.data        the state
    <job>/<attempt>-<number>.json        created after the data, with its size and checksum: this publishes it
    .done/<until>-<job>                  the job has ended: its checkpoints may be removed at that time

Numbers have ten digits, so that names sort like them. Nothing points to "the newest": it is the greatest name, and a
checkpoint of an older attempt never sorts after one of a newer attempt, whenever it was written.
"""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ebbtide.jobs.checkpoints.errors import StoreError, Superseded
from ebbtide.jobs.checkpoints.stores import Store

FORMAT = 1
KEEP = 3

_log = logging.getLogger("ebbtide.checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Metadata of a checkpoint."""

    job: str
    attempt: int
    number: int
    codec: str
    version: int  # of the state's format, set by the job
    size: int  # bytes
    sha256: str
    saved: str  # UTC, ISO 8601
    step: int
    format: int = FORMAT


class Damaged(Exception):
    """This checkpoint is unusable; an older one may be usable."""


class StoredCheckpoints:
    def __init__(self, store: Store, job: str, keep: int = KEEP) -> None:
        self._store = store
        self._job = job
        self._keep = keep
        self._folder = folder_of(job)

    @property
    def address(self) -> str:
        return f"{self._store.address}/{self._folder}"

    # --- attempts -------------------------------------------------------------------------------------------------

    def newest_attempt(self) -> int:
        """Return the newest attempt's number; 0 before the first."""
        return _newest(self._names())

    def claim(self, attempt: int) -> bool:
        """Reserve the number; return False if it was taken. Of two callers, one gets it."""
        return self._store.create(f"{self._folder}/{attempt:010d}.attempt", b"")

    # --- writing --------------------------------------------------------------------------------------------------

    def publish(self, header: Header, data: Path) -> None:
        """Write, verify, publish. Raises `Superseded` if a newer attempt has begun."""
        name = self._name(header)
        self._store.write(f"{name}.data", data)
        size = self._store.size(f"{name}.data")
        if size != header.size:
            raise StoreError(self._store.address, f"{name}.data has {size} bytes after writing {header.size}")
        names = self._names()
        if _newest(names) > header.attempt:
            self._store.delete([f"{name}.data"])
            raise Superseded(f"attempt {header.attempt} of job {self._job} has been replaced by a newer one")
        text = json.dumps(asdict(header), indent=1).encode()
        if not self._store.create(f"{name}.json", text) and self._store.read(f"{name}.json") != text:
            raise Superseded(f"another process writes as attempt {header.attempt} of job {self._job}")
        try:
            self._prune(header, sorted({*names, f"{name}.json"}))
        except StoreError as why:
            _log.warning("job %s: older checkpoints stay: %s", self._job, why)

    def _prune(self, newest: Header, names: Sequence[str]) -> None:
        """Remove old checkpoints, headers first: data without them is ignored, a header without data looks damaged."""
        published = [name for name in names if name.endswith(".json")]
        newest_names = {name.removesuffix(".json") for name in published[-self._keep :]}
        old = [name for name in published if name.removesuffix(".json") not in newest_names]
        data = [name for name in names if name.endswith(".data") and name.removesuffix(".data") not in newest_names]
        markers = [name for name in names if name.endswith(".attempt") and _attempt(name) < newest.attempt - 1]
        unfinished = [name for name in data if name.removesuffix(".data") <= self._name(newest)]
        self._store.delete(old)
        self._store.delete(unfinished + markers)

    # --- reading --------------------------------------------------------------------------------------------------

    def headers(self) -> list[Header]:
        """Return the headers, newest first. Unreadable ones are skipped with a line in the log."""
        headers: list[Header] = []
        for name in reversed([name for name in self._names() if name.endswith(".json")]):
            try:
                headers.append(self._header(name))
            except Damaged as why:
                _log.warning("job %s: checkpoint %s is skipped: %s", self._job, name, why)
        return headers

    def fetch(self, header: Header, into: Path) -> None:
        name = f"{self._name(header)}.data"
        if self._store.size(name) is None:
            raise Damaged("its data is missing")
        self._store.fetch(name, into)
        size = into.stat().st_size
        if size != header.size:
            raise Damaged(f"its data has {size} bytes, wanted {header.size}")
        if checksum(into) != header.sha256:
            raise Damaged("its data has another checksum than was written")

    def _header(self, name: str) -> Header:
        content = self._store.read(name)
        if not content:
            raise Damaged("it is empty")
        try:
            fields: Any = json.loads(content)
            header = Header(**fields)
        except (ValueError, TypeError):
            raise Damaged("it is not a checkpoint's header") from None
        if header.format != FORMAT:
            raise Damaged(f"it has format {header.format}, wanted {FORMAT}: it was written by another ebbtide-jobs")
        return header

    # --- the end --------------------------------------------------------------------------------------------------

    def done(self, until: float) -> None:
        """Record that the job has ended; its checkpoints may be removed at `until` (seconds since 1970)."""
        note = json.dumps({"job": self._job, "attempt": self.newest_attempt()}).encode()
        self._store.create(f"{DONE}/{max(0, int(until)):012d}-{self._folder}"[:250], note)

    def remove(self) -> None:
        names = self._names()
        self._store.delete([name for name in names if name.endswith(".json")])
        self._store.delete([name for name in names if not name.endswith(".json")])

    def _names(self) -> list[str]:
        return self._store.names(self._folder)

    def _name(self, header: Header) -> str:
        return f"{self._folder}/{header.attempt:010d}-{header.number:010d}"


DONE = ".done"


def folder_of(job: str) -> str:
    """Return the folder's name for a job's id. It never begins with a dot: `..` leads out, and `.done` is taken."""
    name = quote(job, safe="").replace("%", "=")
    return f"=2E{name[1:]}" if name.startswith(".") else name


def remove_expired(store: Store, now: float, most: int = 100) -> list[str]:
    """Remove the checkpoints of ended jobs whose time is over, unless restarted since. Return these jobs."""
    removed: list[str] = []
    for name in store.names(DONE)[:most]:
        until = name.rpartition("/")[2].partition("-")[0]
        if not until.isdigit() or int(until) > now:
            break  # sorted by time
        note: Mapping[str, Any] = json.loads(store.read(name) or b"{}")
        job = str(note.get("job", ""))
        checkpoints = StoredCheckpoints(store, job)
        if job and checkpoints.newest_attempt() <= int(note.get("attempt", 0)):
            checkpoints.remove()
            removed.append(job)
        store.delete([name])
    return removed


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _newest(names: Sequence[str]) -> int:
    return max(map(_attempt, names), default=0)


def _attempt(name: str) -> int:
    digits = name.rpartition("/")[2][:10]
    return int(digits) if digits.isdigit() else 0
