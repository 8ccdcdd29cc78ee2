"""One attempt of a job, for workers that have no process for each job and see no hard end of another: lists, Celery."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cached_property

from redis import Redis

from ebbtide.jobs.checkpoints import running
from ebbtide.jobs.checkpoints.attempts import MOST_DEATHS, Hold, claim, end_in_order, impatient, note
from ebbtide.jobs.checkpoints.environment import PoolCheckpoints
from ebbtide.jobs.checkpoints.kept import KeptCheckpoints
from ebbtide.jobs.checkpoints.opening import must_open, open_within


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
        """Where Redis says that this worker has the job."""

    @property
    def _name(self) -> str:
        """For people."""
        return self.id

    @cached_property
    def _quick(self) -> Redis:
        return impatient(self._held()[0])

    def claim(self, at_least: int) -> int:
        connection, hold = self._held()
        self.token = claim(connection, self.id, at_least, hold, MOST_DEATHS, self.token)
        return self.token

    def opened(self, kept: KeptCheckpoints) -> None:
        del kept
        self._has_opened = True

    def note(self, progress: Mapping[str, str | int]) -> None:
        note(self._quick, self.id, progress)

    @contextmanager
    def running(self, pool: PoolCheckpoints | None) -> Generator[None]:
        """What is left of it without an end of this `with` was killed."""
        running.begin(self)
        try:
            with must_open(lambda: self._name, open_within(pool), lambda: self._has_opened):
                yield
        finally:
            running.end()
            if self.token is not None:
                end_in_order(self._quick, self.id, self.token)
