"""Keep the jobs of a prefork pool that a process has received when the worker's connection to the broker is lost.

The stock worker then discards each job that no process has accepted. A process may have received it already, and runs
it: the worker does not know of the task, and reports that it is idle. Celery before 5.7 discards accepted jobs, too.
Here such a job stays in the pool, and counts as active until it ends.
"""

# Celery is installed in the customer's image and in a separate test environment, so its types are not available here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from typing import Any

from celery.concurrency.asynpool import AsynPool


class Flush:
    """Replaces the `flush` of a prefork pool, which Celery calls after a lost connection."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool  # Celery's AsynPool
        self._flush = pool.flush
        self._sent: dict[Any, Any] = {}  # jobs during a flush, which may wait for a process

    def __call__(self) -> None:
        pool = self._pool
        self._sent = {number: job for number, job in pool._cache.items() if job._write_to is not None}  # noqa: SLF001
        busy = set(pool._busy_workers)  # noqa: SLF001
        try:
            self._flush()
        finally:
            for number, job in self._sent.items():
                process = job._write_to  # noqa: SLF001
                if process._is_alive():  # noqa: SLF001
                    pool._cache[number] = job  # noqa: SLF001
                    pool._busy_workers |= busy & {process.inqW_fd}  # noqa: SLF001 - so that it gets no second job
            self._sent = {}

    def unaccepted(self) -> int:
        """Return the number of jobs that a process has received and not accepted."""
        jobs = {**self._sent, **self._pool._cache}  # noqa: SLF001
        return sum(job._write_to is not None and not job._accepted for job in jobs.values())  # noqa: SLF001


def keep_sent_jobs(pool: Any) -> None:
    """Let Celery's `pool` keep them; other pools run a job as soon as they get it."""
    if isinstance(getattr(pool, "_pool", None), AsynPool) and not isinstance(pool.flush, Flush):
        pool.flush = Flush(pool._pool)  # noqa: SLF001


def unaccepted(pool: Any) -> int:
    """Return the number of jobs that a process of this pool has received and not accepted."""
    flush = getattr(pool, "flush", None)
    return flush.unaccepted() if isinstance(flush, Flush) else 0
