"""The job that runs in this process, through which its checkpoint reaches the worker."""

from collections.abc import Mapping
from threading import local
from typing import Protocol

from ebbtide.jobs.checkpoints.stored import StoredCheckpoints


class RunningJob(Protocol):
    """Implemented by each worker class."""

    @property
    def id(self) -> str: ...

    @property
    def stopping(self) -> bool:
        """True once the worker has to stop."""
        ...

    def claim(self, at_least: int) -> int:
        """Return a number for this attempt, greater than `at_least` and any in Redis; earlier ones are superseded.

        Raises `Superseded` if the job was given to another worker meanwhile.
        """
        ...

    def opened(self, checkpoints: StoredCheckpoints) -> None: ...

    def note(self, progress: Mapping[str, str | int]) -> None:
        """Store progress for operators. Never raises and never waits long."""
        ...


class _Here(local):
    """The job of each thread: a Celery worker may run tasks in several."""

    job: RunningJob | None = None


_here = _Here()


def begin(job: RunningJob) -> None:
    _here.job = job


def end() -> None:
    _here.job = None


def running_job() -> RunningJob | None:
    """Return this thread's job; None outside a worker."""
    return _here.job
