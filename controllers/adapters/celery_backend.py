"""Celery's keys, read without Celery: late acknowledgement only, since other running tasks are in no key of Redis.

`unacked` holds what all queues handed out; an entry ends in the exchange and routing key that say whose it is. Only our
report (`ebbtide.jobs.celery_worker`) tells pod from pod, and the visibility timeout; else nothing is called stale.
"""

from controllers.adapters.backend import Backend

_LUA = r"""
local most, given, bindings = 1000, nil, {}  -- what was given out is the same for all queues: read once per call

local function handed_out()
  local count = ask('HLEN', 'unacked')
  if count > most then error({err = count .. ' messages are unacknowledged, more than ' .. most .. ' are not read'}) end
  local entries, flat = {}, ask('HGETALL', 'unacked')
  for i = 1, #flat, 2 do
    local exchange, key = flat[i + 1]:sub(-512):match('"([^"\\]*)", "([^"\\]*)"%]$')
    if not exchange then exchange, key = unpack(cjson.decode(flat[i + 1]), 2, 3) end
    entries[#entries + 1] = {flat[i], exchange, key}
  end
  return entries
end

local function belongs(name, exchange, key)  -- in doubt it does
  if key == name or type(exchange) ~= 'string' then return true elseif exchange == '' then return false end
  bindings[exchange] = bindings[exchange] or ask('SMEMBERS', '_kombu.binding.' .. exchange)
  for _, binding in ipairs(bindings[exchange]) do
    local bound, pattern, target = binding:match('^(.-)\6\22(.-)\6\22(.*)$')
    if target == name and (bound == key or pattern ~= '') then return true end
  end
  return #bindings[exchange] == 0
end

local function queue(name)
  local waiting, running, stale, head, hosts, busy, patience = 0, 0, 0, '', {}, 0, 0
  for _, step in ipairs({'', '\6\0223', '\6\0226', '\6\0229'}) do
    local length = ask('LLEN', name .. step)
    if head == '' and length > 0 then head = ask('LINDEX', name .. step, -1):match('"ebbtide_sent": ([%d.]+)') or '' end
    waiting = waiting + length
  end
  for _, worker in ipairs(ask('SMEMBERS', 'ebbtide:workers:' .. name)) do
    local said = ask('HMGET', 'ebbtide:worker:' .. name .. ':' .. worker, 'hostname', 'state', 'patience')
    if said[1] then
      local idle = said[2] == 'idle' and 1 or 0
      hosts[#hosts + 1], hosts[#hosts + 2], busy = said[1], idle, busy + 1 - idle
      patience = math.max(patience, tonumber(said[3] or '') or math.huge)
    end
  end
  given = given or handed_out()
  for _, entry in ipairs(given) do
    if belongs(name, entry[2], entry[3]) then
      local since = tonumber(ask('ZSCORE', 'unacked_index', entry[1]) or now)
      if patience > 0 and since < now - patience then stale = stale + 1 else running = running + 1 end
    end
  end
  running = math.max(running, busy)  -- a task that outlives the visibility timeout is given out again while it runs
  local known = ask('EXISTS', '_kombu.binding.' .. name) + ask('SISMEMBER', 'ebbtide:queues', name)
  local unused = known + waiting + running + stale + #hosts == 0 and 1 or 0
  return {waiting, 0, running, stale, 0, unused, #hosts == 0 and 1 or 0, tonumber(head) or '', hosts}
end
"""

CELERY = Backend(kind="celery", lua=_LUA, wakes=lambda queues: (*queues, "unacked"))
