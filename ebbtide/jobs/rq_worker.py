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
    from rq import Queue, suspension, worker_registration
    from rq.exceptions import DequeueTimeout, StopRequested
    from rq.job import Job
    from rq.registry import StartedJobRegistry
    from rq.timeouts import HorseMonitorTimeoutException
    from rq.utils import current_timestamp, now
except ModuleNotFoundError as missing:
    if missing.name != "rq":
        raise
    raise ModuleNotFoundError("ebbtide.jobs.rq_worker needs RQ: install ebbtide-jobs[rq]", name="rq") from None

from ebbtide.jobs.checkpoints.shared_memory import JobClock
from ebbtide.jobs.patience import Patience, is_outage, make_patient
from ebbtide.jobs.rq_checkpoints import CheckpointWorker
from ebbtide.jobs.stop_signals import COLD, WARM, stop_report
from ebbtide.jobs.unblocking import PopGate, Unblocker

RESULT_PATIENCE = 30 * 60.0  # seconds that a finished job waits for Redis to take its result
LAST_CHANCE = 30  # seconds that a worker has to send a heartbeat before its job is given up
SCHEDULER_STOPS_WITHIN = 5.0  # seconds
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
        self._overdue: dict[tuple[str, bytes, float], float] = {}  # starts past their deadline, and when first seen
        self._given_up = False
        self._monitored: Job | None = None
        self._options: dict[str, Any] = {}
        super().__init__(*args, **kwargs)

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
        """Kill the scheduler, which may be waiting for Redis. It holds no work: another moves the due jobs later."""
        process = self.scheduler and self.scheduler._process  # noqa: SLF001
        if process and process.is_alive():
            process.terminate()
            process.join(SCHEDULER_STOPS_WITHIN)
            process.kill()
            process.join()

    # --- waiting for Redis ----------------------------------------------------------------------------------------

    def _on_outage(self, error: Exception, waited: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # the thread that receives commands must resume afterwards; it ends with the process
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
        except Exception:  # it ends the worker, and in a pod the container: let the job end first
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
            "worker_ttl": self.worker_ttl,
            "maintenance_interval": self.maintenance_interval,
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

    def _listen_again(self) -> None:
        """Reconnect the connection for commands if it is dead: it only listens, so it may look healthy forever."""
        with suppress(ResponseError):  # a user without the right to this command
            subscribers: Any = self.connection.pubsub_numsub(self.pubsub_channel_name)
            if not subscribers[0][1]:
                pubsub: Any = self.pubsub
                with suppress(OSError, AttributeError):  # it has reconnected by itself
                    pubsub.connection._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001 - wakes the reader

    def clean_registries(self) -> None:
        """Clean expired jobs, but after an outage only when living workers had time to send a heartbeat."""
        deadline = current_timestamp()
        expired = self._starts_past(deadline)
        first_seen = {start: self._overdue.get(start, time.monotonic()) for start in expired}
        self._overdue = first_seen
        if all(time.monotonic() - since >= self.last_chance for since in first_seen.values()):
            self._overdue = {}
            self.clean_expired(deadline)

    def _starts_past(self, deadline: int) -> list[tuple[str, bytes, float]]:
        overdue: list[tuple[str, bytes, float]] = []
        for queue in self.queues:
            key = StartedJobRegistry(queue.name, connection=self.connection).key
            starts: Any = self.connection.zrangebyscore(key, 0, deadline, withscores=True)
            overdue += [(key, start, deadline) for start, deadline in starts]
        return overdue

    @property
    def dequeue_timeout(self) -> int:
        return min(super().dequeue_timeout, self.last_chance) if self._overdue else super().dequeue_timeout


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


_command = sys.modules.get("rq.cli.workers")  # present if `rq` imports this module, which it does first
if _command is not None:
    _command.is_suspended = _is_suspended  # pyright: ignore[reportAttributeAccessIssue] - what it imported
