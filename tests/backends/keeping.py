"""Jobs with the pool's checkpoints, that do what their name says before they save one; numbers save at once."""

import os
import signal
import time

from doing import do
from redis import Redis

FAILS = 4  # times


def keep(name: str, seconds: float) -> None:
    from ebbtide.jobs import checkpoint

    if name.isdigit():
        with checkpoint() as saved:
            saved.save({})
            do(name, seconds)
        return
    do(name, 0)
    if name == "waits":
        time.sleep(seconds)
    if name == "dies-early":
        os.kill(os.getpid(), signal.SIGKILL)
    with checkpoint() as saved:
        if name == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "fails" and _begun(name) <= FAILS:
            raise ValueError("not yet")
        saved.save({})
    do(f"{name} all", 0)


def _begun(name: str) -> int:
    with Redis.from_url(os.environ["TEST_REDIS"]) as client:
        names: list[bytes] = client.lrange("test:begun", 0, -1)  # pyright: ignore[reportAssignmentType] - bytes client
    return names.count(name.encode())
