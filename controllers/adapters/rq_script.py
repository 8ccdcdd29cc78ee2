"""The read-only script that takes the snapshot, and its reply as values. Key layout: docs/queues.md.

One call reads whole queues at one instant: a job on its way from list to registry is in exactly one place of the reply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

# ARGV: look-ahead in seconds, "1" to describe the server, then queue names.
# Reply: {time, server facts or false, suspended, queues known, then per queue a table or an error text}.
SNAPSHOT = """
local stuck_after = 60  -- RQ's own patience with the intermediate list
local time = redis.call('TIME')
local now = tonumber(time[1])
local lead = tonumber(ARGV[1])

local function ask(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then error({text = reply.err}) end
  return reply
end

local function stuck(key)
  local count = 0
  for _, id in ipairs(ask('LRANGE', key, 0, 99)) do
    local seen = ask('GET', key .. ':first_seen:' .. id)
    if seen and now - tonumber(seen) > stuck_after then count = count + 1 end
  end
  return count
end

local function oldest(key)
  local id = ask('LINDEX', key, 0)
  return id and ask('HGET', 'rq:job:' .. id, 'enqueued_at') or ''
end

local function hosts(name)
  local workers = {}
  for _, key in ipairs(ask('SMEMBERS', 'rq:workers:' .. name)) do
    local worker = ask('HMGET', key, 'hostname', 'state', 'current_job')
    if worker[1] then
      local idle = worker[2] == 'idle' and not (worker[3] and worker[3] ~= '')
      workers[#workers + 1] = worker[1]
      workers[#workers + 1] = idle and 1 or 0
    end
  end
  return workers
end

local function queue(name)
  local list = 'rq:queue:' .. name
  local transit = list .. ':intermediate'
  local wip = 'rq:wip:' .. name
  local waiting = ask('LLEN', list)
  local popped = ask('LLEN', transit)
  local lost = popped > 0 and stuck(transit) or 0
  return {
    waiting, popped - lost, ask('ZCOUNT', wip, now, '+inf'), ask('ZCOUNT', wip, '-inf', '(' .. now) + lost,
    ask('ZCOUNT', 'rq:scheduled:' .. name, '-inf', now + lead), waiting > 0 and oldest(list) or '', hosts(name)
  }
end

local server = false
if ARGV[2] == '1' then server = redis.call('INFO', 'server') .. redis.call('INFO', 'replication') end
local reply = {time, server, redis.call('EXISTS', 'rq:suspended'), redis.call('SCARD', 'rq:queues')}
for i = 3, #ARGV do
  local good, result = pcall(queue, ARGV[i])
  if not good then result = type(result) == 'table' and (result.text or result.err) or tostring(result) end
  reply[#reply + 1] = result
end
return reply
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    waiting: int
    in_transit: int
    running: int
    stale: int
    due_soon: int
    oldest_wait: timedelta | None
    workers: tuple[tuple[str, bool], ...]  # host and whether its worker says idle, one entry per worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    identity: str  # changes with a restart and with a failover
    is_primary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    server: ServerFacts | None
    suspended: bool
    queues_known: int  # size of RQ's own register of queues; it never shrinks by itself
    queues: tuple[QueueSnapshot | str, ...]  # a text says why that queue could not be read


def parse(reply: Sequence[Any]) -> Snapshot:
    """Turn the script's reply (decoded text) into values."""
    (seconds, micros), server, suspended, queues_known = reply[:4]
    now = datetime.fromtimestamp(int(seconds), UTC) + timedelta(microseconds=int(micros))
    return Snapshot(
        server=_facts(server) if server else None,
        suspended=bool(suspended),
        queues_known=int(queues_known),
        queues=tuple(entry if isinstance(entry, str) else _queue(entry, now) for entry in reply[4:]),
    )


def _queue(entry: Sequence[Any], now: datetime) -> QueueSnapshot:
    waiting, in_transit, running, stale, due_soon, enqueued_at, hosts = entry
    return QueueSnapshot(
        waiting=waiting,
        in_transit=in_transit,
        running=running,
        stale=stale,
        due_soon=due_soon,
        oldest_wait=_age(enqueued_at, now),
        workers=tuple((host, bool(idle)) for host, idle in zip(hosts[::2], hosts[1::2], strict=True)),
    )


def _age(enqueued_at: str, now: datetime) -> timedelta | None:
    """None when it cannot be told: a deleted job has no time, and that is not an age of zero."""
    try:
        then = datetime.fromisoformat(enqueued_at)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(timedelta(), now - then)


def _facts(info: str) -> ServerFacts:
    facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    return ServerFacts(
        identity=f"{facts.get('run_id', '')} {facts.get('master_replid', '')}",
        is_primary=facts.get("role") == "master",
    )
