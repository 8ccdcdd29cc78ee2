"""Jobs with checkpoints in the safe worker: they pause when it stops, and resume after a hard end.

- The worker stops: the job saves at its next offer and goes back to the head of its queue, with its id, arguments and
  retries unchanged.
- The job is killed: its worker, if that survives, or any other worker once the heartbeat's deadline has passed, puts
  the job back at the head of its queue. After three such ends without a new checkpoint the job fails.
- Two attempts at once, after a partition: only the newest publishes a result or goes back to the queue.
"""

import logging
import time
from collections.abc import Callable, Collection, Container, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from redis import Redis
from redis.exceptions import WatchError
from rq import Queue, Retry, Worker
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.registry import StartedJobRegistry
from rq.utils import as_text, current_timestamp, now, parse_composite_key, utcformat

from ebbtide.jobs.checkpoints import running
from ebbtide.jobs.checkpoints.attempts import (
    LIFE,
    MOST_DEATHS,
    Hold,
    attempt_key,
    claim,
    hopeless,
    impatient,
    note,
    raise_if_superseded,
)
from ebbtide.jobs.checkpoints.environment import pool_checkpoints
from ebbtide.jobs.checkpoints.errors import Paused, StoreError, Superseded
from ebbtide.jobs.checkpoints.in_process import open_within, too_late
from ebbtide.jobs.checkpoints.probe import await_store, run
from ebbtide.jobs.checkpoints.shared_memory import StopFlag
from ebbtide.jobs.checkpoints.stored import StoredCheckpoints

SWEEP_EVERY = 3600.0  # seconds
FAIL_WITHIN = 60  # seconds in which no other worker judges a job that this one is about to fail

_log = logging.getLogger("rq.worker")

# KEYS: the job, its attempts, its queue, the queue's intermediate list and started jobs, the job's executions.
# ARGV: the job's id, the execution that is over ('' for a job that never began), why, the latest deadline that it may
# have ('' for any), the time as text, MOST_DEATHS, LIFE, the deadline by which this worker fails a hopeless job (''
# if it may not), now in seconds.
# Reply: 'back', 'gone' (another worker has it, it waits already, or it has ended: nothing is left of this execution),
# 'hopeless' (it has died too often: it stays where it is with that deadline, and its deaths are cleared), or 'later'
# (hopeless, but nothing is changed).
_PUT_BACK = """
local job, attempts, queue, popped, started, executions = unpack(KEYS)
local id, execution, why, deadline = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local member = id .. ':' .. execution
local until_ = execution ~= '' and redis.call('ZSCORE', started, member)
local held = until_ and (deadline == '' or tonumber(until_) <= tonumber(deadline))
local never_begun = execution == '' and redis.call('LPOS', popped, id)
if not held and not never_begun then return 'gone' end

local function forget(other)
  redis.call('ZREM', started, id .. ':' .. other)
  redis.call('ZREM', executions, other)
  redis.call('DEL', 'rq:execution:' .. id .. ':' .. other)
end

-- Executions of the same job, after a partition or a freeze. The one with the latest deadline decides about the job.
local latest = tonumber(deadline ~= '' and until_ or ARGV[9])
local others, replaced = {}, false
local entries = redis.call('ZRANGE', started, 0, -1, 'WITHSCORES')
for i = 1, #entries, 2 do
  if entries[i] ~= member and string.sub(entries[i], 1, #id + 1) == id .. ':' then
    others[#others + 1] = string.sub(entries[i], #id + 2)
    replaced = replaced or tonumber(entries[i + 1]) > latest
  end
end
local status = redis.call('HGET', job, 'status')
local ended = status ~= 'started' and status ~= 'queued'
if ended or replaced or (status == 'queued' and redis.call('LPOS', queue, id)) then
  if held then forget(execution) else redis.call('LREM', popped, 1, id) end
  return 'gone'
end
if why == 'died' then
  local deaths = tonumber(redis.call('HGET', attempts, 'deaths') or 0) + 1
  local hopeless = deaths >= tonumber(ARGV[6])
  if hopeless and ARGV[8] == '' then return 'later' end
  redis.call('HSET', attempts, 'deaths', hopeless and 0 or deaths)
  if hopeless then
    redis.call('ZADD', started, 'XX', ARGV[8], member)
    return 'hopeless'
  end
end
redis.call('LREM', popped, 1, id)
redis.call('DEL', popped .. ':first_seen:' .. id)
if held then forget(execution) end
for _, other in ipairs(others) do forget(other) end
redis.call('HSET', job, 'status', 'queued', 'enqueued_at', ARGV[5])
redis.call('HINCRBY', attempts, 'token', 1)
redis.call('EXPIRE', attempts, ARGV[7])
redis.call('LPUSH', queue, id)
return 'back'
"""


