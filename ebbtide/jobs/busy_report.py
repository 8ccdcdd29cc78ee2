"""What a worker says of itself, for frameworks whose Redis keys cannot tell an idle pod from a busy one.

Per queue a hash `ebbtide:worker:<queue>:<worker>` (hostname, state, beat and facts of the framework) that expires when
its worker dies, and the set `ebbtide:workers:<queue>` of those that report. `ebbtide:queues` keeps every queue ever
served: it only shrinks when the database was flushed.

Any framework's hooks can call this: `busy` is asked on each beat, from a thread, so it must be cheap and safe there.
A worker that cannot report is taken for busy: silence is never a reason to remove a pod.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

BEAT = 1.0  # seconds
LIFE = 15  # seconds without a beat until the report is gone
QUEUES = "ebbtide:queues"

IDLE, BUSY, STOPPING = "idle", "busy", "stopping"


@dataclass(frozen=True, kw_only=True)
class Reporter:
    """Who reports. `hostname` is the pod's name; `worker` tells several workers of one pod apart."""

    queues: Sequence[str]
    hostname: str = field(default_factory=socket.gethostname)
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}.{os.getpid()}")
    facts: Mapping[str, str | float] = field(default_factory=dict[str, str | float])


class BusyReport(threading.Thread):
    """`connect` gives a client of the database that holds the queues; called in the thread, and again after trouble.

    `on_stop` is called there as well, once, after `stopping()`: for what a signal handler may not do itself.
    """

    def __init__(
        self,
        reporter: Reporter,
        connect: Callable[[], Redis],
        busy: Callable[[], bool],
        on_stop: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(name="ebbtide-busy-report", daemon=True)
        self._reporter = reporter
        self._connect = connect
        self._busy = busy
        self._on_stop = on_stop
        # Not an Event: setting one in a signal handler may wait for ever for the code that the signal interrupted.
        self._news: SimpleQueue[None] = SimpleQueue()
        self._stopping = False
        self._over = False

    def changed(self) -> None:
        """Report soon instead of at the next beat."""
        self._news.put(None)

    def stopping(self) -> None:
        """From now on the worker takes nothing; it is not idle, for it leaves by itself. Safe in a signal handler."""
        self._stopping = True
        self._news.put(None)

    def finish(self) -> None:
        """Take the report back and end the thread."""
        self._over = True
        self._news.put(None)
        self.join(timeout=5)

    def run(self) -> None:
        client: Redis | None = None
        told = False
        while not self._over:
            if self._stopping and not told:
                told = True
                self._on_stop()
            try:
                if client is None:
                    client = self._connect()
                    self._forget_the_dead(client)
                self._beat(client)
            except (RedisError, OSError):
                client = None
            with suppress(Empty):
                self._news.get(timeout=BEAT)
        if client is not None:
            self._leave(client)

    def _key(self, queue: str) -> str:
        return f"ebbtide:worker:{queue}:{self._reporter.worker}"

    def _beat(self, client: Redis) -> None:
        state = STOPPING if self._stopping else BUSY if self._busy() else IDLE
        words: dict[Any, Any] = {
            "hostname": self._reporter.hostname,
            "state": state,
            "beat": time.time(),
            **self._reporter.facts,
        }
        with client.pipeline() as pipe:
            pipe.sadd(QUEUES, *self._reporter.queues)
            for queue in self._reporter.queues:
                pipe.hset(self._key(queue), mapping=words)
                pipe.expire(self._key(queue), LIFE)
                pipe.sadd(f"ebbtide:workers:{queue}", self._reporter.worker)
            pipe.execute()

    def _leave(self, client: Redis) -> None:
        try:
            with client.pipeline() as pipe:
                for queue in self._reporter.queues:
                    pipe.delete(self._key(queue))
                    pipe.srem(f"ebbtide:workers:{queue}", self._reporter.worker)
                pipe.execute()
        except (RedisError, OSError):
            return  # it expires by itself

    def _forget_the_dead(self, client: Redis) -> None:
        for queue in self._reporter.queues:
            for member in client.smembers(f"ebbtide:workers:{queue}"):
                worker = member.decode() if isinstance(member, bytes) else str(member)
                if not client.exists(f"ebbtide:worker:{queue}:{worker}"):
                    client.srem(f"ebbtide:workers:{queue}", worker)
