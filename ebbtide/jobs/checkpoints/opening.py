"""The limit of a pool that requires checkpoints: a job that has opened none in time is failed, with one line."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ebbtide.jobs.checkpoints.environment import PoolCheckpoints
from ebbtide.jobs.checkpoints.errors import NeverOpened

AGAIN = 10.0  # seconds after which a job is told again that swallowed it: a bare `except`, or a callback from C


def open_within(pool: PoolCheckpoints | None) -> float | None:
    """Seconds; None where a job need not open a checkpoint."""
    return pool.open_within if pool is not None and pool.required else None


def too_late(job: str, within: float) -> str:
    return (
        f"job {job} has opened no checkpoint within {within:.0f} s, and its pool requires one "
        "(checkpoints: required, openWithin)"
    )


@contextmanager
def must_open(job: Callable[[], str], within: float | None, has_opened: Callable[[], bool]) -> Generator[None]:
    """For a job that runs in its worker's own process: raises `NeverOpened` in it, out of a blocking call too.

    SIGURG, since nothing happens where nobody handles it, and no library is known to use it. Signals reach the main
    thread alone: a job in another has no limit.
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
