"""Attempts of jobs for workers without a process per job, which cannot see another worker's hard end: lists, Celery.

A pool may require checkpoints: a job that has opened none in time fails, with one line.
"""

import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cached_property

from redis import Redis

from ebbtide.jobs.checkpoints import running
from ebbtide.jobs.checkpoints.attempts import MOST_DEATHS, Hold, claim, end_in_order, impatient, note
from ebbtide.jobs.checkpoints.environment import PoolCheckpoints
from ebbtide.jobs.checkpoints.errors import NeverOpened
from ebbtide.jobs.checkpoints.stored import StoredCheckpoints


class Attempt(ABC):
    token: int | None = None
    _has_opened = False

    @property
    @abstractmethod
    def id(self) -> str: ...

    @property
    @abstractmethod
    def stopping(self) -> bool: ...

    @abstractmethod
    def _held(self) -> tuple[Redis, Hold]:
        """Return the entry of Redis that gives this worker the job."""

    @property
    def _name(self) -> str:
        """Name for people."""
        return self.id

    @cached_property
    def _quick(self) -> Redis:
        return impatient(self._held()[0])

    def claim(self, at_least: int) -> int:
        connection, hold = self._held()
        self.token = claim(connection, self.id, at_least, hold, MOST_DEATHS, self.token)
        return self.token

    def opened(self, checkpoints: StoredCheckpoints) -> None:
        del checkpoints
        self._has_opened = True

    def note(self, progress: Mapping[str, str | int]) -> None:
        note(self._quick, self.id, progress)

    @contextmanager
    def running(self, pool: PoolCheckpoints | None) -> Generator[None]:
        """Mark the attempt as running; if the mark outlives this block, the attempt was killed."""
        running.begin(self)
        try:
            with must_open(lambda: self._name, open_within(pool), lambda: self._has_opened):
                yield
        finally:
            running.end()
            if self.token is not None:
                end_in_order(self._quick, self.id, self.token)


AGAIN = 10.0  # seconds until the exception is raised again in a job that swallowed it: a bare `except`, or C code


def open_within(pool: PoolCheckpoints | None) -> float | None:
    """Return the limit in seconds; None if a job need not open a checkpoint."""
    return pool.open_within if pool is not None and pool.required else None


def too_late(job: str, within: float) -> str:
    return (
        f"job {job} has opened no checkpoint within {within:.0f} s, and its pool requires one "
        "(checkpoints: required, openWithin)"
    )


@contextmanager
def must_open(job: Callable[[], str], within: float | None, has_opened: Callable[[], bool]) -> Generator[None]:
    """Raise `NeverOpened` in a job that runs in its worker's own process, even in a blocking call.

    Uses SIGURG, which is ignored by default, and which no library is known to use. Signals reach only the main thread:
    a job in another thread has no limit.
    """
    if within is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    over = threading.Event()

    def interrupt(_signum: int, _frame: object) -> None:
        if not over.is_set() and not has_opened():
            raise NeverOpened(too_late(job(), within))

    def remind() -> None:
        patience = within
        while not over.wait(patience) and not has_opened():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)
            patience = AGAIN

    before = signal.signal(signal.SIGURG, interrupt)
    threading.Thread(target=remind, name="ebbtide-opening", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        signal.signal(signal.SIGURG, before)
