"""One pool's queue and its workers in virtual time.

A worker takes the job at the head, holds it *in transit* for a moment (popped, registered nowhere as running, and the
worker still says "idle"), then runs it. That moment is where careless scaling loses jobs, so it is modelled and never
skipped. SIGTERM to a safe worker only sets a flag: the job it holds, in transit or running, ends first. A stock worker
(`safe_stop=False`) drops a job that is in transit. A job that loses its worker is *interrupted*, and its queue gets it
back, to start from zero.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from random import Random

from controllers.ports import Known
from ebbtide.simulator.timeline import Handle, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTimes:
    """Seconds. The pop window is a few milliseconds when measured; it grows with payload and network."""

    pop_s: float = 0.002  # from a job that waits and a worker that is free to the pop
    window_s: tuple[float, float] = (0.002, 0.050)
    idle_exit_s: float = 0.3


@dataclass(slots=True, eq=False)
class JobRun:
    """What becomes of one job. `started_at` is its first start."""

    submitted_at: float
    duration_s: float
    pool: str
    started_at: float | None = None
    done_at: float | None = None
    interruptions: int = 0


class _State(Enum):
    IDLE = auto()
    IN_TRANSIT = auto()
    RUNNING = auto()


@dataclass(slots=True, eq=False)
class _Worker:
    pod: str
    state: _State = _State.IDLE
    job: JobRun | None = None
    next_step: Handle | None = None
    stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEdges:
    """Whom a pool tells: that its counts changed, and that a stopping worker's process ended."""

    changed: Callable[[], None]
    exited: Callable[[str], None]


@dataclass(slots=True, eq=False)
class PoolQueue:
    """First in, first out; one job per worker."""

    timeline: Timeline
    rng: Random
    edges: PoolEdges
    safe_stop: bool = True
    times: WorkerTimes = WorkerTimes()
    _waiting: deque[JobRun] = field(default_factory=deque[JobRun])
    _workers: dict[str, _Worker] = field(default_factory=dict[str, _Worker])
    _free: dict[str, _Worker] = field(default_factory=dict[str, _Worker])  # blocked in their pop, longest first

    def enqueue(self, job: JobRun) -> None:
        self._waiting.append(job)
        self._pop_soon()
        self.edges.changed()

    def started(self, pod: str) -> None:
        """The worker process of a pod is up."""
        self._workers[pod] = self._free[pod] = _Worker(pod)
        self._pop_soon()
        self.edges.changed()

    def stop(self, pod: str) -> float | None:
        """SIGTERM: seconds until the process exits, or None if `edges.exited` will tell."""
        worker = self._workers[pod]
        worker.stopping = True
        self._free.pop(pod, None)
        if worker.state is _State.IN_TRANSIT and not self.safe_stop:
            self._interrupt(worker)
            worker.state = _State.IDLE
        return self.times.idle_exit_s if worker.job is None else None

    def gone(self, pod: str) -> None:
        """The pod no longer exists; a job it still held is interrupted. A pod that never ran is no error."""
        worker = self._workers.pop(pod, None)
        self._free.pop(pod, None)
        if worker is None:
            return
        if worker.job is not None:
            self._interrupt(worker)
        self.edges.changed()

    def reading(self) -> Known:
        """One atomic snapshot, as the real queue would show it now: a worker with a job in transit says "idle"."""
        states = [worker.state for worker in self._workers.values()]
        return Known(
            waiting=len(self._waiting),
            in_transit=states.count(_State.IN_TRANSIT),
            running=states.count(_State.RUNNING),
            oldest_wait=self._oldest_wait(),
            idle=frozenset(w.pod for w in self._workers.values() if w.state is not _State.RUNNING),
        )

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return sum(worker.state is _State.RUNNING for worker in self._workers.values())

    def _oldest_wait(self) -> timedelta | None:
        if not self._waiting:
            return None
        return timedelta(seconds=self.timeline.now - self._waiting[0].submitted_at)

    def _pop_soon(self) -> None:
        # One attempt per new job and per freed worker: so none of either can be forgotten.
        self.timeline.after(self.times.pop_s, self._pop)

    def _pop(self) -> None:
        if not self._waiting or not self._free:
            return
        worker = self._free.pop(next(iter(self._free)))
        worker.job = self._waiting.popleft()
        worker.state = _State.IN_TRANSIT
        window = self.rng.uniform(*self.times.window_s)
        worker.next_step = self.timeline.after(window, lambda: self._run(worker))
        self.edges.changed()

    def _run(self, worker: _Worker) -> None:
        job = _held(worker)
        worker.state = _State.RUNNING
        if job.started_at is None:
            job.started_at = self.timeline.now
        worker.next_step = self.timeline.after(job.duration_s, lambda: self._finish(worker))
        self.edges.changed()

    def _finish(self, worker: _Worker) -> None:
        _held(worker).done_at = self.timeline.now
        worker.job, worker.next_step, worker.state = None, None, _State.IDLE
        if worker.stopping:
            self.timeline.after(self.times.idle_exit_s, lambda: self._exit(worker))
        else:
            self._free[worker.pod] = worker
            self._pop_soon()
        self.edges.changed()

    def _exit(self, worker: _Worker) -> None:
        if worker.pod in self._workers:  # not killed meanwhile
            self.edges.exited(worker.pod)

    def _interrupt(self, worker: _Worker) -> None:
        job = _held(worker)
        if worker.next_step is not None:
            self.timeline.cancel(worker.next_step)
        worker.job, worker.next_step = None, None
        job.interruptions += 1
        self.enqueue(job)


def _held(worker: _Worker) -> JobRun:
    if worker.job is None:
        raise AssertionError(f"worker {worker.pod} holds no job")
    return worker.job
