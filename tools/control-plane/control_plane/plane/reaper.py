"""End the processes of its parent, however that ends: `python reaper.py FOLDER`, process ids on standard input.

The pipe closes with the parent, even after SIGKILL. A death signal set in the child would do the same on Linux, but it
follows the *thread* that started the child, and a hook between fork and exec warns in a program with threads. Standard
library only, so that it starts at once.
"""

import contextlib
import os
import shutil
import signal
import sys


def main(folder: str) -> None:
    alive: set[int] = set()
    for line in sys.stdin:  # "+123": started; "-123": ended and reaped, so that the id may be another's by now
        pid = int(line)
        if pid > 0:
            alive.add(pid)
        else:
            alive.discard(-pid)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
