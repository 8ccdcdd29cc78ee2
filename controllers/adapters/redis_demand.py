"""Demand read from Redis: each framework's queues by one script, in chunks, over one connection.

Every fault becomes an `Unknown` with a reason. After it no read is tried for up to two seconds, so that a frozen server
does not make every reconcile wait for a timeout. Commands are packed once, because packing ten thousand names in Python
takes longer than Redis takes to answer.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeAlias, cast

from redis import Redis
from redis.connection import AbstractConnection
from redis.exceptions import NoScriptError, RedisError, ResponseError

from controllers.adapters.backend import Backend
from controllers.adapters.celery_backend import CELERY, celery
from controllers.adapters.list_backend import LIST
from controllers.adapters.redis_connection import explain
from controllers.adapters.rq_backend import RQ
from controllers.adapters.trust import Trust
from controllers.ports import Known, PoolName, Reading, Unknown, Untrusted
from ebbtide.vocabulary.controller_config import CeleryKeys, ControllerConfig, PoolPolicy

BACKENDS: Mapping[str, Backend] = {backend.kind: backend for backend in (CELERY, LIST, RQ)}
_REFUSED: Mapping[str, str] = {
    "celery-early-ack": "a running task is in no key of Redis then; set task_acks_late and use the kind celery",
    "huey": "a running task is in no key of Redis",
}

QUEUES_PER_CALL = 200  # so that other clients wait only briefly
CALLS_AHEAD = 2  # calls sent before the first reply is read: the server is never idle, and its queue stays short
LONGEST_PAUSE = 2.0  # seconds between two tries after an error
_NONE = timedelta()
_EMPTY = Known(waiting=0, in_transit=0, running=0)

OnTime: TypeAlias = Callable[[datetime], None]
_Chunk: TypeAlias = tuple[Sequence[PoolName], Sequence[bytes]]  # the pool of each queue in the call; the packed call
_Row: TypeAlias = Sequence[Any]  # a queue's row as `backend` describes it, or the sum of several rows
_NOTHING: _Row = (*(0,) * 7, "", ())


class UnknownSource(ValueError):
    """This release cannot read the kind of a pool's demand source; the message has the reason."""


