"""Notify the controller of published messages, since message brokers send no notification.

The key `ebbtide:published` is written after a message was published, and the controller, which tracks the key, asks the
broker at once. A thread writes, so that Redis never delays or fails a publish. A process that ends just after a publish
may end before the write. A lost notification costs a second, or up to 15 s on a quiet queue of SQS.

The key exists for `PAUSE`, and is not written while it exists: any number of producers cause at most 10 notifications a
second, and 10 more when the key expires, which cover messages that were published meanwhile.
"""

import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from redis import Redis
from redis.exceptions import RedisError

PUBLISHED = "ebbtide:published"
PAUSE = 0.1  # seconds between two writes of a process
RETRY = 2.0  # seconds until the next write after one has failed


class Published:
    """Writes the key after `publish()`. `connect` returns a client of the Redis for reports."""

    def __init__(self, connect: Callable[[], Redis]) -> None:
        self._connect = connect
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Set the initial state, also in a forked process: it has no threads, and its copy of the lock may be held."""
        self._starting = threading.Lock()
        self._is_started = False
        self._news: SimpleQueue[None] = SimpleQueue()  # `put` takes no lock

    def publish(self) -> None:
        """Write the key soon: at once, or at the end of the pause. Never waits."""
        with self._starting:
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._run, args=(self._news,), name="ebbtide-published", daemon=True).start()
        if self._news.empty():
            self._news.put(None)

    def _run(self, news: "SimpleQueue[None]") -> None:
        client: Redis | None = None
        while True:
            news.get()
            pause = PAUSE
            try:
                client = client or self._connect()
                client.set(PUBLISHED, "", nx=True, px=round(1000 * PAUSE))
            except (RedisError, OSError):
                client, pause = None, RETRY
            time.sleep(pause)
