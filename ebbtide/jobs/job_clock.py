"""How long a job itself has run: its process writes the start, the parent reads it. Shared memory, not Redis."""

import mmap
import struct
import time

_SECONDS = struct.Struct("d")


class JobClock:
    """Created before the fork. Monotonic time is the same in both processes; zero means that the clock is stopped."""

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
