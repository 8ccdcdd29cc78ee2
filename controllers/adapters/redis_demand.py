"""Demand read from Redis: each framework's queues by one script, in chunks, over one connection.

Whatever goes wrong becomes an `Unknown` with its reason and is never retried here; after trouble the next tries are
spaced by up to two seconds, so that a frozen server does not make every turn wait for a timeout. Commands are packed
once and replies read raw, because packing ten thousand names in Python takes longer than Redis takes to answer.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast

from redis import Redis
from redis.connection import AbstractConnection
from redis.exceptions import NoScriptError, RedisError, ResponseError

from controllers.adapters.backend import Backend
from controllers.adapters.celery_backend import CELERY
from controllers.adapters.list_backend import LIST
from controllers.adapters.redis_connection import explain
from controllers.adapters.rq_backend import RQ
from controllers.adapters.trust import Trust, idle_hosts
from controllers.ports import Known, PoolName, Reading, Unknown, Untrusted
from ebbtide.vocabulary.controller_config import ControllerConfig

BACKENDS: Mapping[str, Backend] = {backend.kind: backend for backend in (CELERY, LIST, RQ)}
_REFUSED: Mapping[str, str] = {
    "celery-early-ack": "a running task is in no key of Redis then; set task_acks_late and use the kind celery",
    "huey": "a running task is in no key of Redis",
}

QUEUES_PER_CALL = 200  # keeps other clients' waits short
CALLS_AHEAD = 2  # sent before the first is read: the server is never idle, and never has a long row of them
LOOK_AHEAD = timedelta(seconds=60)  # scheduled jobs due so soon wake a worker, which alone can move them
LONGEST_PAUSE = 2.0  # seconds between two tries after trouble
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY: frozenset[str] = frozenset()
_NONE = timedelta()

Heard: TypeAlias = Callable[[datetime], None]
_Chunk: TypeAlias = tuple[tuple[PoolName, ...], Sequence[bytes]]  # whose each queue of the call is; the call


class UnknownSource(ValueError):
    """A pool's demand source is of a kind that cannot be read; the message says why."""


