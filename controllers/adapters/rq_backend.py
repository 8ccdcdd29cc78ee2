"""RQ's keys, read without RQ, since RQ's counters clean up, retry or fail jobs as they count: docs/reference/queues.md.

Most of ten thousand queues are empty: one EXISTS over all keys of a queue shows this, and when no more keys are needed.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from controllers.adapters.backend import Backend
from controllers.adapters.worker_reports import ends_by_itself, number, other_queues, parsed, unsafe_stop
from ebbtide.vocabulary.controller_config import PoolPolicy

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

local function hosts(members, name)
  local workers, reports, seen = {}, {}, {}
  for _, key in ipairs(members) do
    local worker = asked[key] or ask('HMGET', key, 'hostname', 'state', 'current_job', 'queues', 'ebbtide')
    asked[key] = worker
    local idle = worker[2] == 'idle' and not (worker[3] and worker[3] ~= '')
    if worker[1] then workers[#workers + 1], workers[#workers + 2] = worker[1], idle and 1 or 0 end
    local report = worker[5] or ''
    if worker[4] and worker[4] ~= name then report = worker[4] .. '\\n' .. report end
    if worker[1] and #report <= 4096 and not seen[report] then
      seen[report] = true
      reports[#reports + 1] = noted(report)
    end
  end
  return workers, reports
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
  local pods, reports = hosts(ask('SMEMBERS', workers), name)
  return {waiting, popped, running, overdue + lost + unmoved, due_soon, 0, 0, oldest, pods, '', reports}
end
"""

_RESULTS_STAY = "workers keep results forever (--results-ttl), and a full Redis takes no job; write seconds"
_ENDS = {"burst": "--burst", "max_jobs": "--max-jobs", "max_idle_time": "--max-idle-time"}


def contradictions(reports: Sequence[str], pool: PoolPolicy) -> tuple[str, str]:
    """Compare the workers' reports with the pool; return warnings. RQ's counts are never in doubt."""
    warnings: dict[str, None] = {}
    unscheduled = bool(reports)
    for report in reports:
        lacks_scheduler, told = _judged(report, pool.queues, pool.safe_stop)
        unscheduled = unscheduled and lacks_scheduler
        warnings |= told
    if unscheduled:
        text = (
            "no worker has --with-scheduler, so none moves scheduled jobs, or retries after an interval, to the queue"
        )
        warnings[text] = None
    return "", "; ".join(warnings)


@lru_cache(maxsize=8192)  # each worker's report is read many times a second and does not change
def _judged(report: str, ours: tuple[str, ...], safe_stop: bool) -> tuple[bool, Mapping[str, None]]:  # noqa: FBT001 - as the policy has it
    """Return True if the worker has no scheduler, and warnings.

    A report is the safe worker's JSON; it is empty for another worker class or an older release. A line before the JSON
    lists the worker's queues as RQ stores them, separated by commas, unless they are just the queue that was read.
    """
    queues, _, text = report.rpartition("\n")
    options = parsed(text)
    warnings = [
        *(other_queues(queues.split(",") if queues else ["one queue"], ours) if queues or len(ours) > 1 else ()),
        *(ends_by_itself(option) for name, option in _ENDS.items() if options.get(name)),
        *([_RESULTS_STAY] if number(options, "results_ttl") < 0 else []),
        *(unsafe_stop(options) if safe_stop else ()),
    ]
    return options.get("with_scheduler") is False, dict.fromkeys(warnings)


# Not one prefix per queue: Redis compares every written key with every prefix, and refuses overlapping prefixes.
RQ = Backend(
    kind="rq",
    lua=_LUA,
    wakes=lambda _: ("rq:queue:", "rq:wip:", "rq:scheduled:", "rq:suspended"),
    contradicts=contradictions,
)
