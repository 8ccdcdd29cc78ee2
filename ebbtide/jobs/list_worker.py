"""A scalable worker for a plain Redis list: `ListWorker(connection, "train", handle).run()`.

Producers `RPUSH` payloads. A worker moves the next payload to its own processing list in one command, so that the
payload is in exactly one key at every instant, and removes it when `handle` has returned. SIGTERM ends the wait through
the server; a payload that was already moved is handled to its end, then the worker exits. If `handle` raises, the
payload goes to `<queue>:failed`.

A payload whose `handle` opens a checkpoint pauses when the worker stops: its state is saved and it goes back to the
head of the queue. Its key is the member `id` of a JSON payload, or the result of `job_id`.

When a worker dies, its heartbeat expires and the others put the entries of its list back at the head of the queue, so a
payload may be handled twice. A worker that is frozen for longer than its heartbeat lives counts as dead.

While Redis is unavailable, full or failing over, a worker waits, without a limit, to remove the payload that it has
handled. When stopping, it exits after that, or at once if it has no payload.
"""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import RedisError
from redis.retry import Retry

from ebbtide.jobs.busy_report import QUEUES
from ebbtide.jobs.checkpoints.attempts import Hold
from ebbtide.jobs.checkpoints.environment import pool_checkpoints
from ebbtide.jobs.checkpoints.errors import NeverOpened, Paused, Superseded
from ebbtide.jobs.checkpoints.probe import await_store
from ebbtide.jobs.checkpoints.shared_memory import StopFlag
from ebbtide.jobs.last_chance import LastChance
from ebbtide.jobs.list_checkpoints import PUT_BACK, HandledPayload, id_in
from ebbtide.jobs.stop_signals import ends_fork
from ebbtide.jobs.unblocking import PopGate, Unblocker

POP_FOR = 5  # seconds
BEAT = 5.0
LIFE = 30  # seconds without a heartbeat until a consumer counts as dead
CLEAN_EVERY = 15.0
LAST_CHANCE = 10.0  # seconds that a consumer without a heartbeat has to send one: an outage expires all of them
RETRY = 1.0  # seconds after an error of Redis
LOG_EVERY = 60.0  # seconds between two log lines about an outage
ANSWER_WITHIN = 15.0  # seconds; longer than a pop

_log = logging.getLogger(__name__)

# ARGV: queue, the worker's own name, then the consumers whose entries go back to the queue if they are still dead, or
# are this worker itself. Reply: how many entries went back, then the names of the other dead consumers.
_CLEAN = """
local queue, given, reply = ARGV[1], {}, {0}
for i = 3, #ARGV do given[ARGV[i]] = true end
for _, consumer in ipairs(redis.call('SMEMBERS', queue .. ':consumers')) do
  local mine = consumer == ARGV[2]
  local dead = not mine and redis.call('EXISTS', queue .. ':consumer:' .. consumer) == 0
  if given[consumer] and (mine or dead) then
    local list = queue .. ':processing:' .. consumer
    while redis.call('LMOVE', list, queue, 'RIGHT', 'LEFT') do reply[1] = reply[1] + 1 end
    if dead then redis.call('SREM', queue .. ':consumers', consumer) end
  elseif dead then
    reply[#reply + 1] = consumer
  end
end
return reply
"""


class _Leave(Exception):
    """Raised when the worker must take no more payloads."""


