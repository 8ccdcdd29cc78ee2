"""A worker for RQ that never loses a job when it stops: `rq worker -w ebbtide.jobs.rq_worker.SafeWorker`.

The stock worker exits at once when SIGTERM finds it "idle". But a worker that has just popped a job still counts as
idle, so the job is stranded (one queue) or lost for good (several queues). Here the signal only sets a flag and asks
the server to end the blocking pop. The server decides whether the pop ends empty or with a job; a job runs to its end.

A second SIGTERM changes nothing, since no signal may interrupt a job; a second SIGINT (Ctrl-C, or a second shutdown
command) still ends the job at once, as in RQ. Give the pod a grace period longer than the longest job.

While Redis is unavailable, full or failing over it loses no job either; the stock worker ends at its next heartbeat.
Every command waits (`patience`). The job's own process waits at most `RESULT_PATIENCE` to store the result. A worker
that gets a signal meanwhile exits when the job is over, or at once if it has none.
"""

import inspect
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from types import FrameType
from typing import Any, NoReturn, cast

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from ebbtide.jobs.rq_versions import refusal

try:
    from rq.version import VERSION

    _why = refusal(VERSION, os.environ)
    if _why:
        sys.exit(_why)  # before the first pop, and before imports that another RQ may lack
    from rq import Queue, scheduler, suspension, worker_registration
    from rq.exceptions import DequeueTimeout, StopRequested
    from rq.job import Job
    from rq.scripts import release_lock  # pyright: ignore[reportUnknownVariableType] - its connection has no type
    from rq.timeouts import HorseMonitorTimeoutException
    from rq.utils import now
except ModuleNotFoundError as missing:
    if missing.name != "rq":
        raise
    raise ModuleNotFoundError("ebbtide.jobs.rq_worker needs RQ: install ebbtide-jobs[rq]", name="rq") from None

from ebbtide.jobs.checkpoints.shared_memory import JobClock
from ebbtide.jobs.last_chance import LastChance
from ebbtide.jobs.patience import Patience, is_outage, make_patient
from ebbtide.jobs.rq_checkpoints import CheckpointWorker, Popped, Start, cleaning_limit
from ebbtide.jobs.stop_signals import COLD, WARM, stop_report
from ebbtide.jobs.unblocking import PopGate, Unblocker

RESULT_PATIENCE = 30 * 60.0  # seconds that a finished job waits for Redis to take its result
LAST_CHANCE = 30  # seconds that a worker has to send a heartbeat before its job is given up
STUCK_AFTER = 60  # seconds between taking a job and beginning it, which take milliseconds
LOOK_EVERY = 10  # seconds: the longest pop of an idle worker, which then looks for jobs and schedulers of dead workers
MAINTENANCE_EVERY = 40  # seconds; RQ's default is ten minutes
LATE = 5.0  # seconds that a look may come late without an outage
SCHEDULER_STOPS_WITHIN = 5  # seconds
REPORTED = ("burst", "max_jobs", "max_idle_time", "with_scheduler")  # arguments of `work` in the worker's report

_RQ_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_log = logging.getLogger("rq.worker")


class InterruptibleQueue(Queue):
    """Pops on one known connection, so that another can ask the server to end the wait. Subclassed per worker."""

    gate: PopGate

    @classmethod
    def lmove(cls, connection: Redis, queue_key: str, timeout: int | None) -> Any:
        return cls._pop(connection, lambda single: super(InterruptibleQueue, cls).lmove(single, queue_key, timeout))

    @classmethod
    def lpop(cls, queue_keys: Sequence[str], timeout: int | None, connection: Redis | None = None) -> Any:
        if connection is None:
            return super().lpop(queue_keys, timeout)
        return cls._pop(connection, lambda single: super(InterruptibleQueue, cls).lpop(queue_keys, timeout, single))

    @classmethod
    def _pop(cls, connection: Redis, pop: Callable[[Redis], Any]) -> Any:
        """Pop; an outage counts as an empty queue, since RQ continues with a heartbeat, which waits for Redis."""
        with connection.client() as single:
            cls.gate.enter(single)
            popped = None
            try:
                popped = pop(single)
            except RedisError as error:
                if not is_outage(error):
                    raise
                raise DequeueTimeout(0, cls.__name__) from error
            finally:
                cls.gate.leave(popped)
        return popped