class RedisDemand:
    """One framework's pools. `heard` is told the server's time at each reading."""

    def __init__(
        self,
        connection: Redis,
        backend: Backend,
        queues_of: Mapping[PoolName, Sequence[str]],
        *,
        look_ahead: timedelta = LOOK_AHEAD,
        trust: Trust | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        heard: Heard = lambda _: None,
    ) -> None:
        self._connection, self._backend, self._queues_of = connection, backend, queues_of
        self._lead = str(int(look_ahead.total_seconds()))
        self._trust = Trust() if trust is None else trust
        self._monotonic, self._heard = monotonic, heard
        self._empty = Known(waiting=0, in_transit=0, running=0, names_idle=backend.names_idle)
        self._sha, self._command = "", "EVALSHA_RO"
        self._plan: tuple[Sequence[PoolName], Sequence[_Chunk]] = ((), ())
        self._trouble = (float("-inf"), Unknown(""))  # until when nothing is tried, and why
        self.calls = 0  # of the script, for the metrics

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        until, unknown = self._trouble
        if self._monotonic() < until:
            return dict.fromkeys(pools, unknown)
        try:
            return self._read(pools)
        except RedisError as error:
            unknown = Unknown(explain(error))
            self._trouble = (self._monotonic() + random.uniform(0, LONGEST_PAUSE), unknown)
            return dict.fromkeys(pools, unknown)

    def _read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        try:
            return self._ask(pools)
        except NoScriptError:
            self._sha = ""  # a restart or a failover has emptied the server's script cache
        except ResponseError as error:
            if self._command != "EVALSHA_RO" or "unknown command" not in str(error).lower():
                raise
            self._command, self._plan = "EVALSHA", ((), ())  # servers before version 7
        return self._ask(pools)

    def _ask(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        pools = tuple(pools)
        if not self._sha:
            self._sha, self._plan = str(self._connection.script_load(self._backend.script)), ((), ())
        at = self._monotonic()
        readings: dict[PoolName, Reading] = {}
        link = self._connection.connection_pool.get_connection()
        try:
            if self._plan[0] != pools:
                self._plan = (pools, tuple(self._chunks(pools, link)))
            chunks = self._plan[1]
            for number in range(len(chunks) + CALLS_AHEAD):
                if number < len(chunks):
                    link.send_packed_command(chunks[number][1])
                if number >= CALLS_AHEAD:
                    raw = cast("bytes", link.read_response(disable_decoding=True))
                    reply: Sequence[Any] = json.loads(raw.decode("utf-8", "replace"))
                    unfit = self._judge(chunks[number - CALLS_AHEAD][0], reply, at, readings)
                    if unfit:
                        link.disconnect()  # more answers are on their way; and a Sentinel is to be asked again
                        return dict.fromkeys(pools, Unknown(unfit))
        except BaseException:
            link.disconnect()  # answers to calls already sent must not meet the next question
            raise
        finally:
            self._connection.connection_pool.release(link)
        self.calls += len(chunks)
        return readings

    def _chunks(self, pools: Sequence[PoolName], link: AbstractConnection) -> Iterator[_Chunk]:
        """The first one also asks for the server; a pool's queues are never split."""
        start = size = 0
        for end, pool in enumerate(pools, 1):
            size += len(self._queues_of[pool])
            if end == len(pools) or size + len(self._queues_of[pools[end]]) > QUEUES_PER_CALL:
                asked = [(owner, queue) for owner in pools[start:end] for queue in self._queues_of[owner]]
                arguments = (self._sha, 0, self._lead, int(start == 0), *(queue for _, queue in asked))
                packed = cast("Sequence[bytes]", link.pack_command(self._command, *arguments))
                yield tuple(owner for owner, _ in asked), packed
                start, size = end, 0

    def _judge(
        self, owners: tuple[PoolName, ...], reply: Sequence[Any], at: float, readings: dict[PoolName, Reading]
    ) -> str:
        """Fill in the readings of one call; returns why this server's answers are no readings at all, or nothing."""
        now = _EPOCH + timedelta(seconds=reply[0], microseconds=reply[1])
        if reply[2]:
            identity, role, why, size = reply[2]
            self._heard(now)
            if role != "master":
                return "this Redis is a replica, which may be stale: wanted the primary"
            self._trust.see_server(identity, int(size), at)
            if why:
                return str(why)
        holding: dict[PoolName, list[Sequence[Any]]] = {}
        for place, entry in cast("Iterator[tuple[int, Sequence[Any]]]", zip(reply[3], reply[4], strict=True)):
            holding.setdefault(owners[place - 1], []).append(entry)
        asked = dict.fromkeys(owners, self._empty)
        readings.update(asked)
        doubtful = self._trust.concerned(asked.keys(), at)
        for pool in doubtful - holding.keys():
            readings[pool] = self._trusted(pool, self._empty, (), at)
        for pool, parts in holding.items():
            hosts: Sequence[tuple[str, bool]] = ()
            for part in parts:  # a worker at several of the pool's queues appears under each: the same words, twice
                if part[6]:
                    hosts = [*hosts, *zip(part[6][::2], part[6][1::2], strict=True)]
            known = self._known(pool, parts, hosts, now)
            readings[pool] = self._trusted(pool, known, hosts, at) if hosts or pool in doubtful else known
        for place, why in zip(reply[5][::2], reply[5][1::2], strict=True) if reply[5] else ():
            readings[owners[place - 1]] = Unknown(f"queue {why}")
        return ""

    def _trusted(self, pool: PoolName, known: Known, hosts: Sequence[tuple[str, bool]], at: float) -> Known | Untrusted:
        doubt = self._trust.doubts(pool, hosts, at)
        return known if doubt is None else Untrusted(doubt, known)

    def _known(
        self, pool: PoolName, parts: Sequence[Sequence[Any]], hosts: Sequence[tuple[str, bool]], now: datetime
    ) -> Known:
        waiting, in_transit, running, stale, due_soon, oldest, _, seen, *own = parts[0]
        wait = _age(oldest, now) if oldest else None
        if len(parts) > 1:
            waiting, in_transit, running, stale, due_soon = (sum(part[count] for part in parts) for count in range(5))
            wait = max((age for part in parts if (age := _age(part[5], now)) is not None), default=None)
            seen, own = any(part[7] for part in parts), [part[8] for part in parts if len(part) > 8]
        return Known(
            waiting=waiting,
            in_transit=in_transit,
            running=running,
            stale=stale,
            due_soon=due_soon,
            oldest_wait=wait,
            idle=idle_hosts(hosts) if hosts else _NOBODY,
            names_idle=all(own) if own else self._backend.names_idle,
            seen_before=seen == 1 or len(parts) < len(self._queues_of[pool]),
        )


def _age(oldest: str | float, now: datetime) -> timedelta | None:
    """None when it cannot be told: a deleted job has no time, and that is not an age of zero."""
    try:
        then = datetime.fromisoformat(oldest) if isinstance(oldest, str) else datetime.fromtimestamp(oldest, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    age = now - (then if then.tzinfo is not None else then.replace(tzinfo=UTC))
    return age if age > _NONE else _NONE  # the clock of whoever enqueued it may be ahead


class Demand:
    """Every pool is read by the source of its kind."""

    def __init__(self, sources: Mapping[RedisDemand, frozenset[PoolName]]) -> None:
        self._sources = sources

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        if len(self._sources) == 1:
            return next(iter(self._sources)).read(pools)
        readings: dict[PoolName, Reading] = {}
        for source, own in self._sources.items():
            readings |= source.read([pool for pool in pools if pool in own])
        return readings

    @property
    def calls(self) -> int:
        return sum(source.calls for source in self._sources)


def demand_sources(config: ControllerConfig, connect: Callable[[], Redis], *, heard: Heard = lambda _: None) -> Demand:
    """What reads all the config's pools, over one connection per kind. Raises `UnknownSource`."""
    sources: dict[RedisDemand, frozenset[PoolName]] = {}
    for backend in {pool.source: backend_of(pool.source) for pool in config.pools}.values():
        queues_of = {pool.name: pool.queues for pool in config.pools if pool.source == backend.kind}
        sources[RedisDemand(connect(), backend, queues_of, heard=heard)] = frozenset(queues_of)
    return Demand(sources)


def backend_of(kind: str) -> Backend:
    """Raises `UnknownSource` with the reason."""
    if kind not in BACKENDS:
        why = _REFUSED.get(kind, f"this release reads {', '.join(sorted(BACKENDS))}")
        raise UnknownSource(f"demand source {kind}: {why}")
    return BACKENDS[kind]


def prefixes_to_watch(config: ControllerConfig) -> tuple[str, ...]:
    """The key prefixes whose changes are news for some pool: what the listener wants."""
    return tuple(sorted({prefix for pool in config.pools for prefix in backend_of(pool.source).wakes(pool.queues)}))
