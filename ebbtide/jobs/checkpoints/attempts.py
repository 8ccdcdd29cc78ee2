"""The valid attempt of a job, in Redis: one hash per job, `ebbtide:attempt:<job>`.

    token      the newest attempt's number; it rises with each attempt and each return of the job to its queue, so an
               attempt with another number is superseded
    deaths     hard ends of attempts since the last checkpoint
    running    the attempt that has begun and not ended in order, for workers that do not see each other's ends: if it
               is still set when the next attempt begins, the former has ended hard
    step, saved, problem   the last checkpoint, for people

If Redis loses the hash, the numbers start again above the greatest in the checkpoints' store.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import RedisError
from redis.retry import Retry

from ebbtide.jobs.checkpoints.errors import CheckpointError, Superseded

LIFE = 90 * 24 * 3600  # seconds after the last write until a job is forgotten
MOST_DEATHS = 3

# KEYS: the job's hash; the key that holds running jobs. ARGV: the number to exceed, LIFE, the job's entry in that key,
# the limit of hard ends without a new checkpoint (0: the worker counts them itself), and this attempt's number from an
# earlier try ('' for none). Reply: the new number; 0 if the entry is gone, since the job was given to another worker;
# -1 if the job has ended hard too often (its deaths are cleared).
_CLAIM = """
local kind = redis.call('TYPE', KEYS[2]).ok
local held = false
if kind == 'zset' then held = redis.call('ZSCORE', KEYS[2], ARGV[3])
elseif kind == 'list' then held = redis.call('LPOS', KEYS[2], ARGV[3])
elseif kind == 'hash' then held = redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 end
if not held then return 0 end
local most = tonumber(ARGV[4])
if most > 0 then
  local before = redis.call('HGET', KEYS[1], 'running')
  if before and before ~= ARGV[5] and redis.call('HINCRBY', KEYS[1], 'deaths', 1) >= most then
    redis.call('HDEL', KEYS[1], 'running', 'deaths')
    return -1
  end
end
local token = math.max(tonumber(redis.call('HGET', KEYS[1], 'token') or 0), tonumber(ARGV[1])) + 1
redis.call('HSET', KEYS[1], 'token', token)
if most > 0 then redis.call('HSET', KEYS[1], 'running', token) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return token
"""

# KEYS: the job's hash. ARGV: the limit of hard ends, LIFE. Reply: 1 if the job is below the limit, else 0.
_DIED = """
redis.call('HDEL', KEYS[1], 'running')
if redis.call('HINCRBY', KEYS[1], 'deaths', 1) >= tonumber(ARGV[1]) then
  redis.call('HDEL', KEYS[1], 'deaths')
  return 0
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""

# KEYS: the job's hash. ARGV: the attempt.
_END = "if redis.call('HGET', KEYS[1], 'running') == ARGV[1] then redis.call('HDEL', KEYS[1], 'running') end"


@dataclass(frozen=True, slots=True)
class Hold:
    """Entry of Redis that gives a worker the job: a member of a sorted set, a list's entry or a hash's field."""

    key: str
    member: str | bytes


def attempt_key(job: str) -> str:
    return f"ebbtide:attempt:{job}"


def claim(connection: Redis, job: str, at_least: int, hold: Hold, most: int = 0, already: int | None = None) -> int:
    """Return the number of this attempt; `already` is its number from an earlier try.

    Raises `Superseded` if the worker has lost the job, `CheckpointError` if `most` attempts have ended hard since the
    last checkpoint.
    """
    arguments = (at_least, LIFE, hold.member, most, already or "")
    reply = connection.eval(_CLAIM, 2, attempt_key(job), hold.key, *arguments)  # pyright: ignore[reportArgumentType] - bytes are sent as they are
    token = cast("int", reply)
    if token == 0:
        raise Superseded(f"job {job} was given to another worker")
    if token < 0:
        raise CheckpointError(hopeless(job))
    return token


def raise_if_superseded(job: str, token: int, newest: bytes | None) -> None:
    """Compare with `newest`, the present `token`; None if Redis has forgotten it, and then no attempt is newer."""
    if newest is not None and int(newest) != token:
        raise Superseded(f"attempt {token} of job {job} is over, {int(newest)} is the newest")


def hopeless(job: str) -> str:
    return f"job {job} ended hard {MOST_DEATHS} times without a new checkpoint: out of memory, or its data"


def note(connection: Redis, job: str, progress: Mapping[str, str | int]) -> None:
    """Store the progress; a checkpoint clears the deaths, since the job makes progress."""
    fields: dict[Any, Any] = dict(progress)
    if progress.get("saved"):
        fields |= {"deaths": 0}
    try:
        connection.hset(attempt_key(job), mapping=fields)
    except (RedisError, OSError):
        return  # the next save repeats it


def end_in_order(connection: Redis, job: str, token: int) -> None:
    """Record that this attempt was not killed, however it ended. If Redis is unreachable it counts as killed."""
    with suppress(RedisError, OSError):
        connection.eval(_END, 1, attempt_key(job), token)  # pyright: ignore[reportArgumentType] - numbers are sent as text


def may_begin_again(connection: Redis, job: str, most: int) -> bool:
    """Count a hard end that a worker saw; return False if there were too many."""
    return bool(connection.eval(_DIED, 1, attempt_key(job), most, LIFE))  # pyright: ignore[reportArgumentType] - numbers are sent as text


def impatient(connection: Redis, timeout: float = 2.0) -> Redis:
    """Return a client of the same server that does not retry and never waits longer than `timeout` seconds."""
    pool = connection.connection_pool
    settings: dict[str, Any] = {
        **pool.connection_kwargs,
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
    }
    return Redis(connection_pool=ConnectionPool(pool.connection_class, **settings))