class SafeWorker(CheckpointWorker):
    """Stops between jobs, never during one; survives an outage of Redis."""

    result_patience = RESULT_PATIENCE
    last_chance = LAST_CHANCE

    _gate: PopGate
    _unblocker: Unblocker

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._gate = PopGate(StopRequested)
        self._clock = JobClock()
        self._given_up = False
        self._monitored: Job | None = None
        self._options: dict[str, Any] = {}
        self._chances = LastChance[Start](self.last_chance)
        self._stuck = LastChance[Popped](STUCK_AFTER)
        self._looked_at = float("-inf")
        self._takes_over = False
        super().__init__(*args, **kwargs)
        self.maintenance_interval = min(self.maintenance_interval, MAINTENANCE_EVERY)

    def _set_ip_address(self, connection: Redis) -> None:
        # A worker's first command. A copy that RQ creates only to inspect a worker never runs this.
        make_patient(connection, Patience(self._on_outage))
        super()._set_ip_address(connection)

    def work(self, *args: Any, **kwargs: Any) -> bool:
        call = inspect.signature(super().work).bind(*args, **kwargs)
        call.apply_defaults()
        self._options = {name: call.arguments.get(name) for name in REPORTED}
        try:
            return super().work(*args, **kwargs)
        except StopRequested:  # stopped before it was ready
            return False

    def bootstrap(self, *args: Any, **kwargs: Any) -> None:
        popping: type[Any] = type("PoppingQueue", (InterruptibleQueue, self.queue_class), {"gate": self._gate})
        self.queue_class = popping
        self._unblocker = Unblocker(self._gate, self.connection.connection_pool, self._note_request)
        self._unblocker.start()
        # For process 1 of a container an unhandled SIGTERM is dropped: handle it from the first moment.
        self._install_signal_handlers()
        self.await_checkpoints(lambda: self._gate.closed)
        if self._gate.closed:
            raise StopRequested
        super().bootstrap(*args, **kwargs)
        self.share_log_handlers()

    # --- stopping -------------------------------------------------------------------------------------------------

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        if self._gate.closed:
            if signum == signal.SIGINT:
                self.request_force_stop(signum, frame)
            return
        self._shutdown_requested_date = now()
        self._stop_requested = True
        self._stop_flag.set()
        self._gate.closed = True
        self._unblocker.ask()

    def _note_request(self, connection: Redis) -> None:
        if connection.exists(self.key):  # else not registered yet: its own hash would look like another worker's
            connection.hset(self.key, "shutdown_requested_date", now().strftime(_RQ_TIME))

    def teardown(self) -> None:
        if self.is_horse:
            return
        self._gate.closed = True  # no command waits for Redis any more
        try:
            super().teardown()
        except (RedisError, StopRequested) as error:
            why = error.__cause__ or error
            _log.warning("Worker %s: left without unregistering, since Redis cannot be used: %s", self.name, why)
        self._unblocker.finish()

    def unsubscribe(self) -> None:
        """Leave RQ's channel of commands. A failure is logged: the worker has already unregistered."""
        try:
            super().unsubscribe()
        except Exception as error:  # of any kind: RQ's thread may be reconnecting the same connection
            _log.warning("Worker %s: left without unsubscribing: %r", self.name, error)

    def stop_scheduler(self) -> None:
        """End the scheduler, which may be waiting for Redis, and release its locks. It holds no work.

        Locks of a killed scheduler live for a minute, in which no other worker moves due jobs.
        """
        if self.scheduler is None:
            return
        process = self.scheduler._process  # noqa: SLF001
        if process:
            for _ in range(SCHEDULER_STOPS_WITHIN):
                if process.is_alive():
                    process.terminate()  # repeated: a signal before it has its own handler is lost
                    process.join(1)
            process.kill()
            process.join()
        for queue in self.queues:
            release_lock(self.connection, scheduler.RQScheduler.get_locking_key(queue.name), self.scheduler.name)

    def _start_scheduler(self, burst: bool = False, *args: Any, **kwargs: Any) -> None:  # noqa: FBT001, FBT002 - RQ's signature
        super()._start_scheduler(burst, *args, **kwargs)
        self._takes_over = not burst

    def _take_over_scheduling(self) -> None:
        """Start a scheduler if the one of another worker, which held the locks, has ended."""
        ours = self.scheduler
        if ours and self._takes_over and not (ours._process and ours._process.is_alive()):  # noqa: SLF001
            ours.acquire_locks(auto_start=True)

    # --- waiting for Redis ----------------------------------------------------------------------------------------

    def _on_outage(self, error: Exception, waited: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # the thread that receives commands must resume afterwards; it ends with the process
        self._chances.restart()
        self._stuck.restart()
        if self.is_horse:
            self._on_outage_in_horse(error, waited)
        elif self._gate.client_id is not None:
            raise error  # a pop that is repeated on another connection could not be ended
        elif self._gate.closed and (self._gate.empty_handed or self._horse_has_ended()):
            raise StopRequested from error

    def _on_outage_in_horse(self, error: Exception, waited: float) -> None:
        if waited < self.result_patience and not self._given_up:
            return
        if not self._given_up:
            job = self.begun.job_id if self.begun else "?"
            _log.error(
                "Redis could not be used for %d s: giving up on job %s, which RQ will retry or fail", waited, job
            )
        self._given_up = True
        raise error

    def _horse_has_ended(self) -> bool:
        if not self.horse_pid:
            return False
        try:
            return os.waitid(os.P_PID, self.horse_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    # --- a job ----------------------------------------------------------------------------------------------------

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        self._clock.stop()
        super().fork_work_horse(job, queue)

    def prepare_job_execution(self, job: Job, remove_from_intermediate_queue: bool = False) -> None:  # noqa: FBT001, FBT002 - RQ's signature
        super().prepare_job_execution(job, remove_from_intermediate_queue)
        self._clock.start()

    def handle_execution_ended(self, job: Job, queue: Queue, heartbeat_ttl: int) -> None:
        self._clock.stop()
        super().handle_execution_ended(job, queue, heartbeat_ttl)

    def cleanup_execution(self, job: Job, pipeline: Any, **execution: Any) -> None:
        """Restore the execution, which RQ 2 forgets before a transaction that it may have to repeat."""
        super().cleanup_execution(job, pipeline, **execution)
        if self.is_horse and not execution:
            self.execution = self.begun

    def monitor_work_horse(self, job: Job, queue: Queue, *execution: Any) -> None:
        self._monitored = job
        try:
            super().monitor_work_horse(job, queue, *execution)
        except (StopRequested, SystemExit):
            raise
        except Exception:  # the error ends the worker, and in a pod the container: let the job end first
            if self.horse_pid:
                _log.exception("Worker %s: cannot continue; exits when job %s has ended", self.name, job.id)
                self.wait_for_horse()
            raise

    def wait_for_horse(self) -> Any:
        try:
            ended = super().wait_for_horse()
        except HorseMonitorTimeoutException:
            self._exclude_waits()
            raise
        self._gate.empty_handed = True
        return ended

    def _exclude_waits(self) -> None:
        """Move the job's start: RQ's limit counts from it, and must not include waits for Redis."""
        job = self._monitored
        if job is not None and job.started_at is not None:
            job.started_at = max(job.started_at, now() - timedelta(seconds=self._clock.seconds))

    # --- registration ---------------------------------------------------------------------------------------------

    def serialize(self) -> dict[str, Any]:
        """Add the report of this worker's options and handlers to the hash that RQ writes when a worker registers."""
        report = {
            **self._options,
            "results_ttl": self.default_result_ttl,
            **stop_report(_own_handler),
        }
        return cast("dict[str, Any]", super().serialize()) | {"ebbtide": json.dumps(report)}

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        # RQ sends a heartbeat at each start of its dequeue loop: the place to leave the loop, even during an outage.
        if self._gate.closed and self._gate.empty_handed:
            raise StopRequested
        super().heartbeat(timeout, pipeline)
        if pipeline is None and self._gate.empty_handed:  # a popped job must begin first
            self._stay_registered()
            if time.monotonic() - self._looked_at >= self.dequeue_timeout / 2:  # not after each of many short jobs
                self._take_over_scheduling()
                self._return_abandoned(may_fail=True)

    def _stay_registered(self) -> None:
        if not self._is_registered():
            self._register_again()
        self._listen_again()

    def _is_registered(self) -> bool:
        with self.connection.pipeline() as pipeline:
            pipeline.hmget(self.key, "state", "hostname")
            pipeline.sismember(self.redis_workers_keys, self.key)
            fields, listed = pipeline.execute()
        return bool(listed) and None not in fields

    def _register_again(self) -> None:
        """Register after data loss or a long outage.

        Otherwise the pod would count as busy forever, or a busy one as idle if an idle worker shares the pod.
        """
        with self.connection.pipeline() as pipeline:
            fields = cast("dict[Any, Any]", self.serialize()) | {"state": self.get_state()}
            pipeline.hset(self.key, mapping=fields)
            worker_registration.register(self, pipeline)
            pipeline.execute()

    def maintain_heartbeats(self, job: Job, *execution: Any) -> None:
        super().maintain_heartbeats(job, *execution)
        self._stay_registered()
        self._return_abandoned(may_fail=False)  # RQ 2 would end the present execution with the failed one

    def _listen_again(self) -> None:
        """Reconnect the connection for commands if it is dead: it only listens, so it may look healthy forever."""
        with suppress(ResponseError):  # a user without the right to this command
            subscribers: Any = self.connection.pubsub_numsub(self.pubsub_channel_name)
            if not subscribers[0][1]:
                pubsub: Any = self.pubsub
                with suppress(OSError, AttributeError):  # it has reconnected by itself
                    pubsub.connection._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001 - wakes the reader

    # --- the dead -------------------------------------------------------------------------------------------------

    def clean_registries(self) -> None:
        """Run RQ's maintenance on abandoned jobs only: after an outage living workers need time for a heartbeat."""
        self.clean_up_to(*self._return_abandoned(may_fail=True))

    def _return_abandoned(self, *, may_fail: bool) -> tuple[dict[str, float], set[Popped]]:
        """Put abandoned jobs with checkpoints back. Return what RQ may clean: deadlines by queue, and popped jobs."""
        overdue = {queue.name: self.overdue_starts(queue) for queue in self.queues}
        popped = {queue.name: self.popped_jobs(queue) for queue in self.queues}
        self._looked_at = time.monotonic()
        longest_gap = self.dequeue_timeout + self.job_monitoring_interval + LATE
        abandoned = self._chances.abandoned(chain(*overdue.values()), self._looked_at, longest_gap=longest_gap)
        stuck = self._stuck.abandoned(chain(*popped.values()), self._looked_at, longest_gap=longest_gap)
        for queue in self.queues:
            for start in reversed(overdue[queue.name]):  # each goes to the head: the one lost first ends in front
                if start in abandoned:
                    self.return_abandoned(queue, start, may_fail=may_fail)
            for job in popped[queue.name]:
                if job in stuck:
                    self.return_popped(queue, job[1])
        return {name: cleaning_limit(starts, abandoned) for name, starts in overdue.items()}, stuck

    @property
    def dequeue_timeout(self) -> int:
        return min(super().dequeue_timeout, LOOK_EVERY)

    @property
    def connection_timeout(self) -> int:
        """Seconds until an unanswered command is repeated: RQ's, since a job's commands use the connection."""
        return super().dequeue_timeout + 10


def _own_handler(handler: Any) -> str | None:
    method = getattr(handler, "__func__", None)
    if method is SafeWorker.request_force_stop:
        return COLD
    return WARM if method is SafeWorker.request_stop else None


def _is_suspended(connection: Redis, worker: Any = None) -> Any:
    """Replace the check of `rq worker` before it creates the worker: without Redis the pod would crash in a loop."""
    signal.signal(signal.SIGTERM, _leave)
    make_patient(connection, Patience())
    return suspension.is_suspended(connection, worker)


def _leave(_signum: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


# A scheduler that has the locks of some of its queues tries the others this often; RQ's default is two minutes.
scheduler.DEFAULT_SCHEDULER_FALLBACK_PERIOD = LOOK_EVERY  # pyright: ignore[reportPrivateImportUsage] - what it imported

_command = sys.modules.get("rq.cli.workers")  # present if `rq` imports this module, which it does first
if _command is not None:
    _command.is_suspended = _is_suspended  # pyright: ignore[reportAttributeAccessIssue] - what it imported