@dataclass
class RedisDemand:
    """Reads one framework's pools. `on_time` receives the server's time; `policies` are compared with reports."""

    connection: Redis
    backend: Backend
    queues_of: Mapping[PoolName, Sequence[str]]
    policies: Mapping[PoolName, PoolPolicy] = field(default_factory=dict[PoolName, PoolPolicy])
    trust: Trust = field(default_factory=Trust)
    monotonic: Callable[[], float] = time.monotonic
    on_time: OnTime = lambda _: None
    calls: int = field(default=0, init=False)  # calls of the script, for the metrics
    _sha: str = field(default="", init=False)
    _command: str = field(default="EVALSHA_RO", init=False)
    _plan: tuple[Sequence[PoolName], Sequence[_Chunk]] = field(default=((), ()), init=False)
    _trouble: tuple[float, str] = field(default=(float("-inf"), ""), init=False)  # no read is tried until then; reason

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        if self.monotonic() >= self._trouble[0]:
            try:
                return self._read(tuple(pools))
            except RedisError as error:
                self._trouble = (self.monotonic() + random.uniform(0, LONGEST_PAUSE), explain(error))
        return dict.fromkeys(pools, Unknown(self._trouble[1]))

    def _read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        try:
            return self._ask(pools)
        except NoScriptError:
            pass  # a restart or a failover has emptied the server's script cache
        except ResponseError as error:
            if "unknown command" not in str(error).lower():
                raise
            self._command = "EVALSHA"  # servers before version 7
        self._sha = ""
        return self._ask(pools)

    def _ask(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        if not self._sha:
            self._sha, self._plan = str(self.connection.script_load(self.backend.script)), ((), ())
        at = self.monotonic()
        readings: dict[PoolName, Reading] = {}
        link = self.connection.connection_pool.get_connection()
        try:
            if self._plan[0] != pools:
                self._plan = (pools, tuple(self._chunks(pools, link)))
            chunks = self._plan[1]
            for number in range(len(chunks) + CALLS_AHEAD):
                if number < len(chunks):
                    link.send_packed_command(chunks[number][1])
                if number >= CALLS_AHEAD:
                    raw = cast("bytes", link.read_response(disable_decoding=True))
                    reply = json.loads(raw.decode("utf-8", "replace"))
                    readings |= self._judge(chunks[number - CALLS_AHEAD][0], reply, at)
        except BaseException:
            link.disconnect()  # pending replies must not answer the next call; Sentinels must be queried again
            raise
        finally:
            self.connection.connection_pool.release(link)
        self.calls += len(chunks)
        return readings

    def _chunks(self, pools: Sequence[PoolName], link: AbstractConnection) -> Iterator[_Chunk]:
        """Yield the calls: the first one also describes the server; a pool's queues are never split between calls."""
        chunks: list[list[tuple[PoolName, str]]] = [[]]
        count = 0
        for pool in pools:
            queues = self.queues_of[pool]
            if chunks[-1] and count + len(queues) > QUEUES_PER_CALL:
                chunks.append([])
                count = 0
            chunks[-1] += [(pool, queue) for queue in ([" ".join(queues)] if self.backend.pool_at_once else queues)]
            count += len(queues)
        for number, chunk in enumerate(chunks):
            arguments = (self._sha, 0, int(number == 0), *(queue for _, queue in chunk))
            yield tuple(owner for owner, _ in chunk), link.pack_command(self._command, *arguments)

    def _judge(self, owners: Sequence[PoolName], reply: Sequence[Any], at: float) -> dict[PoolName, Reading]:
        """Return the readings of one call. Raises `RedisError` if the server's answers cannot be used."""
        seconds, microseconds, server, places, rows, failures, texts = reply
        now = datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds)
        if server:
            identity, role, why, size = server
            self.on_time(now)
            if role != "master":
                raise RedisError("this Redis is a replica, which may be stale: wanted the primary")
            self.trust.observe_server(identity, int(size), at)
            if why:
                raise RedisError(why)
        readings: dict[PoolName, Reading] = dict.fromkeys(owners, _EMPTY)
        doubtful = self.trust.concerned(readings.keys(), at)
        held: dict[PoolName, list[_Row]] = {}
        for place, row in cast("Iterator[tuple[int, _Row]]", zip(places, rows, strict=True)):
            held.setdefault(owners[place - 1], []).append(row)
        for pool, pool_rows in ({pool: [_NOTHING] for pool in doubtful} | held).items():
            row = pool_rows[0] if len(pool_rows) == 1 else _sum(pool_rows)
            hosts: Sequence[tuple[str, bool]] = [*zip(row[8][::2], row[8][1::2], strict=True)] if row[8] else ()
            counts = self._counts(pool, row, hosts, now)
            doubt = self.trust.doubts(pool, hosts, at) if hosts or pool in doubtful else None
            if len(row) > len(_NOTHING):
                row_doubt, counts = self._compared(pool, row, counts, texts)
                doubt = doubt or row_doubt
            readings[pool] = Untrusted(doubt, counts) if doubt else counts
        failed = cast("Sequence[tuple[int, str]]", failures)
        return readings | {owners[place - 1]: Unknown(why) for place, why in failed}

    def _compared(self, pool: PoolName, row: _Row, counts: Known, texts: Sequence[str]) -> tuple[str, Known]:
        """Return why the row is in doubt, by itself or compared with the pool, and the counts with the warnings."""
        doubt, reports = row[len(_NOTHING) :]
        if pool not in self.policies:
            return doubt, counts
        told = [texts[int(number) - 1] for number in reports or ()]
        contradiction, warning = self.backend.contradicts(told, self.policies[pool])
        return "; ".join(filter(None, (contradiction, doubt))), replace(counts, warning=warning) if warning else counts

    def _counts(self, pool: PoolName, row: _Row, hosts: Sequence[tuple[str, bool]], now: datetime) -> Known:
        waiting, in_transit, running, stale, due_soon, never_used, blind, oldest = row[:8]
        return Known(
            waiting=waiting,
            in_transit=in_transit,
            running=running,
            stale=stale,
            due_soon=due_soon,
            oldest_wait=_age(oldest, now),
            idle=self.trust.idle_hosts(pool, hosts) if hosts else frozenset(),
            names_idle=not blind,
            seen_before=never_used < len(self.queues_of[pool]),
        )


