"""Reads RQ's keys without importing RQ: its own counters clean up, and may retry or fail jobs, as they count.

One read-only script call per chunk of queues; whatever goes wrong becomes an `Unknown` with its reason, never a retry.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from redis import Redis
from redis.exceptions import NoScriptError, RedisError, ResponseError

from controllers.adapters.redis_connection import explain
from controllers.adapters.rq_script import SNAPSHOT, QueueSnapshot, Snapshot, parse
from controllers.adapters.trust import Trust, idle_hosts
from controllers.ports import Known, PoolName, Reading, Unknown, Untrusted

QUEUES_PER_CALL = 100  # keeps other clients' waits short
LOOK_AHEAD = timedelta(seconds=60)  # scheduled jobs due so soon wake a worker, which alone can move them


class RqDemand:
    """`connection` decodes responses; `queues_of` names each pool's queues."""

    def __init__(
        self,
        connection: Redis,
        queues_of: Mapping[PoolName, Sequence[str]],
        *,
        look_ahead: timedelta = LOOK_AHEAD,
        trust: Trust | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._queues_of = queues_of
        self._look_ahead = look_ahead
        self._trust = Trust() if trust is None else trust
        self._monotonic = monotonic
        self._sha: str | None = None
        self._command = "EVALSHA_RO"

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        readings: dict[PoolName, Reading] = {}
        try:
            for number, chunk in enumerate(self._chunks(pools)):
                queues = [queue for pool in chunk for queue in self._queues_of[pool]]
                snapshot = self._take(queues, describe=number == 0)
                readings.update(self._judge(chunk, snapshot))
        except RedisError as error:
            return dict.fromkeys(pools, Unknown(explain(error)))
        return readings

    def _chunks(self, pools: Sequence[PoolName]) -> Iterator[list[PoolName]]:
        chunk: list[PoolName] = []
        size = 0
        for pool in pools:
            more = len(self._queues_of[pool])
            if chunk and size + more > QUEUES_PER_CALL:
                yield chunk
                chunk, size = [], 0
            chunk.append(pool)
            size += more
        if chunk:
            yield chunk

    def _judge(self, pools: Sequence[PoolName], snapshot: Snapshot) -> Mapping[PoolName, Reading]:
        at = self._monotonic()
        if snapshot.server is not None:
            if not snapshot.server.is_primary:
                return dict.fromkeys(pools, Unknown("this Redis is a replica, which may be stale: wanted the primary"))
            self._trust.see_server(snapshot.server.identity, snapshot.queues_known, at)
        if snapshot.suspended:
            return dict.fromkeys(pools, Unknown("the workers are suspended (`rq suspend`)"))
        readings: dict[PoolName, Reading] = {}
        parts = iter(snapshot.queues)
        for pool in pools:
            queues = [(name, next(parts)) for name in self._queues_of[pool]]
            readings[pool] = self._reading(pool, queues, at)
        return readings

    def _reading(self, pool: PoolName, queues: Sequence[tuple[str, QueueSnapshot | str]], at: float) -> Reading:
        seen: list[QueueSnapshot] = []
        for name, part in queues:
            if isinstance(part, str):
                return Unknown(f"queue {name} could not be read: {part}")
            seen.append(part)
        # A worker that listens on several of the pool's queues appears under each: the same words, twice.
        workers = [worker for part in seen for worker in part.workers]
        waits = [part.oldest_wait for part in seen if part.oldest_wait is not None]
        known = Known(
            waiting=sum(part.waiting for part in seen),
            in_transit=sum(part.in_transit for part in seen),
            running=sum(part.running for part in seen),
            stale=sum(part.stale for part in seen),
            due_soon=sum(part.due_soon for part in seen),
            oldest_wait=max(waits, default=None),
            idle=idle_hosts(workers),
        )
        doubt = self._trust.doubts(pool, workers, at)
        return known if doubt is None else Untrusted(doubt, known)

    def _take(self, queues: Sequence[str], *, describe: bool) -> Snapshot:
        arguments = [str(int(self._look_ahead.total_seconds())), str(int(describe)), *queues]
        if self._sha is None:
            self._sha = self._connection.script_load(SNAPSHOT)
        try:
            reply = self._run(self._sha, arguments)
        except NoScriptError:  # a restart or a failover empties the server's script cache
            self._sha = self._connection.script_load(SNAPSHOT)
            reply = self._run(self._sha, arguments)
        return parse(reply)

    def _run(self, sha: str, arguments: Sequence[str]) -> Sequence[Any]:
        try:
            return cast("Sequence[Any]", self._connection.execute_command(self._command, sha, 0, *arguments))
        except ResponseError as error:
            if self._command == "EVALSHA_RO" and "unknown command" in str(error).lower():
                self._command = "EVALSHA"  # servers before version 7
                return self._run(sha, arguments)
            raise
