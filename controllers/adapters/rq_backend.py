"""RQ's keys, read without RQ: its own counters clean up, and may retry or fail jobs, as they count. See docs/queues.md.

Most of ten thousand queues hold nothing: one EXISTS over all of a queue's keys tells, and says when to stop looking.
"""

from controllers.adapters.backend import Backend

_LUA = """
local registered, asked = nil, {}  -- for all queues of the call: which were ever used (1 or 0); what each worker says

function house()
  local why = ask('EXISTS', 'rq:suspended') == 1 and 'the workers are suspended (`rq suspend`)' or ''
  return why, ask('SCARD', 'rq:queues')
end

local function ever_used(place)
  if not registered then
    local lists = {}
    for i = 2, #ARGV do lists[i - 1] = 'rq:queue:' .. ARGV[i] end
    registered = ask('SMISMEMBER', 'rq:queues', unpack(lists))
  end
  return registered[place] == 1
end

local function stuck(key)
  local count = 0
  for _, id in ipairs(ask('LRANGE', key, 0, 99)) do
    local seen = ask('GET', key .. ':first_seen:' .. id)
    if seen and now - tonumber(seen) > 60 then count = count + 1 end  -- RQ's own patience
  end
  return count
end

local function hosts(members)
  local workers = {}
  for _, key in ipairs(members) do
    local worker = asked[key] or ask('HMGET', key, 'hostname', 'state', 'current_job')
    asked[key] = worker
    local idle = worker[2] == 'idle' and not (worker[3] and worker[3] ~= '')
    if worker[1] then workers[#workers + 1], workers[#workers + 2] = worker[1], idle and 1 or 0 end
  end
  return workers
end

local function queue(name, place)
  local list, transit = 'rq:queue:' .. name, 'rq:queue:' .. name .. ':intermediate'
  local wip, scheduled, workers = 'rq:wip:' .. name, 'rq:scheduled:' .. name, 'rq:workers:' .. name
  local keys = ask('EXISTS', list, transit, wip, scheduled, workers)
  if keys == 0 then return not ever_used(place) and {0, 0, 0, 0, 0, 1, 0, '', {}} or nil end
  local waiting, oldest = ask('LLEN', list), ''
  if waiting > 0 then
    local id = ask('LINDEX', list, 0)
    oldest = id and ask('HGET', 'rq:job:' .. id, 'enqueued_at') or ''
    if keys == 1 then return {waiting, 0, 0, 0, 0, 0, 0, oldest, {}} end
  end
  local popped = ask('LLEN', transit)
  local lost = popped > 0 and stuck(transit) or 0
  local running, overdue = ask('ZCOUNT', wip, now, '+inf'), ask('ZCOUNT', wip, '-inf', '(' .. now)
  local due_soon = ask('ZCOUNT', scheduled, '-inf', now + 60)  -- only a worker can move them to the list
  return {waiting, popped - lost, running, overdue + lost, due_soon, 0, 0, oldest, hosts(ask('SMEMBERS', workers))}
end
"""

# Not one prefix per queue: the server compares every written key with every prefix, and refuses overlapping ones.
RQ = Backend(kind="rq", lua=_LUA, wakes=lambda _: ("rq:queue:", "rq:wip:", "rq:scheduled:", "rq:suspended"))
