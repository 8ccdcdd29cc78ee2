"""End a worker's blocking pop from another thread, so that a signal handler only has to set a flag.

The server decides whether the wait ends empty or with a job: a popped job is in the reply and is not lost. Closing the
connection instead would lose it.
"""

import threading
from collections.abc import Callable
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import RedisError
from redis.retry import Retry

UNBLOCK_EVERY = 0.05  # seconds: the first request may come a moment before the pop blocks


class PopGate:
    """The connection on which a worker's pop blocks, and the permission to pop: without it, `stop` is raised."""

    def __init__(self, stop: type[Exception]) -> None:
        self._stop = stop
        self.closed = False
        self.client_id: int | None = None  # while it pops
        self.empty_handed = True  # holds no job

    def enter(self, connection: Redis) -> None:
        self.empty_handed = True
        self.client_id = connection.client_id()
        if self.closed:  # checked after the id is known: from then on the pop can be ended
            raise self._stop

    def leave(self, popped: Any) -> None:
        self.client_id = None
        self.empty_handed = popped is None


class Unblocker(threading.Thread):
    """Thread with its own connection, started early: a signal handler should not start a thread.

    `note` is called once with that connection, when a stop was requested.
    """

    def __init__(self, gate: PopGate, pool: ConnectionPool, note: Callable[[Redis], object]) -> None:
        super().__init__(name="ebbtide-unblocker", daemon=True)
        self._gate = gate
        self._note = note
        settings: dict[str, Any] = {**pool.connection_kwargs, "socket_timeout": 2, "retry": Retry(NoBackoff(), 0)}
        self._connection = Redis(connection_pool=ConnectionPool(pool.connection_class, **settings))
        self._asked = threading.Event()
        self._over = threading.Event()

    def ask(self) -> None:
        self._asked.set()

    def finish(self) -> None:
        self._over.set()
        self._asked.set()

    def run(self) -> None:
        self._asked.wait()
        noted = False
        while not self._over.wait(UNBLOCK_EVERY):
            client_id = self._gate.client_id
            try:
                if not noted:
                    noted = True
                    self._note(self._connection)
                if client_id is not None:
                    self._connection.client_unblock(client_id)
            except RedisError:
                continue  # then the pop fails too, and the worker checks the flag
        self._connection.close()
