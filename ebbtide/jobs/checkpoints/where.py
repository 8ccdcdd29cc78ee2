"""Position of a job and state of its checkpoint, as one JSON object for `ebbtide why job`.

Reads only Redis keys, so that it works in a container without RQ. For jobs of Celery and of lists it knows only the
checkpoint: they have no record under their id.
"""

import base64
import binascii
import os
import time
import zlib
from collections.abc import Mapping
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from ebbtide.jobs.checkpoints.attempts import attempt_key
from ebbtide.jobs.checkpoints.errors import CheckpointError

_URLS = ("RQ_REDIS_URL", "CELERY_BROKER_URL", "REDIS_URL", "EBBTIDE_REDIS_URL")
_REDIS = ("redis://", "rediss://", "unix://")  # CELERY_BROKER_URL may name another broker
_WAIT = 5.0  # seconds for one answer of Redis
_LONGEST = 500  # characters of an error


def connect(environment: Mapping[str, str] = os.environ) -> Redis:
    """Return a client of the worker's Redis. Raises `CheckpointError` if the environment names none."""
    urls = {name: environment.get(name, "") for name in _URLS}
    if not urls["CELERY_BROKER_URL"].startswith(_REDIS):
        del urls["CELERY_BROKER_URL"]
    url = next(filter(None, urls.values()), "")
    if not url:
        raise CheckpointError(f"no Redis: wanted one of {', '.join(_URLS)}, for example redis://redis:6379/0")
    authority = environment.get("REDIS_CA_FILE")
    trusted = {"ssl_ca_certs": authority} if authority and url.startswith("rediss://") else {}
    try:
        return Redis.from_url(url, socket_timeout=_WAIT, socket_connect_timeout=_WAIT, **trusted)
    except ValueError as error:
        raise CheckpointError(f"no Redis: its address cannot be read: {error}") from None  # without the password


def where(connection: Redis, job: str) -> dict[str, Any]:
    """Return `rq`, the job's state in RQ, and `checkpoint`, the hash of its attempts; None for either if missing.

    Times are RFC 3339. Raises `CheckpointError` if Redis is unreachable.
    """
    try:
        return {"job": job, "rq": _in_rq(connection, job), "checkpoint": _hash(connection, attempt_key(job)) or None}
    except (RedisError, OSError) as error:
        raise CheckpointError(f"Redis cannot be asked: {error}") from error


def _in_rq(connection: Redis, job: str) -> dict[str, Any] | None:
    values: Any = connection.hmget(f"rq:job:{job}", ("status", "origin", "worker_name", "started_at", "ended_at"))
    status, queue, worker, started, ended = (_text(value) for value in values)
    if not queue:
        return None
    state: dict[str, Any] = {"status": status, "queue": queue}
    if status == "queued":
        index: Any = connection.lpos(f"rq:queue:{queue}", job)
        state |= {"position": None if index is None else index + 1, "waiting": connection.llen(f"rq:queue:{queue}")}
    elif status == "started":
        pod: Any = connection.hget(f"rq:worker:{worker}", "hostname")
        state |= {"worker": worker, "pod": _text(pod), "since": started, "silent": _is_silent(connection, queue, job)}
    elif ended:
        state |= {"ended": ended, "error": _last_error(connection, job)}
    return state


def _is_silent(connection: Redis, queue: str, job: str) -> bool:
    """Return True if no worker has sent a heartbeat for the job in time.

    The deadline in the queue's started jobs counts: RQ moves it with each heartbeat.
    """
    executions: Any = connection.zrange(f"rq:executions:{job}", 0, -1)
    deadlines: Any = [connection.zscore(f"rq:wip:{queue}", f"{job}:{_text(execution)}") for execution in executions]
    return all(deadline is None or deadline < time.time() for deadline in deadlines)


def _last_error(connection: Redis, job: str) -> str:
    """Return the last line of the job's error."""
    entries: Any = connection.xrevrange(f"rq:results:{job}", count=1)
    packed = entries[0][1].get(b"exc_string") if entries else None
    if not packed:
        return ""
    try:
        lines = zlib.decompress(base64.b64decode(packed)).decode(errors="replace").split("\n")
    except (binascii.Error, zlib.error):
        return ""
    return next((line.strip()[:_LONGEST] for line in reversed(lines) if line.strip()), "")


def _hash(connection: Redis, key: str) -> dict[str, str]:
    fields: Any = connection.hgetall(key)
    return {_text(name): _text(value) for name, value in fields.items()}


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")
