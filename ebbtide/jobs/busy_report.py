"""Report idle workers, for frameworks whose Redis keys do not distinguish idle pods from busy ones.

Keys: per queue and worker a hash `ebbtide:worker:<queue>:<worker>` (hostname, state, heartbeat, facts of the framework)
that expires when the worker dies; per queue the set `ebbtide:workers:<queue>` of reporting workers. `ebbtide:queues`
lists every queue ever served; it only shrinks when the database is flushed.

Any framework's hooks can use this. `busy`, and `present` for facts that change, are called on each beat from a thread,
so they must be cheap and thread-safe. `connect` returns a client that adds no prefix to keys.
A worker without a report counts as busy: a missing report is never a reason to remove a pod.

Workers whose queues are not in Redis report to the Redis of `EBBTIDE_REDIS_URL` (`reports_client`).
"""

import logging
import os
import secrets
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

BEAT = 1.0  # seconds between heartbeats
PAUSE = 0.05  # seconds at least between two heartbeats: jobs may last less than a millisecond
LIFE = 15  # seconds without a heartbeat until the report expires
QUEUES = "ebbtide:queues"

IDLE, BUSY, STOPPING = "idle", "busy", "stopping"

REDIS_URL = "EBBTIDE_REDIS_URL"
"""Variable with the address of the Redis that gets the reports, for workers on another broker."""

_WAIT = 5.0  # seconds for one answer of that Redis

_log = logging.getLogger(__name__)


class NoReports(OSError):
    """The environment names no Redis for the reports."""


def reports_client(environment: Mapping[str, str]) -> Redis:
    """Return a client of the Redis for reports, not yet connected. Raises `NoReports`, or an error of the client's."""
    url = environment.get(REDIS_URL, "")
    if not url:
        raise NoReports(f"{REDIS_URL} is not set")
    try:
        return Redis.from_url(url, socket_timeout=_WAIT, socket_connect_timeout=_WAIT)
    except ValueError:
        raise NoReports(f"{REDIS_URL} is no address of a Redis") from None  # without the password


@dataclass(frozen=True, kw_only=True)
class Reporter:
    """The worker that reports. `hostname` is the pod's name; `worker` is unique among the workers of one pod.

    Containers of one pod have the same host name, and each may be process 1.
    """

    queues: Sequence[str]
    hostname: str = field(default_factory=socket.gethostname)
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(3)}")
    facts: Mapping[str, str | float] = field(default_factory=dict[str, str | float])


class BusyReport(threading.Thread):
    """Thread that reports. `connect` returns a client of the queues' database, and is called again after an error.

    `on_stop` is called in the thread, once, after `stopping()`: for work that a signal handler may not do.
    """

    def __init__(
        self,
        reporter: Reporter,
        connect: Callable[[], Redis],
        busy: Callable[[], bool],
        on_stop: Callable[[], object] = lambda: None,
        present: Callable[[], Mapping[str, str | int]] = dict[str, "str | int"],
    ) -> None:
        super().__init__(name="ebbtide-busy-report", daemon=True)
        self._reporter = reporter
        self._connect = connect
        self._busy = busy
        self._on_stop = on_stop
        self._present = present
        # Not an Event: setting one in a signal handler can deadlock with the interrupted code.
        self._news: SimpleQueue[None] = SimpleQueue()
        self._stopping = False
        self._over = False

    def changed(self) -> None:
        """Report now instead of at the next heartbeat, but not more often than each `PAUSE`."""
        if self._news.empty():
            self._news.put(None)

    def stopping(self) -> None:
        """Report that the worker takes no more jobs: not idle, since it exits by itself. Safe in a signal handler."""
        self._stopping = True
        self._news.put(None)

    def finish(self) -> None:
        """Delete the report and end the thread."""
        self._over = True
        self._news.put(None)
        self.join(timeout=5)

    def run(self) -> None:
        client: Redis | None = None
        stop_handled = is_lost = False
        while not self._over:
            if self._stopping and not stop_handled:
                stop_handled = True
                self._on_stop()
            try:
                if client is None:
                    client = self._connect()
                    self._remove_dead_workers(client)
                self._beat(client)
            except (RedisError, OSError) as error:
                client = None
                if not is_lost:
                    _log.warning("this worker's state is not reported, trying again: %s", error)
                is_lost = True
            else:
                if is_lost:
                    _log.warning("this worker's state is reported again")
                is_lost = False
            next_beat = time.monotonic() + PAUSE
            with suppress(Empty):
                self._news.get(timeout=BEAT)
            if not self._stopping:
                time.sleep(max(0.0, next_beat - time.monotonic()))
        self._leave(client)

    def _key(self, queue: str) -> str:
        return f"ebbtide:worker:{queue}:{self._reporter.worker}"

    def _beat(self, client: Redis) -> None:
        state = STOPPING if self._stopping else BUSY if self._busy() else IDLE
        fields: dict[Any, Any] = {
            "hostname": self._reporter.hostname,
            "state": state,
            "beat": time.time(),
            **self._reporter.facts,
            **self._present(),
        }
        with client.pipeline() as pipe:
            pipe.sadd(QUEUES, *self._reporter.queues)
            for queue in self._reporter.queues:
                pipe.hset(self._key(queue), mapping=fields)
                pipe.expire(self._key(queue), LIFE)
                pipe.sadd(f"ebbtide:workers:{queue}", self._reporter.worker)
            pipe.execute()

    def _leave(self, client: Redis | None) -> None:
        """Delete the report; `client` is None after a failed beat, but Redis may be back."""
        try:
            with (client or self._connect()).pipeline() as pipe:
                for queue in self._reporter.queues:
                    pipe.delete(self._key(queue))
                    pipe.srem(f"ebbtide:workers:{queue}", self._reporter.worker)
                pipe.execute()
        except (RedisError, OSError):
            return  # it expires by itself

    def _remove_dead_workers(self, client: Redis) -> None:
        for queue in self._reporter.queues:
            for member in client.smembers(f"ebbtide:workers:{queue}"):
                worker = member.decode(errors="replace") if isinstance(member, bytes) else str(member)
                if not client.exists(f"ebbtide:worker:{queue}:{worker}"):
                    client.srem(f"ebbtide:workers:{queue}", member)
