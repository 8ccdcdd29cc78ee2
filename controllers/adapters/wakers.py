"""Notifications from Redis about written keys, so that a queue is read soon after it changes.

An event is only a reason to read sooner: a lost event costs a resync interval, an extra one costs a reading. RESP3
carries replies and events on one connection, so that no second connection can fail unnoticed.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import cast

from redis import Redis
from redis.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError, TimeoutError  # noqa: A004 - the library's own name

LOOK = 0.2  # seconds until the listener notices that it was closed
SILENCE = 5.0  # seconds without an event until a ping, and then until the connection counts as dead
POLL, RETRY = 0.075, 60.0  # seconds between notifications without tracking, and until tracking is tried again
PUBLISHED = "ebbtide:published"  # key that producers on a message broker write: ebbtide/jobs/published.py
MOST_PREFIXES = 100  # the server compares each written key with each prefix


class TrackingListener:
    """Notifies when keys with these prefixes change, and when the connection is lost or made, since events may be lost.

    If Redis refuses tracking (too old, or a missing right), the listener notifies at a fixed interval and retries every
    `RETRY` seconds.
    """

    def __init__(self, connect: Callable[[], Redis], prefixes: Iterable[str], notify: Callable[[], None]) -> None:
        self._client, self._notify = connect(), notify
        self._options = [word for prefix in _covering(prefixes) for word in ("PREFIX", prefix)]
        self._mode = "down" if self._options else "nothing to watch"
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redis-tracking", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(timeout=1.0)

    def mode(self) -> str:
        """Return `tracking`, `polling`, `down`, or `nothing to watch`."""
        return self._mode

    def _run(self) -> None:
        while self._options and not self._closing.is_set():
            try:
                with self._client.client() as client:  # one dedicated connection
                    self._listen(cast("AbstractConnection", client.connection))
            except ResponseError:
                self._mode, until = "polling", time.monotonic() + RETRY
                while time.monotonic() < until and not self._closing.wait(POLL):
                    self._notify()
            except RedisError:
                self._mode = "down"
                self._notify()
                self._closing.wait(random.uniform(POLL, 2.0))
        self._client.close()

    def _listen(self, link: AbstractConnection) -> None:
        link.send_command("CLIENT", "TRACKING", "ON", "BCAST", *self._options)
        link.read_response()
        self._mode = "tracking"
        self._notify()
        heard, pinged = time.monotonic(), False
        while not self._closing.is_set():
            if link.can_read(timeout=LOOK):
                if link.read_response(push_request=True) != "PONG":
                    self._notify()
                heard, pinged = time.monotonic(), False
            elif time.monotonic() > heard + SILENCE:
                if pinged:
                    raise TimeoutError("no answer to a ping")
                link.send_command("PING", check_health=False)
                heard, pinged = time.monotonic(), True
        link.disconnect()  # otherwise Redis keeps sending events


def _covering(prefixes: Iterable[str]) -> list[str]:
    """Drop prefixes that another one covers, since the server refuses them. Replace too many by the empty prefix."""
    chosen: list[str] = []
    for prefix in sorted(prefixes):
        if not chosen or not prefix.startswith(chosen[-1]):
            chosen.append(prefix)
    return chosen if len(chosen) <= MOST_PREFIXES else [""]
