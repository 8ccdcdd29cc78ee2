"""`with checkpoint(store) as saved`: the interface for jobs."""

import logging
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from ebbtide.jobs.checkpoints.codecs import Codec, codec_for, codec_named
from ebbtide.jobs.checkpoints.environment import pool_checkpoints, seconds
from ebbtide.jobs.checkpoints.errors import CannotLoad, CheckpointError, Paused, StoreError
from ebbtide.jobs.checkpoints.running import RunningJob, running_job
from ebbtide.jobs.checkpoints.stored import KEEP, Damaged, Header, StoredCheckpoints, checksum
from ebbtide.jobs.checkpoints.stores import Store, open_store

EVERY = 300.0  # seconds, if neither the job nor its pool sets it
TRY_AGAIN = 15.0  # seconds after a save that failed
BEGIN_WITHIN = 600.0  # seconds that a job waits for its store before it fails; its worker has tried it once
PAUSE = 1.0  # seconds between two tries

_log = logging.getLogger("ebbtide.checkpoints")

Migration = Callable[[Any, int], Any]
T = TypeVar("T")


@contextmanager
def checkpoint(
    store: str | Path | Store | None = None,
    *,
    every: str | float | timedelta | None = None,
    job: str | None = None,
    codec: Codec | None = None,
    version: int = 1,
    migrate: Migration | None = None,
    keep: int = KEEP,
    clock: Callable[[], float] = time.monotonic,
) -> Generator["Saved"]:
    """Store a job's state while it runs, so that an interrupted job resumes where it was.

    `store`: a folder or a bucket (`s3://bucket/prefix`); `every`: how much work a hard kill may repeat, `"5m"`. Both
    default to the stack file's `checkpoints`. `job`: the key; by default the id of the worker's job. `version`: of the
    state's format; a state of another version goes through `migrate(state, version)`. `keep`: how many are kept.

    Raises `CheckpointError` with one line, and `Paused` at an offer once the worker has to stop.
    """
    pool = pool_checkpoints()
    running = running_job()
    address = store if store is not None else (pool.store if pool else None)
    if address is None:
        hint = "give one, checkpoint('s3://bucket/team'), or set checkpoints in the pool's section of the stack file"
        raise CheckpointError(f"no store for checkpoints: {hint}")
    name = job or (running.id if running else None)
    if not name:
        raise CheckpointError("no job to keep checkpoints for: outside a worker name one, checkpoint(store, job='a')")
    pause = seconds(every, "every") if every is not None else pool.every if pool else EVERY
    opened = open_store(str(address)) if isinstance(address, str | Path) else address
    with _scratch() as folder:
        checkpoints = StoredCheckpoints(opened, name, keep)
        yield Saved(checkpoints, name, running, Path(folder), pause, codec, version, migrate, clock)


def _scratch() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="ebbtide-")
    except OSError as error:
        raise CheckpointError(f"no place to write a state before it is stored: {error}; set TMPDIR to one") from None


