"""The description of a job framework whose queues are read: one Lua function and a few facts.

The surrounding script is the same for all frameworks: one read-only call reads many queues at one instant, so that a
job on its way from list to registry is in exactly one place of the reply. The reply contains only queues that are not
empty, as JSON in one string, since clients spend their time on parsing replies, not on calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebbtide.vocabulary.controller_config import PoolPolicy

# In scope for a backend: ask(command, …), which raises an error if Redis refuses; `now` in seconds.
# A backend defines `local function queue(name, place)`, which returns nil for a known, empty queue, else the row
# {waiting, in_transit, running, stale, due_soon, never_used, blind, oldest, {host, 1 if idle else 0, …}}
# where `never_used` and `blind` are 1 or 0 (`blind`: the keys do not show which pod is idle, only that nothing is in
# flight), and `oldest` is "" (unknown), ISO 8601 text or epoch seconds. Two more values may follow: the reason for
# which the counts are in doubt ("": none), and the settings that workers report, as `noted(text)` returns them: a
# thousand workers report the same text, which the reply contains once. A backend may replace `house()`, which is called
# once for all queues and returns the reason for which the workers are suspended ("": none), and the size of a register
# of queues that only a flush makes smaller.
_HEAD = """
local time = redis.call('TIME')
local now, ask = tonumber(time[1]), redis.call
local function house() return '', ask('SCARD', 'ebbtide:queues') end
local texts, number_of = {}, {}
local function noted(text)
  if not number_of[text] then
    texts[#texts + 1] = text
    number_of[text] = #texts
  end
  return number_of[text]
end
"""

# ARGV: "1" to describe the server, then queue names.
# Reply: seconds, microseconds, {identity, role, why, size} or false, then the positions of the queues that are not
# empty, counted from 1, and their rows; then {position, reason} of each unreadable queue; last, the noted texts.
_TAIL = """
local function telling(...)  -- slower, and says what was refused
  local reply, command, key = redis.pcall(...), ...
  local failed = type(reply) == 'table' and reply.err
  if failed then error({err = failed .. ' (' .. command .. ' ' .. (key or '') .. ')'}) end
  return reply
end
local server, places, held, failures = false, {}, {}, {}
if ARGV[1] == '1' then
  local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
  local identity = (info:match('run_id:(%w*)') or '') .. ' ' .. (info:match('master_replid:(%w*)') or '')
  ask = telling
  local good, why, size = pcall(house)
  if not good then return type(why) == 'table' and why or {err = why} end
  ask, server = redis.call, {identity, info:match('role:(%w*)') or '', why, size}
end
for place, name in ipairs({unpack(ARGV, 2)}) do
  local good, result = pcall(queue, name, place)
  if not good then
    ask = telling
    good, result = pcall(queue, name, place)
  end
  if not good then
    local why = type(result) == 'table' and result.err or result
    failures[#failures + 1] = {place, 'queue ' .. name:gsub(' ', ', ') .. ' could not be read: ' .. tostring(why)}
  elseif result then
    places[#places + 1], held[#held + 1] = place, result
  end
end
return cjson.encode({now, tonumber(time[2]), server, places, held, failures, texts})
"""


def _nothing(_reports: Sequence[str], _pool: PoolPolicy) -> tuple[str, str]:
    return "", ""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """The storage of one framework's jobs in Redis. `wakes` returns the prefixes of keys whose changes affect queues.

    `contradicts` compares the reported settings with the pool; it returns why the counts are in doubt, and warnings.
    """

    kind: str
    lua: str
    wakes: Callable[[Sequence[str]], tuple[str, ...]]
    pool_at_once: bool = False  # `queue` receives all queues of a pool, separated by spaces, and returns one row
    contradicts: Callable[[Sequence[str], PoolPolicy], tuple[str, str]] = _nothing

    @property
    def script(self) -> str:
        return _HEAD + self.lua + _TAIL
