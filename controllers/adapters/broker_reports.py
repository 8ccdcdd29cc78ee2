"""The reports of workers whose queues are in a message broker, read from Redis: which pods are idle.

`ebbtide.jobs.busy_report` describes the keys. Two round trips read the reports of all pools: each report is one key,
so no snapshot is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from redis import Redis
from redis.exceptions import RedisError

from controllers.adapters.broker_rules import Report, Reports
from controllers.adapters.celery_backend import contradictions
from controllers.adapters.redis_connection import explain
from controllers.ports import PoolName, Unknown
from ebbtide.vocabulary.controller_config import PoolPolicy

_FIELDS = ("hostname", "state", "beat", "active", "held", "received", "settings")
_LONGEST_SETTINGS = 4096
_QUEUES = "ebbtide:queues"


@dataclass
class ReportReader:
    """Reads the reports of these pools. After a fault no read is tried for `pause()` seconds: a frozen Redis must not
    make every reconcile wait.
    """

    connection: Redis
    pools: Mapping[PoolName, PoolPolicy]
    monotonic: Callable[[], float]
    pause: Callable[[], float]
    calls: int = field(default=0, init=False)
    _trouble: tuple[float, str] = field(default=(float("-inf"), ""), init=False)  # no read is tried until then; reason

    def read(self) -> Mapping[PoolName, Reports] | Unknown:
        if self.monotonic() >= self._trouble[0]:
            try:
                return self._read()
            except RedisError as error:
                self._trouble = (self.monotonic() + self.pause(), explain(error))
        return Unknown(self._trouble[1])

    def _read(self) -> Mapping[PoolName, Reports] | Unknown:
        queues = sorted({queue for pool in self.pools.values() for queue in pool.queues})
        with self.connection.pipeline(transaction=False) as pipe:
            pipe.info("server")
            pipe.info("replication")
            pipe.scard(_QUEUES)
            for queue in queues:
                pipe.sismember(_QUEUES, queue)
                pipe.smembers(f"ebbtide:workers:{queue}")
            server, replication, size, *answers = pipe.execute()
            self.calls += 1
            if replication.get("role") != "master":
                return Unknown("this Redis is a replica, which may be stale: wanted the primary")
            served = {queue for queue, is_served in zip(queues, answers[::2], strict=True) if is_served}
            places = [
                (queue, worker)
                for queue, workers in zip(queues, answers[1::2], strict=True)
                for worker in sorted(workers)
            ]
            for queue, worker in places:
                pipe.hmget(f"ebbtide:worker:{queue}:{worker}", _FIELDS)
            found = cast("list[list[str | None]]", pipe.execute()) if places else []
        identity = f"{server.get('run_id')} {replication.get('master_replid')}"
        rows = [(queue, worker, row) for (queue, worker), row in zip(places, found, strict=True) if row[0] is not None]
        return {
            name: self._reports(pool, [row for row in rows if row[0] in pool.queues], served, (identity, int(size)))
            for name, pool in self.pools.items()
        }

    def _reports(
        self,
        pool: PoolPolicy,
        rows: Sequence[tuple[str, str, Sequence[str | None]]],
        served: set[str],
        redis: tuple[str, int],
    ) -> Reports:
        """Return the reports of a pool; a worker of several queues reports under each of them, and counts once."""
        queues_of: dict[str, set[str]] = {}
        for queue, worker, _ in rows:
            queues_of.setdefault(worker, set()).add(queue)
        newest = {worker: row for _, worker, row in rows}
        settings = [row[-1] or "" for row in newest.values()]
        doubt, warning = contradictions([text for text in settings if 0 < len(text) <= _LONGEST_SETTINGS], pool)
        identity, size = redis
        return Reports(
            workers=[_report(worker, frozenset(queues_of[worker]), row) for worker, row in newest.items()],
            served=frozenset(served.intersection(pool.queues)),
            identity=identity,
            size=size,
            doubt=doubt,
            warning=warning,
        )


def _report(worker: str, queues: frozenset[str], row: Sequence[str | None]) -> Report:
    host, state, beat, active, held, received, _ = row
    return Report(
        worker=worker,
        host=host or "",
        queues=queues,
        idle=state == "idle",
        stopping=state == "stopping",
        active=int(state == "busy") if active is None else _number(active),
        held=_number(held),
        received=_number(received),
        beat=beat or "",
    )


def _number(text: str | None) -> int:
    """Return the number, or 0 if it is missing or not sensible: any client may write to Redis."""
    return int(text) if text is not None and text.isdecimal() and text.isascii() and len(text) < 10 else 0
