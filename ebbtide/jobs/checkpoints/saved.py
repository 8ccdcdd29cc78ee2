"""`with checkpoint(store) as saved`: what a job uses."""

import logging
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from ebbtide.jobs.checkpoints.codecs import Codec, codec_for, codec_named
from ebbtide.jobs.checkpoints.durations import seconds
from ebbtide.jobs.checkpoints.environment import pool_checkpoints
from ebbtide.jobs.checkpoints.errors import CannotLoad, CheckpointError, Paused, StoreError
from ebbtide.jobs.checkpoints.kept import KEEP, Damaged, Header, KeptCheckpoints, checksum
from ebbtide.jobs.checkpoints.running import RunningJob, running_job
from ebbtide.jobs.checkpoints.stores import Store, open_store

EVERY = 300.0  # seconds, where neither the job nor its pool says
TRY_AGAIN = 15.0  # seconds after a save that failed
BEGIN_WITHIN = 600.0  # seconds that a job waits for its store before it fails; its worker has tried it once
PAUSE = 1.0  # seconds between two tries of that

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
    """Where a job's state lies while it runs, so that an interrupted job goes on where it was.

    `store`: a folder or a bucket (`s3://bucket/prefix`); `every`: how much work a hard kill may repeat, `"5m"`. Both
    come from the stack file's `checkpoints` when left out. `job`: the key; a worker knows its job's id. `version`: of
    the state's form; a state of another version goes through `migrate(state, version)`. `keep`: how many are kept.

    Raises `CheckpointError` with one line, and `Paused` at an offer after the worker was told to stop.
    """
    pool = pool_checkpoints()
    here = running_job()
    given = store if store is not None else (pool.store if pool else None)
    if given is None:
        hint = "give one, checkpoint('s3://bucket/team'), or say checkpoints in the pool's section of the stack file"
        raise CheckpointError(f"no store for checkpoints: {hint}")
    name = job or (here.id if here else None)
    if not name:
        raise CheckpointError("no job to keep checkpoints for: outside a worker say which, checkpoint(store, job='a')")
    pause = seconds(every, "every") if every is not None else pool.every if pool else EVERY
    where = open_store(str(given)) if isinstance(given, str | Path) else given
    with _scratch() as folder:
        kept = KeptCheckpoints(where, name, keep)
        yield Saved(kept, name, here, Path(folder), pause, codec, version, migrate, clock)


def _scratch() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="ebbtide-")
    except OSError as error:
        raise CheckpointError(f"no place to write a state before it is stored: {error}; set TMPDIR to one") from None


class Saved:
    """Made by `checkpoint()`."""

    def __init__(
        self,
        kept: KeptCheckpoints,
        job: str,
        here: RunningJob | None,
        scratch: Path,
        every: float,
        codec: Codec | None,
        version: int,
        migrate: Migration | None,
        clock: Callable[[], float],
    ) -> None:
        self._kept = kept
        self._job = job
        self._here = here
        self._scratch = scratch
        self._every = every
        self._codec = codec
        self._version = version
        self._migrate = migrate
        self._clock = clock
        self._number = 0
        self._step = 0
        self._attempt = self._patiently(self._claim)
        # The first offer of a job's first attempt is saved at once: what is wrong shows before hours were spent.
        self._due_at = clock() + (every if self._attempt > 1 else 0.0)

    @property
    def stopping(self) -> bool:
        """The worker was told to stop: the next offer saves and ends this attempt. For a job with long steps."""
        return self._here is not None and self._here.stopping

    @property
    def attempt(self) -> int:
        """1 for the first. May skip numbers."""
        return self._attempt

    def load(self, default: Any = None) -> Any:
        """The newest state that is whole, or `default` if there is none. A folder comes back as the path of a copy."""
        return self._patiently(lambda: self._load(default))

    def _load(self, default: Any) -> Any:
        headers = self._kept.headers()
        for header in headers:
            try:
                state = self._read(header)
            except Damaged as why:
                _log.warning(
                    "job %s: checkpoint %d of attempt %d is passed over: %s",
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
            where = self._kept.address
            raise CannotLoad(f"job {self._job}: none of its {len(headers)} checkpoints in {where} is whole")
        return default

    def offer(self, state: Any, *, step: int | None = None) -> bool:
        """Save if it is due, and whether it was saved. `step`: for people; by default it counts the offers.

        Raises `Paused` once the worker was told to stop and the state is saved. A store that cannot be used now is one
        line in the log, and the job goes on; a state that cannot be written raises `CannotSave`.
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
        """Save now, due or not. Raises `StoreError` where `offer` goes on."""
        self._step = self._step + 1 if step is None else step
        self._save(state)

    def _patiently(self, do: Callable[[], T]) -> T:
        """Failing would throw away what is stored, because the store was away for a moment."""
        until, told = self._clock() + BEGIN_WITHIN, False
        while True:
            try:
                return do()
            except StoreError as why:
                if self._here is None or self._clock() >= until:
                    raise
                if self.stopping:
                    raise Paused(f"job {self._job} has not begun: {why}") from why
                if not told:
                    _log.error("job %s waits, for %.0f s at most: %s", self._job, BEGIN_WITHIN, why)
                told = True
                time.sleep(PAUSE)

    def _claim(self) -> int:
        highest = self._kept.newest_attempt()
        while True:
            attempt = self._here.claim(highest) if self._here else highest + 1
            if self._kept.claim(attempt):
                if self._here:
                    self._here.opened(self._kept)
                return attempt
            highest = max(attempt, self._kept.newest_attempt())

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
            self._kept.publish(header, data)
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
        data = Path(tempfile.mkdtemp(dir=self._scratch)) / "state"  # a folder's copy lies beside it until the end
        self._kept.fetch(header, data)
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
        if self._here is not None:
            self._here.note(progress)