_OUTCOMES = {"back": "it is at the head of its queue", "gone": "another worker has it by now"}


class _LeftByJob(Retry):
    """Result of `perform` for a job that left: RQ passes it to `handle_job_retry`, which counts no failure."""

    def __init__(self, why: Paused | Superseded) -> None:
        super().__init__(max=1)
        self.why = why


class _Running:
    """The job of this process, for its checkpoint."""

    def __init__(self, worker: "CheckpointWorker", job: Job, stop: StopFlag) -> None:
        self._connection = worker.connection
        execution = worker.begun
        member = execution.composite_key if execution else ""
        self._hold = Hold(job.started_job_registry.key, member)
        self._stop = stop
        self.id: str = job.id
        self.token: int | None = None
        self.checkpoints: StoredCheckpoints | None = None

    @cached_property
    def _quick(self) -> Redis:
        return impatient(self._connection)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set

    def claim(self, at_least: int) -> int:
        self.token = claim(self._connection, self.id, at_least, self._hold)
        return self.token

    def opened(self, checkpoints: StoredCheckpoints) -> None:
        self.checkpoints = checkpoints
        self._stop.opened()

    def note(self, progress: Mapping[str, str | int]) -> None:
        note(self._quick, self.id, progress)


Popped = tuple[str, str]  # the queue's key, the job's id


@dataclass(frozen=True, slots=True)
class Start:
    """An entry of a queue's started jobs, past its deadline. A living worker raises the deadline at each heartbeat."""

    queue: str
    member: str  # the job's id, a colon and the execution's
    deadline: float  # seconds since 1970, whole ones if RQ wrote it


def cleaning_limit(overdue: Collection[Start], abandoned: Container[Start]) -> float:
    """Return the latest deadline, inclusive, up to which RQ may clean one queue; -1 if it may clean nothing.

    RQ fails all jobs up to this deadline, so every job that still has time must have a later one.
    """
    first_in_time = min((start.deadline for start in overdue if start not in abandoned), default=float("inf"))
    return max((start.deadline for start in overdue if start.deadline < first_in_time), default=-1)


@contextmanager
def _cleaning_only(limits: Mapping[str, float], stuck: Container[Popped]) -> Generator[None]:
    """Make RQ's cleanup stop at the limit of each queue, and give up only the popped jobs in `stuck`.

    RQ itself cleans all deadlines until now. And it gives up a popped job that any worker saw more than a minute ago,
    even if the job has been begun, put back and popped again since.
    """
    started, popped = cast("Any", StartedJobRegistry), cast("Any", IntermediateQueue)
    cleanup, stamp = started.cleanup, popped.set_first_seen

    def limited(self: Any, _timestamp: object = None, exception_handlers: object = None) -> None:
        cleanup(self, limits.get(self.name, -1), exception_handlers)

    def is_new(self: Any, job_id: str) -> bool:
        stamp(self, job_id)  # the controller reads it
        return (self.queue_key, job_id) not in stuck

    def may_be_given_up(_self: Any, _job_id: str) -> bool:
        return True

    with (
        _replaced(started, "cleanup", limited),
        _replaced(popped, "set_first_seen", is_new),
        _replaced(popped, "should_be_cleaned_up", may_be_given_up),
    ):
        yield


@contextmanager
def _replaced(owner: Any, name: str, method: Callable[..., Any]) -> Generator[None]:
    usual = getattr(owner, name)
    setattr(owner, name, method)
    try:
        yield
    finally:
        setattr(owner, name, usual)


