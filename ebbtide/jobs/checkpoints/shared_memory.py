"""Shared memory between a worker and its job's process, instead of Redis: the stop request, and the job's run time."""

import mmap
import struct
import time

_STOP, _OPENED = 0, 1


class StopFlag:
    """Stop request of the worker, and the job's answer. Created before the fork: both processes see the same page.

    Safe in a signal handler.
    """

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 2)

    def set(self) -> None:
        self._page[_STOP] = 1

    @property
    def is_set(self) -> bool:
        return self._page[_STOP] == 1

    def opened(self) -> None:
        """Record that the job has opened a checkpoint."""
        self._page[_OPENED] = 1

    def next_job(self) -> None:
        self._page[_OPENED] = 0

    @property
    def has_opened(self) -> bool:
        return self._page[_OPENED] == 1


_SECONDS = struct.Struct("d")


class JobClock:
    """A job's run time: its process writes the start, the parent reads it. Created before the fork.

    Monotonic time is the same in both processes; zero means that the clock is stopped.
    """

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _SECONDS.size)

    def start(self) -> None:
        _SECONDS.pack_into(self._page, 0, time.monotonic())

    def stop(self) -> None:
        _SECONDS.pack_into(self._page, 0, 0.0)

    @property
    def seconds(self) -> float:
        (begun,) = _SECONDS.unpack_from(self._page, 0)
        return time.monotonic() - begun if begun else 0.0
