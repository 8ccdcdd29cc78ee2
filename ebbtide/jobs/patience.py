"""Retry policy that waits for Redis: while it is unavailable, full or failing over, no worker loses its job.

In RQ an error of any command ends the worker, and in a pod the container and the running job. With `Patience` as its
retry policy, a connection repeats each command until Redis accepts it, or until its owner ends the wait.

A command without a reply is sent again, so it may run twice. RQ's writes of a job's start and result tolerate that.
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

PAUSE = 1.0  # seconds between two tries, on average: workers must not all return at the same instant
LOG_EVERY = 60.0  # seconds between two log lines about the same outage

_log = logging.getLogger("rq.worker")  # RQ sets up its handlers
_T = TypeVar("_T")

# `OSError`: an older redis-py turns it into its own error only after the last retry.
_AWAY = (OSError, ConnectionError, TimeoutError, MasterDownError, OutOfMemoryError, ReadOnlyError)
# Recognized only by the message: a full disk, too few replicas, a script that blocks the server, a pop ended by a
# failover; and all of these when an entire transaction is refused.
_REFUSED = re.compile(r"(^|: )(BUSY|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|UNBLOCKED) ")


def is_outage(error: Exception) -> bool:
    """Return True if Redis may accept the same command later, with nothing changed on the client's side."""
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
    """Connection that asks the Sentinel before each retry; redis-py asks once and retries at the old address."""

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's signature
        if not self._sock:
            self.connect()
        super().send_packed_command(command, check_health)


class Patience(Retry):
    """Retries forever; `on_outage(error, seconds waited)` is called before each try, and may raise to end the wait."""

    def __init__(self, on_outage: Callable[[Exception, float], None] = lambda _error, _waited: None) -> None:
        super().__init__(NoBackoff(), 0)
        self._on_outage = on_outage
        self._has_connected = False
        self._away_since: float | None = None
        self._logged_at = 0.0

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self  # each connection copies its retry policy, and all of them share one outage

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
                if not self._is_temporary(error) or (is_retryable is not None and not is_retryable(error)):
                    raise
                failures += 1
                arguments = (error, failures) if with_failure_count else (error,)
                try:
                    self._wait(error, since)
                except BaseException:
                    with suppress(WatchError):  # redis-py would try the transaction again
                        fail(*arguments)
                    raise
                fail(*arguments)
            else:
                self._has_connected = True
                if failures:
                    self._end_outage()
                return done

    def _is_temporary(self, error: Exception) -> bool:
        # A password that never worked is a mistake; one that did may be in rotation.
        return is_outage(error) and (self._has_connected or not isinstance(error, AuthenticationError))

    def _wait(self, error: Exception, since: float) -> None:
        now = time.monotonic()
        self._on_outage(error, now - since)
        if self._away_since is None:
            self._away_since, self._logged_at = now, float("-inf")
        if now - self._logged_at >= LOG_EVERY:
            self._logged_at = now
            _log.warning("Redis cannot be used, waiting (%d s so far): %s", now - self._away_since, error)
        time.sleep(random.uniform(0.5, 1.5) * PAUSE)

    def _end_outage(self) -> None:
        if self._away_since is not None:
            _log.warning("Redis is back after %d s", time.monotonic() - self._away_since)
            self._away_since = None
