"""Jobs with checkpoints in the safe worker: they pause when it stops, and resume after a hard end.

- The worker stops: the job saves at its next offer and goes back to the head of its queue, with its id, arguments and
  retries unchanged.
- The job is killed: its worker, if that survives, or any other one once the heartbeat's deadline has passed, puts it
  there. After three such ends without a new checkpoint the job fails.
- Two attempts at once, after a partition: only the newest publishes a result or goes back to the queue.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

from redis import Redis
from redis.exceptions import WatchError
from rq import Queue, Retry, Worker
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

_log = logging.getLogger("rq.worker")

# KEYS: the job, its attempts, its queue, the queue's intermediate list and started jobs, the job's executions.
# ARGV: the job's id, the execution that is over ('' for a job that never began), why, the deadline that must have
# passed ('' for none), the time for people, MOST_DEATHS, LIFE.
# Reply: 'back', 'gone' (another worker has it, or it has ended), or 'hopeless' (it has died too often: it stays where
# it is, and its deaths are cleared).
_PUT_BACK = """
local job, attempts, queue, popped, started, executions = unpack(KEYS)
local id, execution, why, deadline = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local status = redis.call('HGET', job, 'status')
if status ~= 'started' and status ~= 'queued' then return 'gone' end
local member = id .. ':' .. execution
local until_ = execution ~= '' and redis.call('ZSCORE', started, member)
local held = until_ and (deadline == '' or tonumber(until_) <= tonumber(deadline))
local never_begun = execution == '' and redis.call('LPOS', popped, id)
if not held and not never_begun then return 'gone' end
if why == 'died' then
  local deaths = redis.call('HINCRBY', attempts, 'deaths', 1)
  if deaths >= tonumber(ARGV[6]) then
    redis.call('HSET', attempts, 'deaths', 0)
    return 'hopeless'
  end
end
redis.call('LREM', popped, 1, id)
if held then
  redis.call('ZREM', started, member)
  redis.call('ZREM', executions, execution)
  redis.call('DEL', 'rq:execution:' .. member)
end
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


@contextmanager
def _cleaning_started_jobs_as_of(deadline: int) -> Generator[None]:
    """Make RQ's cleanup use this deadline; RQ itself uses the present instant."""
    registry = cast("Any", StartedJobRegistry)
    cleanup = registry.cleanup

    def as_of(self: Any, _timestamp: object = None, exception_handlers: object = None) -> None:
        cleanup(self, deadline, exception_handlers)

    registry.cleanup = as_of
    try:
        yield
    finally:
        registry.cleanup = cleanup


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

    def clean_registries(self) -> None:
        self.clean_expired(current_timestamp())

    def clean_expired(self, deadline: int) -> None:
        """Clean the jobs past this deadline. Later ones wait for the next time, since RQ would fail them directly."""
        for queue in self.queues:
            self._return_abandoned(queue, deadline)
            self._return_popped(queue)
        with _cleaning_started_jobs_as_of(deadline):
            super().clean_registries()
        if self._pool is not None and time.monotonic() - self._swept_at > SWEEP_EVERY:
            self._swept_at = time.monotonic()
            problem = run("sweep")
            if problem:
                _log.warning("Worker %s: checkpoints of ended jobs stay: %s", self.name, problem)

    def _return_abandoned(self, queue: Queue, deadline: int) -> None:
        for job_id, execution in self._started(queue, deadline):
            if not self._returns(job_id):
                continue
            outcome = self._put_back(job_id, queue, execution, "died", str(deadline))
            if outcome == "back":
                _log.warning("Worker %s: job %s goes on: its worker is gone", self.name, job_id)
            elif outcome == "hopeless":
                job = queue.fetch_job(job_id)
                if job is not None:
                    super().handle_job_failure(job, queue, exc_string=hopeless(job_id))

    def _return_popped(self, queue: Queue) -> None:
        """Return jobs whose worker died between taking and beginning them; RQ would fail them."""
        popped, started = queue.intermediate_queue, {job for job, _ in self._started(queue)}
        for job_id in popped.get_job_ids():
            if job_id not in started and popped.should_be_cleaned_up(job_id) and self._returns(job_id):
                self._put_back(job_id, queue, "", "never begun")

    def _started(self, queue: Queue, until: float | str = "+inf") -> Iterator[tuple[str, str]]:
        members: Any = self.connection.zrangebyscore(queue.started_job_registry.key, 0, until)
        return (parse_composite_key(as_text(member)) for member in members)

    def _returns(self, job_id: str) -> bool:
        """Return True if a job restarts after a hard end: it has had a checkpoint, or its pool requires one."""
        return bool(self._pool and self._pool.required) or bool(self.connection.exists(attempt_key(job_id)))

    def _put_back(self, job_id: str, queue: Queue, execution: str, why: str, deadline: str = "") -> str:
        keys = (
            self.job_class.key_for(job_id),
            attempt_key(job_id),
            queue.key,
            queue.intermediate_queue_key,
            queue.started_job_registry.key,
            f"rq:executions:{job_id}",
        )
        arguments = (job_id, execution, why, deadline, utcformat(now()), self.most_deaths, LIFE)
        reply: Any = self.connection.eval(_PUT_BACK, len(keys), *(as_text(key) for key in keys), *arguments)
        return as_text(reply)