class ListWorker:
    """One worker per pod, named by the host name. Pass `name` if several share a host."""

    def __init__(
        self,
        connection: Redis,
        queue: str,
        handle: Callable[[bytes], object],
        *,
        name: str | None = None,
        job_id: Callable[[bytes], str] | None = None,
    ) -> None:
        self._connection = _single_tries(connection)
        self._queue = queue
        self._handle = handle
        self._pid = os.getpid()
        self._host = socket.gethostname()
        self._name = name or self._host
        self._taken = f"{queue}:processing:{self._name}"
        self._alive = f"{queue}:consumer:{self._name}"
        self._job_id = job_id or id_in
        self._stop_flag = StopFlag()
        self._pool = pool_checkpoints()
        self._gate = PopGate(_Leave)
        self._unblocker = Unblocker(self._gate, connection.connection_pool, lambda _: None)
        self._over = threading.Event()
        self._doubt_until = 0.0
        self._look_at = 0.0
        self._chances = LastChance[str](LAST_CHANCE)
        self._log_from = 0.0

    def run(self) -> None:
        """Handle payloads until SIGTERM or SIGINT. Call it from the main thread."""
        self._unblocker.start()
        self._pid = os.getpid()  # the object may be older than a fork
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        if self._pool is not None:
            await_store(lambda: self._gate.closed)
        if self._joins():
            self._serve()
        self._unblocker.finish()

    def _serve(self) -> None:
        beating = threading.Thread(target=self._keep_beating, name="ebbtide-beat", daemon=True)
        beating.start()
        while not self._gate.closed:
            try:
                self._handle_next()
            except _Leave:
                break
            except RedisError as error:
                self._wait_after(error)
        self._over.set()
        beating.join()  # a heartbeat after `_leave` would announce a worker that has exited
        self._leave()

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        if not ends_fork(number, self._pid) and not self._gate.closed:
            self._gate.closed = True
            self._stop_flag.set()
            self._unblocker.ask()

    def _handle_next(self) -> None:
        if time.monotonic() < self._doubt_until:
            self._clean(self._name)
        payload = self._pop()
        if payload is not None:
            self._do(payload)

    def _pop(self) -> bytes | None:
        with self._connection.client() as single:
            self._gate.enter(single)
            payload: bytes | None = None
            try:
                payload = cast("bytes | None", single.blmove(self._queue, self._taken, POP_FOR, "LEFT", "RIGHT"))
            except RedisError:
                # The reply may be lost after the move; and a resumed server may still serve the old connection.
                self._doubt_until = time.monotonic() + 2 * POP_FOR
                raise
            finally:
                self._gate.leave(payload)
        return payload

    def _do(self, payload: bytes) -> None:
        job = HandledPayload(self._connection, payload, self._job_id, Hold(self._taken, payload), self._stop_flag)
        try:
            with job.running(self._pool):
                self._handle(payload)
        except Paused as why:
            _log.info("%s; it is at the head of %s", why, self._queue)
            self._until_done(lambda: self._put_back(payload))
        except Superseded as why:
            _log.warning("a payload of %s is left to its newer attempt: %s", self._queue, why)
        except NeverOpened as why:
            _log.error("%s; it is in %s:failed", why, self._queue)
            self._until_done(lambda: self._settle(payload, failed=True))
        except Exception:  # any error of a customer's code: the worker continues
            _log.exception("a payload of %s failed; it is in %s:failed", self._queue, self._queue)
            self._until_done(lambda: self._settle(payload, failed=True))
        else:
            self._until_done(lambda: self._settle(payload, failed=False))

    def _put_back(self, payload: bytes) -> None:
        self._connection.eval(PUT_BACK, 2, self._taken, self._queue, payload)  # pyright: ignore[reportArgumentType] - bytes are sent as they are

    def _settle(self, payload: bytes, *, failed: bool) -> None:
        with self._connection.pipeline() as pipe:
            pipe.lrem(self._taken, 1, payload)  # pyright: ignore[reportArgumentType] - bytes are sent as they are
            if failed:
                pipe.rpush(f"{self._queue}:failed", payload)
            removed = pipe.execute()[0]
        if not removed:
            _log.warning("a payload of %s was given to another worker meanwhile: it may be handled twice", self._queue)

    # --- heartbeat ------------------------------------------------------------------------------------------------

    def _joins(self) -> bool:
        while not self._gate.closed:
            try:
                self._beat()
                self._clean(self._name)
            except RedisError as error:
                self._wait_after(error)
            else:
                return True
        return False

    def _beat(self) -> None:
        with self._connection.pipeline() as pipe:
            pipe.sadd(QUEUES, self._queue)
            pipe.sadd(f"{self._queue}:consumers", self._name)
            pipe.set(self._alive, self._host, ex=LIFE)
            pipe.execute()

    def _keep_beating(self) -> None:
        while not self._over.wait(BEAT):
            try:
                self._beat()
                self._look_for_the_dead()
            except RedisError as error:
                self._chances.restart()
                _log.warning("no heartbeat for %s: %s", self._queue, error)

    def _look_for_the_dead(self) -> None:
        """Put the entries of dead consumers back; in the heartbeat's thread, since a payload may take hours."""
        now = time.monotonic()
        if now < self._look_at:
            return
        dead = self._clean()
        abandoned = self._chances.abandoned(dead, now, longest_gap=LAST_CHANCE + BEAT)
        if abandoned:
            self._clean(*abandoned)
        self._look_at = now + (LAST_CHANCE if dead else CLEAN_EVERY)

    def _clean(self, *consumers: str) -> list[str]:
        """Put the entries of these consumers back, if they are dead or this worker. Return the other dead ones."""
        back, *dead = cast("list[Any]", self._connection.eval(_CLEAN, 0, self._queue, self._name, *consumers))
        if back:
            _log.warning("put %s payloads of dead workers back on %s", back, self._queue)
        return [name.decode() if isinstance(name, bytes) else str(name) for name in dead]

    def _leave(self) -> None:
        try:
            with self._connection.pipeline() as pipe:
                pipe.delete(self._alive)
                if not self._connection.exists(self._taken):
                    pipe.srem(f"{self._queue}:consumers", self._name)
                pipe.execute()
        except RedisError:
            return  # the heartbeat expires by itself

    # --- outages --------------------------------------------------------------------------------------------------

    def _until_done(self, task: Callable[[], None]) -> None:
        """Retry even when stopping: a handled payload must not be handled again because Redis was unavailable."""
        while True:
            try:
                return task()
            except RedisError as error:
                self._wait_after(error)

    def _wait_after(self, error: RedisError) -> None:
        if time.monotonic() >= self._log_from:
            _log.warning("Redis cannot be used, trying again: %s", error)
            self._log_from = time.monotonic() + LOG_EVERY
        time.sleep(RETRY)


def _single_tries(connection: Redis) -> Redis:
    """Disable retries and set a timeout: a retried pop would take another payload, and could not be ended."""
    pool = connection.connection_pool
    settings: dict[str, Any] = {
        **pool.connection_kwargs,
        "socket_timeout": ANSWER_WITHIN,
        "retry": Retry(NoBackoff(), 0),
    }
    return Redis(connection_pool=ConnectionPool(pool.connection_class, **settings))