def _sum(rows: Sequence[_Row]) -> _Row:
    """Add up the rows of a pool's queues. There may be hundreds; a worker of several queues appears in each row."""
    counts = map(sum, zip(*(row[:7] for row in rows), strict=True))
    oldest = min((row[7] for row in rows if row[7]), default="")
    reporting = [row for row in rows if len(row) > len(_NOTHING)]
    doubt = "; ".join(row[9] for row in reporting if row[9])
    reports = [*dict.fromkeys(report for row in reporting for report in row[10])]
    return (*counts, oldest, [word for row in rows for word in row[8]], doubt, reports)


def _age(oldest: str | float, now: datetime) -> timedelta | None:
    """Return the age, or None if it is unknown: a deleted job has no time, which does not mean an age of zero."""
    try:
        then = datetime.fromisoformat(oldest) if isinstance(oldest, str) else datetime.fromtimestamp(oldest, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    age = now - (then if then.tzinfo is not None else then.replace(tzinfo=UTC))
    return age if age > _NONE else _NONE  # the enqueuing client's clock may be ahead


class PoolSource(Protocol):
    """A demand source of some of the pools."""

    @property
    def queues_of(self) -> Mapping[PoolName, Sequence[str]]: ...
    @property
    def calls(self) -> int: ...
    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]: ...


@dataclass
class Demand:
    """Reads every pool from the source of its kind."""

    sources: Sequence[PoolSource]

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        readings: dict[PoolName, Reading] = {}
        for source in self.sources:
            readings |= source.read([pool for pool in pools if pool in source.queues_of])
        return readings

    @property
    def calls(self) -> int:
        return sum(source.calls for source in self.sources)


def demand_sources(
    config: ControllerConfig, connect: Callable[[], Redis], *, on_time: OnTime = lambda _: None
) -> Demand:
    """Return the reader of all pools in Redis, with one connection per kind and key layout. Raises `UnknownSource`."""
    return Demand(
        [
            RedisDemand(
                connect(), backend, {pool.name: pool.queues for pool in pools}, policies_of(pools), on_time=on_time
            )
            for backend, pools in by_backend(config)
        ]
    )


def policies_of(pools: Sequence[PoolPolicy]) -> Mapping[PoolName, PoolPolicy]:
    return {pool.name: pool for pool in pools}


def by_backend(config: ControllerConfig) -> Sequence[tuple[Backend, Sequence[PoolPolicy]]]:
    """Return each backend with the pools that its script reads. Raises `UnknownSource`."""
    groups: dict[tuple[str, CeleryKeys | None], list[PoolPolicy]] = {}
    for pool in config.pools:
        if pool.broker is None:
            groups.setdefault((pool.source, pool.celery), []).append(pool)
    return [(backend_of(kind, keys, config.node_startup), pools) for (kind, keys), pools in groups.items()]


def backend_of(kind: str, keys: CeleryKeys | None = None, node_startup: timedelta = _NONE) -> Backend:
    """Return the backend of a kind. Raises `UnknownSource` with the reason."""
    if kind not in BACKENDS:
        why = _REFUSED.get(kind, f"this release reads {', '.join(sorted(BACKENDS))}")
        raise UnknownSource(f"demand source {kind}: {why}")
    return celery(keys, node_startup) if kind == CELERY.kind else BACKENDS[kind]


def prefixes_to_watch(config: ControllerConfig) -> tuple[str, ...]:
    """Return the prefixes of keys whose changes affect a pool, for the listener."""
    prefixes = {
        prefix for backend, pools in by_backend(config) for pool in pools for prefix in backend.wakes(pool.queues)
    }
    return tuple(sorted(prefixes))
