"""Celery's keys, read without Celery: only late acknowledgement, since other running tasks are in no key of Redis.

`unacked` contains the delivered messages of all queues; an entry ends in exchange and routing key, which identify the
message's queue. Only the report of `ebbtide.jobs.celery_worker` distinguishes pods and contains the visibility timeout;
without the report no message counts as stale.

A pool's queues are read together: a worker that serves several queues reports under each of them, and counts once.

If a worker holds a task without running it (because it is due later, or behind another task), no other worker can take
the task. Such a task keeps its worker, which does not report idle, and needs no additional worker.

A message that was just delivered and that no report explains is in transit: it is in a worker that still reports idle.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from controllers.adapters.backend import Backend
from controllers.adapters.worker_reports import duration, number, other_queues, parsed, unsafe_stop
from ebbtide.vocabulary.controller_config import CeleryKeys, PoolPolicy

# A delayed task counts from `ahead` seconds before it is due. The script reads at most `most` messages of each list
# and of `unacked`, and at most `left` messages and `bytes` bytes of all lists per call, because Redis answers no other
# client meanwhile. A report expires after `lag` seconds, so it is never older.
_HEAD = """
local prefix, separator, unacked, unacked_index = {prefix}, {separator}, {unacked}, {unacked_index}
local steps, ahead, most, left, bytes, lag = {{{steps}}}, {ahead}, 1000, 2000, 2000000, 15
"""

_LUA = r"""
local handed_out_entries, too_many, targets = nil, '', {}  -- the same for all pools: read once per call

local function due(message)  -- when a delayed task may begin; nil: at once, or unknown
  local text = message:sub(-16384):match('"eta": ?([^,}]*)') or ''  -- the headers follow the body
  local year, month, day, hour, minute, second, sign, hours, minutes =
    text:gsub('Z"$', '+00:00"'):match('^"(%d%d%d%d)-(%d%d)-(%d%d)[T ](%d%d):(%d%d):(%d%d)[%d.]*([-+])(%d%d):?(%d%d)"$')
  if not year then return nil end
  local back = math.floor((14 - month) / 12)
  local y, m = year + 4800 - back, month + 12 * back - 3
  local days = day + math.floor((153 * m + 2) / 5) + 365 * y + math.floor(y / 4) - math.floor(y / 100)
  local east = (hours * 60 + minutes) * 60 * (sign == '-' and -1 or 1)
  return (days + math.floor(y / 400) - 2472633) * 86400 + (hour * 60 + minute) * 60 + second - east
end