class CheckpointWorker(Worker):
    """Base class of `SafeWorker`."""

    most_deaths = MOST_DEATHS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._stop_flag = StopFlag()
        self._pool = pool_checkpoints()
        self._here: _Running | None = None  # in the job's process
        self._died: str | None = None  # the job whose process ended by itself
        self._ended_by_us = False
        self._late: str | None = None
        self._begun_at = 0.0
        self.begun: Any = None  # the execution of the present job: RQ 3 may ask Redis for its own
        self._swept_at = float("-inf")
        super().__init__(*args, **kwargs)

    def await_checkpoints(self, stop: Callable[[], bool]) -> None:
        if self._pool is not None:
            await_store(stop)

    def share_log_handlers(self) -> None:
        """Log checkpoints where the worker logs: RQ sets handlers only for its own logger."""
        ours = logging.getLogger("ebbtide")
        if not ours.hasHandlers():
            ours.handlers, ours.level = _log.handlers, _log.level

    # --- in the job's process -------------------------------------------------------------------------------------

    def perform_job(self, job: Job, queue: Queue, *execution: Any) -> bool:
        self._here = _Running(self, job, self._stop_flag)
        perform = job.perform

        def pausing() -> Any:
            try:
                return perform()
            except (Paused, Superseded) as why:
                return _LeftByJob(why)

        cast("Any", job).perform = pausing
        running.begin(self._here)
        try:
            return super().perform_job(job, queue, *execution)
        finally:
            running.end()

    def handle_job_retry(self, job: Job, queue: Queue, retry: Retry, *args: Any, **kwargs: Any) -> None:
        if not isinstance(retry, _LeftByJob):
            return super().handle_job_retry(job, queue, retry, *args, **kwargs)
        if isinstance(retry.why, Paused) and self.begun:
            outcome = self._put_back(job.id, queue, self.begun.id, "paused")
            _log.info("Worker %s: %s; %s", self.name, retry.why, _OUTCOMES[outcome])
        else:
            _log.warning("Worker %s: job %s is left to its newer attempt: %s", self.name, job.id, retry.why)
        self._forget_begun()
        return None

    def cleanup_execution(self, job: Job, pipeline: Any, **execution: Any) -> None:
        """Fail each transaction that publishes an end if another attempt is newer."""
        if self.is_horse and self._here is not None and self._here.token is not None:
            key = attempt_key(job.id)
            pipeline.immediate_execute_command("WATCH", key)
            newest = pipeline.immediate_execute_command("HGET", key, "token")
            raise_if_superseded(job.id, self._here.token, newest)
        super().cleanup_execution(job, pipeline, **execution)

    def handle_job_success(self, job: Job, queue: Queue, started_job_registry: Any, **execution: Any) -> None:
        try:
            super().handle_job_success(job, queue, started_job_registry, **execution)
        except Superseded as why:
            _log.warning("Worker %s: the result of job %s is dropped: %s", self.name, job.id, why)
        else:
            self._let_go(job.get_result_ttl(self.default_result_ttl))

    def _let_go(self, after: int | None) -> None:
        if self._here is None or self._here.checkpoints is None or after is None or after < 0:
            return
        try:
            self._here.checkpoints.done(time.time() + after)
        except StoreError as why:
            _log.warning("Worker %s: checkpoints of job %s stay: %s", self.name, self._here.id, why)

    # --- in the worker's process ----------------------------------------------------------------------------------

    def prepare_execution(self, job: Job) -> Any:
        self.begun = super().prepare_execution(job)
        return self.begun

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        self._stop_flag.next_job()
        self._died, self._late, self._ended_by_us, self._begun_at = None, None, False, time.monotonic()
        super().fork_work_horse(job, queue)

    def kill_horse(self, *args: Any, **kwargs: Any) -> None:
        self._ended_by_us = True
        super().kill_horse(*args, **kwargs)

    def handle_work_horse_killed(self, job: Job, retpid: Any, ret_val: Any, rusage: Any) -> None:
        super().handle_work_horse_killed(job, retpid, ret_val, rusage)
        if not self._ended_by_us:
            self._died = job.id

    def maintain_heartbeats(self, job: Job, *execution: Any) -> None:
        super().maintain_heartbeats(job, *execution)
        within = open_within(self._pool)
        if within is not None and not self._stop_flag.has_opened and time.monotonic() - self._begun_at > within:
            self._late = too_late(job.id, within)
            _log.error("Worker %s: %s", self.name, self._late)
            self.kill_horse()

    def handle_job_failure(
        self, job: Job, queue: Queue, started_job_registry: Any = None, exc_string: str = "", **execution: Any
    ) -> None:
        if self.is_horse:
            return self._fail_in_horse(job, queue, started_job_registry, exc_string, **execution)
        if self._died == job.id and self.begun and self._returns(job.id):
            self._died = None
            if self._put_back(job.id, queue, self.begun.id, "died") != "hopeless":
                self._forget_begun()
                return None
            exc_string = hopeless(job.id)
        return super().handle_job_failure(job, queue, started_job_registry, self._late or exc_string, **execution)

    def _forget_begun(self) -> None:
        """Drop the worker's part of an execution whose other keys are gone, as RQ's own cleanup does."""
        execution, self.begun, rq = self.begun, None, cast("Any", self)
        if hasattr(Worker, "set_current_job_id"):  # before RQ 3, which keeps a set of executions instead
            rq.set_current_job_id(None)
            rq.execution = None
        elif execution:
            rq.connection.srem(rq.executions_key, execution.composite_key)
            rq.executions.pop(execution.id, None)

    def _fail_in_horse(
        self, job: Job, queue: Queue, started_job_registry: Any, exc_string: str, **execution: Any
    ) -> None:
        final = not job.should_retry
        try:
            super().handle_job_failure(job, queue, started_job_registry, exc_string, **execution)
        except (Superseded, WatchError) as why:
            _log.warning("Worker %s: the failure of job %s is dropped: %s", self.name, job.id, why)
        else:
            if final:
                self._let_go(job.failure_ttl)

    def clean_up_to(self, limits: Mapping[str, float], stuck: Container[Popped]) -> None:
        """Run RQ's maintenance. It fails started jobs up to the limit of their queue, and popped jobs in `stuck`."""
        with _cleaning_only(limits, stuck):
            super().clean_registries()
        if self._pool is not None and time.monotonic() - self._swept_at > SWEEP_EVERY:
            self._swept_at = time.monotonic()
            problem = run("sweep")
            if problem:
                _log.warning("Worker %s: checkpoints of ended jobs stay: %s", self.name, problem)

    def overdue_starts(self, queue: Queue) -> list[Start]:
        """Return the started jobs of a queue whose worker has missed its deadline."""
        key = queue.started_job_registry.key
        entries: Any = self.connection.zrangebyscore(key, 0, current_timestamp(), withscores=True)
        return [Start(queue.name, as_text(member), deadline) for member, deadline in entries]

    def return_abandoned(self, queue: Queue, start: Start, *, may_fail: bool) -> None:
        """Put a job with checkpoints back, or fail it if it has died too often. RQ's cleanup handles others."""
        job_id, execution = parse_composite_key(start.member)
        if not self._returns(job_id):
            return
        outcome = self._put_back(job_id, queue, execution, "died", str(start.deadline), may_fail=may_fail)
        if outcome == "back":
            _log.warning("Worker %s: job %s goes on: its worker is gone", self.name, job_id)
        elif outcome == "hopeless":
            job = queue.fetch_job(job_id)
            if job is not None:
                super().handle_job_failure(job, queue, exc_string=hopeless(job_id))
            # RQ 2 leaves the entry, and its cleanup would retry or fail the job a second time.
            self.connection.zrem(queue.started_job_registry.key, start.member)

    def popped_jobs(self, queue: Queue) -> list[Popped]:
        """Return the jobs that a worker has taken and not begun, usually for some milliseconds."""
        return [(queue.key, job_id) for job_id in queue.intermediate_queue.get_job_ids()]

    def return_popped(self, queue: Queue, job_id: str) -> None:
        """Put a job with checkpoints back whose worker died before it began. RQ handles others."""
        if self._returns(job_id):
            self._put_back(job_id, queue, "", "never begun")

    def _returns(self, job_id: str) -> bool:
        """Return True if a job restarts after a hard end: it has had a checkpoint, or its pool requires one."""
        return bool(self._pool and self._pool.required) or bool(self.connection.exists(attempt_key(job_id)))

    def _put_back(
        self, job_id: str, queue: Queue, execution: str, why: str, deadline: str = "", *, may_fail: bool = True
    ) -> str:
        keys = (
            self.job_class.key_for(job_id),
            attempt_key(job_id),
            queue.key,
            queue.intermediate_queue_key,
            queue.started_job_registry.key,
            f"rq:executions:{job_id}",
        )
        seconds = current_timestamp()
        failed_by = seconds + FAIL_WITHIN if may_fail else ""
        arguments = (job_id, execution, why, deadline, utcformat(now()), self.most_deaths, LIFE, failed_by, seconds)
        reply: Any = self.connection.eval(_PUT_BACK, len(keys), *(as_text(key) for key in keys), *arguments)
        return as_text(reply)
