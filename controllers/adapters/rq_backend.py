"""RQ's keys, read without RQ, whose counters clean up, retry or fail jobs as they count: docs/reference/queues.md.

Most of ten thousand queues are empty: one EXISTS over all of a queue's keys shows that, and when to stop reading.
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

local function in_between(key)  -- popped and not started; stuck there
  local transit, lost = ask('LLEN', key), 0
  for _, id in ipairs(transit > 0 and ask('LRANGE', key, 0, 99) or {}) do
    -- RQ writes a start to `rq:wip` and, 60 s later, to the job's own executions, in one step. The id leaves this list
    -- only after that: until then the job counts as running, and not twice.
    local started = ask('ZCOUNT', 'rq:executions:' .. id, now + 60, '+inf') > 0
    local seen = not started and ask('GET', key .. ':first_seen:' .. id)
    local stuck = seen and now - tonumber(seen) > 60  -- RQ's own patience
    if started or stuck then transit = transit - 1 end
    if stuck then lost = lost + 1 end
  end
  return transit, lost
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
  local ready = 'rq:ready:' .. name
  local keys = ask('EXISTS', list, transit, wip, scheduled, workers, ready)
  if keys == 0 then return not ever_used(place) and {0, 0, 0, 0, 0, 1, 0, '', {}} or nil end
  local waiting, oldest = ask('LLEN', list), ''
  if waiting > 0 then
    local id = ask('LINDEX', list, 0)
    oldest = id and ask('HGET', 'rq:job:' .. id, 'enqueued_at') or ''
    if keys == 1 then return {waiting, 0, 0, 0, 0, 0, 0, oldest, {}} end
  end
  local popped, lost = in_between(transit)
  local running, overdue = ask('ZCOUNT', wip, now, '+inf'), ask('ZCOUNT', wip, '-inf', '(' .. now)
  -- Only a worker's scheduler moves due jobs to the list, within a second or two: what is long past had none. A worker
  -- takes that office when it is free, and not during a job.
  local late = '(' .. now - 30
  local unmoved = ask('ZCOUNT', scheduled, '-inf', late) + ask('ZCOUNT', ready, '-inf', late)
  local due_soon = ask('ZCOUNT', scheduled, now - 30, now + 60)
  return {waiting, popped, running, overdue + lost + unmoved, due_soon, 0, 0, oldest, hosts(ask('SMEMBERS', workers))}
end
"""

# Not one prefix per queue: the server compares every written key with every prefix, and refuses overlapping ones.
RQ = Backend(kind="rq", lua=_LUA, wakes=lambda _: ("rq:queue:", "rq:wip:", "rq:scheduled:", "rq:suspended"))