local function handed_out()
  local count, entries = ask('HLEN', unacked), {}
  if count > most then
    too_many = count .. ' messages are unacknowledged in this database, and more than ' .. most .. ' are not looked at'
    return entries
  end
  local flat = ask('HGETALL', unacked)
  for i = 1, #flat, 2 do
    local exchange, key = flat[i + 1]:sub(-512):match('"([^"\\]*)", "([^"\\]*)"%]$')
    if not exchange then
      local good, message = pcall(cjson.decode, flat[i + 1])  -- what is none belongs to every pool
      if good and type(message) == 'table' then exchange, key = message[2], message[3] end
    end
    entries[#entries + 1] = {flat[i], exchange, key, due(flat[i + 1])}
  end
  return entries
end

local function matches(bound, pattern, key)  -- a topic, as kombu matches it: its regular expression says how wide * is
  local star, words = pattern:find('.*?[^\\.]', 1, true) and '.-[^%.]' or '[^%.]+', {}
  for word in (bound .. '.'):gmatch('(.-)%.') do
    words[#words + 1] = word == '*' and star or word == '#' and '.-' or (word:gsub('%W', '%%%0'))
  end
  return key:find('^' .. table.concat(words, '%.') .. '$') ~= nil
end

local function queues_of(exchange, key)  -- nil in doubt
  if type(exchange) ~= 'string' or type(key) ~= 'string' then return nil end
  if exchange == '' then return {[key] = true} end
  local place = exchange .. '\n' .. key
  if targets[place] == nil then
    local found = false
    for _, binding in ipairs(ask('SMEMBERS', prefix .. '_kombu.binding.' .. exchange)) do
      local one, two = binding:find(separator, 1, true)
      local three, four = binding:find(separator, (two or 0) + 1, true)
      if not three then return nil end
      local bound, pattern = binding:sub(1, one - 1), binding:sub(two + 1, three - 1)
      if bound == key and pattern == '' or pattern ~= '' and matches(bound, pattern, key) then
        found = found or {}
        found[binding:sub(four + 1)] = true
      end
    end
    targets[place] = found
  end
  return targets[place] or nil
end

local function belongs(mine, exchange, key)  -- in doubt it does
  local found = queues_of(exchange, key)
  for name in pairs(found or mine) do
    if mine[name] then return true end
  end
  return false
end

-- Count the waiting messages of a list without the delayed tasks that it shows, and return since when its head has
-- waited. Messages are read from the head on, at most a hundred at a time and fewer if they are large, while some of
-- the last ones are delayed.
local function waits(list)
  local length, later, since, from, size = ask('LLEN', list), 0, nil, 0, 1
  local messages = length > 0 and {ask('LINDEX', list, -1)} or {}
  while #messages > 0 do
    local delayed = 0
    for i = #messages, 1, -1 do
      local at = due(messages[i])
      size = math.max(size, #messages[i])
      left, bytes = left - 1, bytes - #messages[i]
      if at and at > now + ahead then
        delayed = delayed + 1
      elseif not since then
        local sent = tonumber(messages[i]:sub(-16384):match('"ebbtide_sent": ([%d.]+)') or '')
        since = sent and sent < 1e11 and math.max(sent, at or 0) or at or ''
      end
    end
    later, from = later + delayed, from + #messages
    local more = math.min(100 - from % 100, most - from, length - from, left, math.floor(bytes / size))
    if more < 1 or delayed == 0 and from > 1 then break end
    messages = ask('LRANGE', list, -from - more, -from - 1)
  end
  return length - later, since
end

local function queue(names)
  local mine, waiting, oldest, unused, seen = {}, 0, nil, 0, {}
  local hosts, settings, remembered = {}, {}, {}
  local busy, in_memory, explained, patience = 0, 0, 0, 0
  for name in names:gmatch('%S+') do mine[name] = true end

  local function report(worker, fields)
    local idle = fields[2] == 'idle'
    local held, active = tonumber((fields[4] or ''):match('^%d+$')), tonumber((fields[5] or ''):match('^%d+$'))
    local others = false  -- it holds messages of queues that are not this pool's
    for name in (fields[7] or ''):gmatch('%S+') do others = others or not mine[name] end
    hosts[#hosts + 1], hosts[#hosts + 2] = fields[1], idle and 1 or 0
    if not idle then
      if not active or active > 0 then busy = busy + 1 end
      explained = explained + (others and 0 or held or math.huge)
    end
    if held and active and not others then in_memory = in_memory + math.max(0, held - active) end
    patience = math.max(patience, tonumber(fields[3] or '') or math.huge)
    local reported = fields[6] or fields[3] and '{"visibility_timeout": ' .. fields[3] .. '}'
    if reported and #reported <= 4096 then settings[#settings + 1] = reported end
  end

  for name in names:gmatch('%S+') do
    local here, head = 0, nil
    for _, step in ipairs(steps) do
      local length, since = waits(prefix .. name .. (step == 0 and '' or separator .. step))
      here, head = here + length, head or since
    end
    waiting = waiting + here
    if type(head) == 'number' then oldest = math.min(oldest or head, head) end
    local used = ask('EXISTS', prefix .. '_kombu.binding.' .. name) + ask('SISMEMBER', 'ebbtide:queues', name)
    unused = unused + (used + here == 0 and 1 or 0)
    for _, worker in ipairs(ask('SMEMBERS', 'ebbtide:workers:' .. name)) do
      local key = 'ebbtide:worker:' .. name .. ':' .. worker
      local fields = ask('HMGET', key, 'hostname', 'state', 'patience', 'held', 'active', 'settings', 'queues')
      if fields[1] and not seen[worker] then
        seen[worker] = true
        report(worker, fields)
      end
    end
    local stored = ask('GET', 'ebbtide:celery:' .. name)
    if stored and #stored <= 4096 then remembered[#remembered + 1] = stored end
  end
  handed_out_entries = handed_out_entries or handed_out()
  local running, later, stale, recent = 0, 0, 0, 0
  for _, entry in ipairs(handed_out_entries) do
    if belongs(mine, entry[2], entry[3]) then
      local since = tonumber(ask('ZSCORE', unacked_index, entry[1]) or now)
      if patience > 0 and since < now - patience then
        stale = stale + 1
      else
        if entry[4] and entry[4] > now then later = later + 1 else running = running + 1 end
        if since > now - lag then recent = recent + 1 end
      end
    end
  end
  local in_transit = #hosts > 0 and math.min(recent, math.max(0, running + later - explained)) or 0
  local nobodys = later > in_memory and 1 or 0  -- a delayed task that no report explains keeps one worker
  running = math.max(running - math.max(0, in_memory - later), nobodys)
  running = math.max(running, busy)  -- a task that outlives the visibility timeout is given out again while it runs
  in_transit = math.min(in_transit, running)
  if running + stale + later + #hosts > 0 then unused = 0 end
  local reports = {}
  for _, text in ipairs(#settings > 0 and settings or remembered) do reports[#reports + 1] = noted(text) end
  local blind = #hosts == 0 and 1 or 0
  return {waiting, in_transit, running - in_transit, stale, 0, unused, blind, oldest or '', hosts, too_many, reports}
end
"""


def celery(keys: CeleryKeys | None = None, node_startup: timedelta = timedelta(minutes=5)) -> Backend:
    """Return the backend for these key names. A delayed task counts as demand from `node_startup` before it is due."""
    keys = keys or CeleryKeys()
    head = _HEAD.format(
        prefix=_text(keys.prefix),
        separator=_text(keys.separator),
        unacked=_text(keys.prefix + keys.unacked),
        unacked_index=_text(keys.prefix + keys.unacked_index),
        steps=", ".join(map(str, keys.priorities)),
        ahead=node_startup.total_seconds(),
    )
    return Backend(
        kind="celery",
        lua=head + _LUA,
        wakes=lambda queues: tuple(keys.prefix + name for name in (*queues, keys.unacked)),
        pool_at_once=True,
        contradicts=contradictions,
    )


_UNTRIED_POOLS = ("eventlet", "gevent")  # modules of celery.concurrency


def _text(value: str) -> str:
    """Return a Lua literal of any text."""
    return "'" + "".join(f"\\{byte:03d}" for byte in value.encode()) + "'"


def contradictions(reports: Sequence[str], pool: PoolPolicy) -> tuple[str, str]:
    """Compare reported settings with the pool; return why the pool's counts are in doubt, and other warnings."""
    doubts: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for settings in map(parsed, dict.fromkeys(reports)):
        doubts |= dict.fromkeys(_other_keys(settings, pool.celery or CeleryKeys()))
        warnings |= dict.fromkeys(_unsafe_settings(settings, pool))
    return "; ".join(doubts), "; ".join(warnings)


def _other_keys(settings: Mapping[str, Any], keys: CeleryKeys) -> Iterator[str]:
    expected = {
        "keyPrefix": ("global_keyprefix", keys.prefix),
        "priorities": ("priority_steps", sorted(keys.priorities)),
        "separator": ("sep", keys.separator),
        "unackedKey": ("unacked_key", keys.unacked),
        "unackedIndexKey": ("unacked_index_key", keys.unacked_index),
    }
    for key, (setting, here) in expected.items():
        if setting in settings and settings[setting] != here:
            there = json.dumps(settings[setting])
            yield (
                f"tasks may wait unseen: the application's {setting} is {there}, and the pool's source has "
                f"{json.dumps(here)}; write {key}: {there} under source"
            )


def _unsafe_settings(settings: Mapping[str, Any], pool: PoolPolicy) -> Iterator[str]:
    timeout, longest = number(settings, "visibility_timeout"), pool.longest_job.total_seconds()
    if 0 < timeout < longest:
        yield (
            f"the application's visibility_timeout is {duration(timeout)}, and longestJob is {duration(longest)}: "
            f"Celery runs a task of more than {duration(timeout)} a second time while it runs; raise "
            "visibility_timeout in broker_transport_options above longestJob"
        )
    at_once = number(settings, "concurrency")
    if at_once > pool.jobs_per_worker:
        yield (
            f"each worker runs {at_once:g} tasks at once, and the pool counts {pool.jobs_per_worker} per worker: start "
            f"workers with --concurrency {pool.jobs_per_worker}, or write jobsPerWorker: {at_once:g}"
        )
    if settings.get("acks_late") is False:
        yield "the application's task_acks_late is off: a running task is lost with its worker; set it"
    if settings.get("prefetch", 1) != 1:
        multiplier = json.dumps(settings["prefetch"])
        yield (
            f"worker_prefetch_multiplier is {multiplier}, in the application or as --prefetch-multiplier: waiting "
            "tasks hide in busy workers; set it to 1"
        )
    if names := _names(settings.get("acks_early")):
        yield f"{names} acknowledge early (acks_late=False): a running one is lost with its worker; remove it"
    if settings.get("ack_emulation") is False:
        yield (
            "ack_emulation is off in the application's broker_transport_options: no task in a worker is in any key, "
            "and it is lost with its worker; remove it"
        )
    if settings.get("cancels_on_loss") is True:
        yield (
            "the application's worker_cancel_long_running_tasks_on_connection_loss is on: a moment without Redis "
            "cancels running tasks, and they run again; remove it"
        )
    if settings.get("reads_elsewhere") is True:
        yield "workers read tasks from another broker (broker_read_url) than the stack's Redis; remove it"
    if settings.get("results_stay") is True:
        yield "results stay in Redis forever (result_expires), and a full Redis takes no task; set it"
    limit = number(settings, "time_limit")
    if limit > longest:
        yield (
            f"Celery ends a task after {duration(limit)}, and longestJob is {duration(longest)}: a worker that stops "
            "is killed soon after that; raise longestJob, or lower the time limit"
        )
    waits = number(settings, "consumer_timeout")
    if 0 < waits <= longest:
        yield (
            f"workers request a consumer timeout of {duration(waits)}, and longestJob is {duration(longest)}: RabbitMQ "
            f"delivers a task of more than {duration(waits)} again while it runs; raise consumer_timeout on the "
            "broker, and consumerTimeout of the stack file"
        )
    if settings.get("purge") is True:
        yield "workers start with --purge, which deletes the waiting tasks each time; leave it out"
    if settings.get("beat") is True and not pool.min_workers == pool.max_workers == 1:
        yield (
            "workers start with --beat: each sends the schedule, and without workers none does; run celery beat as a "
            "workload with one replica"
        )
    if pool.safe_stop and settings.get("pool") in _UNTRIED_POOLS:
        yield f"safeStop is declared, and no stop of a worker with --pool {settings['pool']} was tried; use prefork"
    if pool.safe_stop and settings.get("pool") == "prefork" and (init := settings.get("group")):
        yield (
            f"safeStop is declared, and {str(init)[:100]} passes SIGTERM on to the process of a running task and ends "
            "it: write tini without -g, or dumb-init --single-child"
        )
    yield from other_queues(settings.get("queues"), pool.queues)
    if pool.safe_stop:
        yield from unsafe_stop(settings)


def _names(value: object) -> str:
    names = cast("list[object]", value)[:5] if isinstance(value, list) else []
    return ", ".join(str(name)[:100] for name in names)


CELERY = celery()
