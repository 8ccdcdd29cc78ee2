"""The job that runs in this process, as its worker tells it to the checkpoint that the job opens."""

from collections.abc import Mapping
from threading import local
from typing import Protocol

from ebbtide.jobs.checkpoints.kept import KeptCheckpoints


class RunningJob(Protocol):
    """Implemented by each worker class."""

    @property
    def id(self) -> str: ...

    @property
    def stopping(self) -> bool:
        """The worker was told to stop."""
        ...

    def claim(self, at_least: int) -> int:
        """A number for this attempt: greater than `at_least` and than any in Redis. From now on earlier ones count no
        more. Raises `Superseded` if the job was given to another worker meanwhile."""
        ...

    def opened(self, kept: KeptCheckpoints) -> None: ...

    def note(self, progress: Mapping[str, str | int]) -> None:
        """Shown to operators. Never raises and never waits long: progress is not worth a job's time."""
        ...


class _Here(local):
    """Of each thread: a Celery worker may run tasks in several."""

    job: RunningJob | None = None


_here = _Here()


def begin(job: RunningJob) -> None:
    _here.job = job


def end() -> None:
    _here.job = None


def running_job() -> RunningJob | None:
    """None outside a worker."""
    return _here.job
