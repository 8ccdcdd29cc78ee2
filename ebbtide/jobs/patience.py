"""Commands that wait for Redis. Away, full or failing over for a while, it must not cost a worker its job.

RQ lets the error of any command end the worker, in a pod the container, and so the job that runs in it. With `Patience`
as its retry, a connection tries each command again until Redis takes it, or until its owner says that it is time to go.

What was sent and not answered is sent again, so it may be done twice. RQ's writes of a job's start and result bear it.
"""

import logging
import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,  # noqa: A004 - redis' own
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,  # noqa: A004
    WatchError,
)
from redis.retry import Retry
from redis.sentinel import SentinelManagedConnection

PAUSE = 1.0  # seconds between two tries, on average: a thousand workers shall not come back at the same instant
SAY_AGAIN = 60.0  # seconds between two lines about the same outage

_log = logging.getLogger("rq.worker")  # whose handlers RQ sets up
_T = TypeVar("_T")

# `OSError` as an older redis-py connects: it gives that its own name only once it is not tried again.
_AWAY = (OSError, ConnectionError, TimeoutError, MasterDownError, OutOfMemoryError, ReadOnlyError)
# Told in words only: a full disk, too few replicas, a script that hogs the server, a pop ended by a failover; and all
# of these when a transaction is refused as a whole.
_REFUSED = re.compile(r"(^|: )(BUSY|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|UNBLOCKED) ")


def is_outage(error: Exception) -> bool:
    """Whether the same command may be taken later, with nothing changed on our side."""
    return isinstance(error, _AWAY) or (isinstance(error, RedisError) and _REFUSED.search(str(error)) is not None)


def make_patient(connection: Redis, patience: "Patience") -> None:
    connection.set_retry(patience)
    pool: Any = connection.connection_pool
    if issubclass(pool.connection_class, SentinelManagedConnection):
        if not issubclass(pool.connection_class, _AskingAgain):
            pool.connection_class = type("PatientConnection", (_AskingAgain, pool.connection_class), {})
        pool.disconnect()
        pool.reset()


class _AskingAgain(SentinelManagedConnection):
    """redis-py asks a Sentinel for a connection from the pool, but repeats a command at the address it failed at."""

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's signature
        if not self._sock:
            self.connect()
        super().send_packed_command(command, check_health)


class Patience(Retry):
    """`bear` is asked before each further try, with the error and the seconds waited: it raises what ends the wait."""

    def __init__(self, bear: Callable[[Exception, float], None] = lambda _error, _waited: None) -> None:
        super().__init__(NoBackoff(), 0)
        self._bear = bear
        self._met = False
        self._away_since: float | None = None
        self._said_at = 0.0

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self  # each connection makes a copy of its own, and all of them share the outage

    def call_with_retry(
        self,
        do: Callable[[], _T],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,  # noqa: FBT001, FBT002 - redis-py's signature
    ) -> _T:
        since, failures = time.monotonic(), 0
        while True:
            try:
                done = do()
            except (RedisError, OSError) as error:
                if not self._can_pass(error) or (is_retryable is not None and not is_retryable(error)):
                    raise
                failures += 1
                told = (error, failures) if with_failure_count else (error,)
                try:
                    self._wait(error, since)
                except BaseException:
                    with suppress(WatchError):  # would be an invitation to try the transaction again
                        fail(*told)
                    raise
                fail(*told)
            else:
                self._met = True
                if failures:
                    self._be_back()
                return done

    def _can_pass(self, error: Exception) -> bool:
        # A password that never worked is a mistake; one that did may just be changed for another.
        return is_outage(error) and (self._met or not isinstance(error, AuthenticationError))

    def _wait(self, error: Exception, since: float) -> None:
        now = time.monotonic()
        self._bear(error, now - since)
        if self._away_since is None:
            self._away_since, self._said_at = now, float("-inf")
        if now - self._said_at >= SAY_AGAIN:
            self._said_at = now
            _log.warning("Redis cannot be used, waiting (%d s so far): %s", now - self._away_since, error)
        time.sleep(random.uniform(0.5, 1.5) * PAUSE)

    def _be_back(self) -> None:
        if self._away_since is not None:
            _log.warning("Redis is back after %d s", time.monotonic() - self._away_since)
            self._away_since = None