class Saved:
    """The checkpoints of a job; created by `checkpoint()`."""

    def __init__(
        self,
        checkpoints: StoredCheckpoints,
        job: str,
        running: RunningJob | None,
        scratch: Path,
        every: float,
        codec: Codec | None,
        version: int,
        migrate: Migration | None,
        clock: Callable[[], float],
    ) -> None:
        self._checkpoints = checkpoints
        self._job = job
        self._running = running
        self._scratch = scratch
        self._every = every
        self._codec = codec
        self._version = version
        self._migrate = migrate
        self._clock = clock
        self._number = 0
        self._step = 0
        self._attempt = self._patiently(self._claim)
        # The first offer of a job's first attempt is saved at once, so that faults show before hours of work.
        self._due_at = clock() + (every if self._attempt > 1 else 0.0)

    @property
    def stopping(self) -> bool:
        """True once the worker has to stop: the next offer saves and ends this attempt. For a job with long steps."""
        return self._running is not None and self._running.stopping

    @property
    def attempt(self) -> int:
        """Number of this attempt: 1 for the first; may skip numbers."""
        return self._attempt

    def load(self, default: Any = None) -> Any:
        """Return the newest complete state, or `default` if there is none; for a folder, the path of a copy."""
        return self._patiently(lambda: self._load(default))

    def _load(self, default: Any) -> Any:
        headers = self._checkpoints.headers()
        for header in headers:
            try:
                state = self._read(header)
            except Damaged as why:
                _log.warning(
                    "job %s: checkpoint %d of attempt %d is skipped: %s",
                    self._job,
                    header.number,
                    header.attempt,
                    why,
                )
                continue
            self._step = header.step
            _log.info("job %s goes on at step %d, saved %s", self._job, header.step, header.saved)
            return state
        if headers:
            where = self._checkpoints.address
            raise CannotLoad(f"job {self._job}: none of its {len(headers)} checkpoints in {where} is intact")
        return default

    def offer(self, state: Any, *, step: int | None = None) -> bool:
        """Save if it is due; return True if it was saved. `step`: for people; by default it counts the offers.

        Raises `Paused` once the worker has to stop and the state is saved. A store that cannot be used now is one line
        in the log, and the job continues; a state that cannot be written raises `CannotSave`.
        """
        self._step = self._step + 1 if step is None else step
        stopping = self.stopping
        if not stopping and self._clock() < self._due_at:
            return False
        try:
            self._save(state)
        except StoreError as why:
            _log.error("job %s: step %d is not saved: %s", self._job, self._step, why)
            self._note({"problem": str(why)})
            self._due_at = self._clock() + min(TRY_AGAIN, self._every)
            return False
        if stopping:
            raise Paused(f"job {self._job} was saved at step {self._step}")
        return True

    def save(self, state: Any, *, step: int | None = None) -> None:
        """Save now, due or not. Raises `StoreError` where `offer` continues."""
        self._step = self._step + 1 if step is None else step
        self._save(state)

    def _patiently(self, do: Callable[[], T]) -> T:
        """Retry: a short outage of the store must not discard the stored state."""
        until, logged = self._clock() + BEGIN_WITHIN, False
        while True:
            try:
                return do()
            except StoreError as why:
                if self._running is None or self._clock() >= until:
                    raise
                if self.stopping:
                    raise Paused(f"job {self._job} has not begun: {why}") from why
                if not logged:
                    _log.error("job %s waits, for %.0f s at most: %s", self._job, BEGIN_WITHIN, why)
                logged = True
                time.sleep(PAUSE)

    def _claim(self) -> int:
        highest = self._checkpoints.newest_attempt()
        while True:
            attempt = self._running.claim(highest) if self._running else highest + 1
            if self._checkpoints.claim(attempt):
                if self._running:
                    self._running.opened(self._checkpoints)
                return attempt
            highest = max(attempt, self._checkpoints.newest_attempt())

    def _save(self, state: Any) -> None:
        began = self._clock()
        codec = self._codec or codec_for(state)
        data = self._scratch / "state"
        self._number += 1
        try:
            codec.dump(state, data)
            header = Header(
                job=self._job,
                attempt=self._attempt,
                number=self._number,
                codec=codec.name,
                version=self._version,
                size=data.stat().st_size,
                sha256=checksum(data),
                saved=datetime.now(UTC).isoformat(timespec="seconds"),
                step=self._step,
            )
            self._checkpoints.publish(header, data)
        except OSError as error:
            raise StoreError(str(self._scratch), f"cannot write the state: {error.strerror or error}") from error
        finally:
            data.unlink(missing_ok=True)
        took = self._clock() - began
        _log.info("job %s: step %d saved, %d bytes in %.1f s", self._job, self._step, header.size, took)
        self._note({"step": self._step, "saved": header.saved, "attempt": self._attempt, "problem": ""})
        self._due_at = self._clock() + self._every

    def _read(self, header: Header) -> Any:
        if header.version != self._version and self._migrate is None:
            raise CannotLoad(
                f"job {self._job}: its checkpoint has version {header.version} and the job wants {self._version}: "
                "give checkpoint() migrate=, or enqueue it under a new id"
            )
        codec = codec_named(header.codec, self._codec)
        data = Path(tempfile.mkdtemp(dir=self._scratch)) / "state"  # a folder's copy stays next to it until the end
        self._checkpoints.fetch(header, data)
        try:
            state = codec.load(data)
        except Exception as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise CannotLoad(f"job {self._job}: codec {codec.name!r} cannot load its checkpoint: {why}") from error
        finally:
            data.unlink(missing_ok=True)
        if header.version != self._version and self._migrate is not None:
            state = self._migrate(state, header.version)
        return state

    def _note(self, progress: dict[str, str | int]) -> None:
        if self._running is not None:
            self._running.note(progress)
