"""RQ's keys, read without RQ: its own counters clean up, and may retry or fail jobs, as they count. See docs/queues.md.

Most of ten thousand queues hold nothing: one EXISTS over all of a queue's keys tells, and says when to stop looking.
"""

from controllers.adapters.backend import Backend

_LUA = """
local stuck_after = 60  -- RQ's own patience with the intermediate list
local registered = nil

function house()
  local why = ask('EXISTS', 'rq:suspended') == 1 and 'the workers are suspended (`rq suspend`)' or ''
  return why, ask('SCARD', 'rq:queues')
end

local function ever_used(list)  -- one question for all the queues of the call
  if not registered then
    local lists = {}
    for i = 3, #ARGV do lists[i - 2] = 'rq:queue:' .. ARGV[i] end
    registered = {}
    for i, found in ipairs(ask('SMISMEMBER', 'rq:queues', unpack(lists))) do registered[lists[i]] = found == 1 end
  end
  return registered[list]
end

local function stuck(key)
  local count = 0
  for _, id in ipairs(ask('LRANGE', key, 0, 99)) do
    local seen = ask('GET', key .. ':first_seen:' .. id)
    if seen and now - tonumber(seen) > stuck_after then count = count + 1 end
  end
  return count
end

local function hosts(members)
  local workers = {}
  for _, key in ipairs(members) do
    local worker = ask('HMGET', key, 'hostname', 'state', 'current_job')
    local idle = worker[2] == 'idle' and not (worker[3] and worker[3] ~= '')
    if worker[1] then workers[#workers + 1], workers[#workers + 2] = worker[1], idle and 1 or 0 end
  end
  return workers
end

local function queue(name)
  local list, transit = 'rq:queue:' .. name, 'rq:queue:' .. name .. ':intermediate'
  local wip, scheduled, workers = 'rq:wip:' .. name, 'rq:scheduled:' .. name, 'rq:workers:' .. name
  local keys = ask('EXISTS', list, transit, wip, scheduled, workers)
  if keys == 0 then return not ever_used(list) and {0, 0, 0, 0, 0, '', {}, 0} or nil end
  local waiting, oldest = ask('LLEN', list), ''
  if waiting > 0 then
    local id = ask('LINDEX', list, 0)
    oldest = id and ask('HGET', 'rq:job:' .. id, 'enqueued_at') or ''
    if keys == 1 then return {waiting, 0, 0, 0, 0, oldest, {}, 1} end
  end
  local popped = ask('LLEN', transit)
  local lost = popped > 0 and stuck(transit) or 0
  return {
    waiting, popped - lost, ask('ZCOUNT', wip, now, '+inf'), ask('ZCOUNT', wip, '-inf', '(' .. now) + lost,
    ask('ZCOUNT', scheduled, '-inf', now + lead), oldest, hosts(ask('SMEMBERS', workers)), 1
  }
end
"""

# Not one prefix per queue: the server compares every written key with every prefix, and refuses overlapping ones.
_NEWS = ("rq:queue:", "rq:wip:", "rq:scheduled:", "rq:suspended")

RQ = Backend(kind="rq", lua=_LUA, wakes=lambda _: _NEWS)
