"""A plain list whose consumers move each job to a processing list (BLMOVE): a job that is popped would be in no key.

A processing list per consumer and a heartbeat (`ebbtide.jobs.list_worker`) distinguish a dead consumer's jobs from
running ones, and idle pods from busy ones; one shared processing list does neither. See docs/reference/backends.md.
"""

from controllers.adapters.backend import Backend

_LUA = """
local function queue(name)
  local waiting, shared = ask('LLEN', name), ask('LLEN', name .. ':processing')
  local running, stale, hosts = shared, 0, {}
  for _, consumer in ipairs(ask('SMEMBERS', name .. ':consumers')) do
    local host = ask('GET', name .. ':consumer:' .. consumer)
    local taken = ask('LLEN', name .. ':processing:' .. consumer)
    if host then
      running = running + taken
      hosts[#hosts + 1], hosts[#hosts + 2] = host, taken == 0 and 1 or 0
    else
      stale = stale + taken
    end
  end
  local blind, found = shared > 0 or #hosts == 0, waiting + running + stale + #hosts > 0
  -- Empty lists leave no key: only where our workers keep a register is an unknown name worth a word.
  local used = found or ask('SISMEMBER', 'ebbtide:queues', name) == 1 or ask('EXISTS', 'ebbtide:queues') == 0
  return {waiting, 0, running, stale, 0, used and 0 or 1, blind and 1 or 0, '', hosts}
end
"""

LIST = Backend(kind="list", lua=_LUA, wakes=tuple)
