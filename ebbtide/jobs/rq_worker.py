"""A worker for RQ that never loses a job when it is told to stop: `rq worker -w ebbtide.jobs.rq_worker.SafeWorker`.

The stock worker leaves at once when SIGTERM finds it "idle". But a worker that has just popped a job still counts as
idle, so the job is stranded (one queue) or lost for good (several queues). Here the signal only sets a flag and asks
the server to end the blocking pop. Whichever comes first, the end of the wait or a job, wins: a job runs to its end.

A second SIGTERM changes nothing, since no signal may cut a job short; a second SIGINT (Ctrl-C, or a second shutdown
command) still ends the job at once, as in RQ. Give the pod a grace period longer than the longest job.
"""

import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any, cast

from redis import Redis
from rq import Queue, Worker, worker_registration
from rq.exceptions import StopRequested
from rq.job import Job
from rq.utils import now

from ebbtide.jobs.unblocking import PopGate, Unblocker

_RQ_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


class InterruptibleQueue(Queue):
    """Pops on one known connection, so that another can ask the server to end the wait. Subclassed per worker."""

    gate: PopGate

    @classmethod
    def lmove(cls, connection: Redis, queue_key: str, timeout: int | None) -> Any:
        with connection.client() as single:
            cls.gate.enter(single)
            popped = None
            try:
                popped = super().lmove(single, queue_key, timeout)
            finally:
                cls.gate.leave(popped)
        return popped

    @classmethod
    def lpop(cls, queue_keys: Sequence[str], timeout: int | None, connection: Redis | None = None) -> Any:
        if connection is None:
            return super().lpop(queue_keys, timeout)
        with connection.client() as single:
            cls.gate.enter(single)
            popped = None
            try:
                popped = super().lpop(queue_keys, timeout, connection=single)
            finally:
                cls.gate.leave(popped)
        return popped


class SafeWorker(Worker):
    """Stops between jobs, never in one."""

    _gate: PopGate
    _unblocker: Unblocker

    def bootstrap(self, *args: Any, **kwargs: Any) -> None:
        self._gate = PopGate(StopRequested)
        popping: type[Any] = type("PoppingQueue", (InterruptibleQueue, self.queue_class), {"gate": self._gate})
        self.queue_class = popping
        self._unblocker = Unblocker(self._gate, self.connection.connection_pool, self._note_request)
        self._unblocker.start()
        # As process 1 of a container an unhandled SIGTERM is dropped: handle it from the first moment.
        self._install_signal_handlers()
        super().bootstrap(*args, **kwargs)

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        if self._gate.closed:
            if signum == signal.SIGINT:
                self.request_force_stop(signum, frame)
            return
        self._shutdown_requested_date = now()
        self._stop_requested = True
        self._gate.closed = True
        self._unblocker.ask()

    def _note_request(self, connection: Redis) -> None:
        connection.hset(self.key, "shutdown_requested_date", now().strftime(_RQ_TIME))

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        self._gate.empty_handed = True
        try:
            return super().dequeue_job_and_maintain_ttl(timeout, max_idle_time)
        finally:
            self._gate.empty_handed = False

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        # RQ beats at the start of every round of its dequeue loop: the place to leave it, even with Redis away.
        if self._gate.closed and self._gate.empty_handed:
            raise StopRequested
        super().heartbeat(timeout, pipeline)
        if pipeline is None and not self.connection.hexists(self.key, "state"):
            self._register_anew()

    def _register_anew(self) -> None:
        """A Redis that lost its data forgot this worker, whose pod would count as busy for as long as it lives."""
        with self.connection.pipeline() as pipeline:
            told = cast("dict[Any, Any]", self.serialize()) | {"state": self.get_state()}
            pipeline.hset(self.key, mapping=told)
            worker_registration.register(self, pipeline)
            pipeline.execute()

    def teardown(self) -> None:
        super().teardown()
        if not self.is_horse:
            self._unblocker.finish()
