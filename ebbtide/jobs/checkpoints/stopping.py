"""Tells a job in another process that its worker was told to stop, and the worker what the job has done so far."""

import mmap

_STOP, _OPENED = 0, 1


class StopFlag:
    """Made before the fork: both processes see the same page. Safe in a signal handler."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 2)

    def tell(self) -> None:
        self._page[_STOP] = 1

    @property
    def told(self) -> bool:
        return self._page[_STOP] == 1

    def opened(self) -> None:
        """The job has opened a checkpoint."""
        self._page[_OPENED] = 1

    def next_job(self) -> None:
        self._page[_OPENED] = 0

    @property
    def has_opened(self) -> bool:
        return self._page[_OPENED] == 1
