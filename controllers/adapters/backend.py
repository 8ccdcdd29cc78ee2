"""What a job framework must tell for its queues to be read: one Lua function and a few words.

The frame around it is the same for all: one read-only call reads many queues at one instant, so that a job on its way
from list to registry is in exactly one place of the reply. Only queues that hold something are in the reply, as JSON
in one string: the client's time goes into replies, not into asking.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# In scope for a backend: ask(command, …), which raises what Redis refuses; `now` in seconds; `lead`, the look-ahead.
# A backend defines `local function queue(name)`, which returns nil for a queue that is known and holds nothing, else
# {waiting, in_transit, running, stale, due_soon, oldest, {host, 1 if idle else 0, …}, 1 if ever used else 0}
# where `oldest` is "" (cannot be told), ISO 8601 text or epoch seconds; a ninth entry, 1 or 0, overrides `names_idle`.
# It may replace `house()`, asked once for all: why the workers stand still ("": they do not), and the size of a
# register of queues that never shrinks unless the database is flushed.
_HEAD = """
local time = redis.call('TIME')
local now, lead = tonumber(time[1]), tonumber(ARGV[1])
local ask = redis.call
local function house() return '', 0 end
"""

# ARGV: look-ahead in seconds, "1" to describe the server, then queue names.
# Reply: seconds, microseconds, {identity, role, why, size} or false, then the places of the queues that hold something,
# counted from 1, and their tables; last, place and reason of each queue that cannot be read.
_TAIL = """
local function telling(...)  -- slower, and says what was refused
  local reply, command, key = redis.pcall(...), ...
  local failed = type(reply) == 'table' and reply.err
  if failed then error({err = failed .. ' (' .. command .. ' ' .. (key or '') .. ')'}) end
  return reply
end
local server, places, held, failures = false, {}, {}, {}
if ARGV[2] == '1' then
  local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
  local identity = (info:match('run_id:(%w*)') or '') .. ' ' .. (info:match('master_replid:(%w*)') or '')
  ask = telling
  local good, why, size = pcall(house)
  if not good then return type(why) == 'table' and why or {err = why} end
  ask, server = redis.call, {identity, info:match('role:(%w*)') or '', why, size}
end
for i = 3, #ARGV do
  local good, result = pcall(queue, ARGV[i])
  if not good then
    ask = telling
    good, result = pcall(queue, ARGV[i])
    failures[#failures + 1] = i - 2
    failures[#failures + 1] = ARGV[i] .. ' could not be read: ' .. (type(result) == 'table' and result.err or result)
  elseif result then
    places[#places + 1], held[#held + 1] = i - 2, result
  end
end
return cjson.encode({tonumber(time[1]), tonumber(time[2]), server, places, held, failures})
"""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """How one framework keeps its jobs. `wakes` gives the key prefixes whose changes are news for these queues."""

    kind: str
    lua: str
    wakes: Callable[[Sequence[str]], tuple[str, ...]]
    names_idle: bool = True  # False: cannot tell which pod is idle, only that nothing at all is in flight
    caution: str = ""  # what an operator should know of it

    @property
    def script(self) -> str:
        return _HEAD + self.lua + _TAIL
