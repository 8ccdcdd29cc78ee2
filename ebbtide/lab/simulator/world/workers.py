"""The queue of a pool and its workers in virtual time.

A worker pops the job at the head, holds it *in transit* for a moment (popped, not registered as running, while the
worker still reports "idle"), then runs it. Careless scaling loses jobs in that moment, so it is always modelled.
SIGTERM to a safe worker only sets a flag: its job, in transit or running, ends first. A stock worker
(`safe_stop=False`) drops a job in transit. A job that loses its worker is *interrupted*: it returns to its queue and
starts from zero.

In a pool with checkpoints (`saves`) SIGTERM interrupts the job at once: it saves, returns to the head of the queue and
continues from there. A worker that is killed loses the work since the last save; its job returns to the head, too.

In a pool of drivers a job runs tasks on a Ray cluster (`ray`). It starts with its first task and ends with its last
one; if it is interrupted its tasks are cancelled. Its save includes the tasks that have ended.

A job over several workers (a gang) has an entry for each member, all enqueued at one instant. A worker that popped an
entry waits in the job for the others and counts as running. All members start when the last one has its worker, and end
together. A member that loses its worker before the start returns to the *head* of the queue, so a later gang never
becomes incomplete, too. After the start a lost worker interrupts the entire gang, and the other workers are free at
once.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from random import Random

from controllers.ports import Known
from ebbtide.lab.simulator.timeline import Handle, Timeline
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.lab.simulator.world.ray.drives import Drive, DriveEdges
from ebbtide.lab.simulator.world.ray.work import RayWork
from ebbtide.lab.simulator.world.saves import Saves


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTimes:
    """Seconds. Measured pop windows are a few milliseconds; they grow with payload and network."""

    pop_s: float = 0.002  # from a waiting job and a free worker to the pop
    window_s: tuple[float, float] = (0.002, 0.050)
    idle_exit_s: float = 0.3


@dataclass(slots=True, eq=False)
class JobRun:
    """The state of one job. `started_at`: its first start; of a gang, when its last member has a worker."""

    submitted_at: float
    duration_s: float
    pool: str
    started_at: float | None = None
    done_at: float | None = None
    interruptions: int = 0
    members: int = 1  # workers at once
    lost_s: float = 0.0  # repeated work, a sum over members and interruptions
    saved_s: float = 0.0  # the part of its duration that is done and saved
    saving_s: float = 0.0  # time spent saving, a sum over members
    resumes: int = 0  # attempts that continued from a save
    ray: RayWork | None = None  # the tasks of a driver
    saved_tasks: int = 0  # tasks that are done and saved


def runs_of(jobs: Iterable[PooledJob]) -> list[JobRun]:
    """The initial state of each job, in the same order."""
    return [JobRun(job.submitted_at, job.duration_s, job.pool, members=job.members, ray=job.ray) for job in jobs]


class _State(Enum):
    IDLE = auto()
    IN_TRANSIT = auto()
    RUNNING = auto()


@dataclass(slots=True, eq=False)
class _Crew:
    """The workers with the members of one job, which starts when all have arrived."""

    job: JobRun
    arrived: "list[_Worker]" = field(default_factory=list["_Worker"])
    began: float | None = None
    pausing_since: float | None = None  # the begin of its last save, after SIGTERM to one of its workers
    ending: Handle | None = None  # the end of the job, or of that save
    drive: Drive | None = None  # of a driver that has started


@dataclass(slots=True, eq=False)
class _Worker:
    pod: str
    state: _State = _State.IDLE
    crew: _Crew | None = None
    popping: Handle | None = None  # the end of its pop window
    stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEdges:
    """Callbacks of a pool: its counts changed; the process of a stopping worker ended."""

    changed: Callable[[], None]
    exited: Callable[[str], None]
    drive: "Callable[[RayWork, int, DriveEdges], Drive] | None" = None  # for a pool of drivers


@dataclass(slots=True, eq=False)
class PoolQueue:
    """First in, first out; one job per worker."""

    timeline: Timeline
    rng: Random
    edges: PoolEdges
    safe_stop: bool = True
    times: WorkerTimes = WorkerTimes()
    saves: Saves | None = None  # None: a pool without checkpoints
    one_job: bool = False  # a worker ends with its first job
    _waiting: deque[JobRun] = field(default_factory=deque[JobRun])  # one entry per member
    _workers: dict[str, _Worker] = field(default_factory=dict[str, _Worker])
    _free: dict[str, _Worker] = field(default_factory=dict[str, _Worker])  # blocked in their pop, longest wait first
    _gathering: dict[JobRun, _Crew] = field(default_factory=dict[JobRun, _Crew])  # gangs that have not started
    _reports_idle: set[str] = field(default_factory=set[str])  # updated with each state, so a reading counts nothing
    _in_transit: int = 0
    _running: int = 0

    def enqueue(self, job: JobRun) -> None:
        for _ in range(job.members):
            self._waiting.append(job)
            self._pop_soon()
        self.edges.changed()

    def started(self, pod: str) -> None:
        """The worker process of a pod has started."""
        self._workers[pod] = self._free[pod] = _Worker(pod)
        self._reports_idle.add(pod)
        self._pop_soon()
        self.edges.changed()

    def stop(self, pod: str) -> float | None:
        """SIGTERM: seconds until the process exits, or None if `edges.exited` follows."""
        worker = self._workers[pod]
        worker.stopping = True
        self._free.pop(pod, None)
        if worker.state is _State.IN_TRANSIT and not self.safe_stop:
            self._interrupt(worker)
        elif worker.crew is not None and worker.crew.began is not None and self.saves is not None:
            self._pause(worker.crew, self.saves)
        return self.times.idle_exit_s if worker.crew is None else None

    def gone(self, pod: str) -> None:
        """The pod no longer exists; its job is interrupted. A pod that never ran is no error."""
        worker = self._workers.pop(pod, None)
        if worker is None:
            return
        self._free.pop(pod, None)
        self._reports_idle.discard(pod)
        if worker.crew is not None:
            self._interrupt(worker)
        self.edges.changed()

    def settle(self) -> None:
        """The replay is over: count the time that active attempts have spent saving."""
        crews = dict.fromkeys(worker.crew for worker in self._workers.values())
        for crew in crews:
            if self.saves is not None and crew is not None and crew.began is not None:
                crew.job.saving_s += crew.job.members * _saving_s(crew, self.saves, self.timeline.now)

    def reading(self) -> Known:
        """An atomic snapshot, as the real queue would show it: a worker with a job in transit reports "idle"."""
        return Known(
            waiting=len(self._waiting),
            in_transit=self._in_transit,
            running=self._running,
            oldest_wait=self._oldest_wait(),
            idle=frozenset(self._reports_idle),
        )

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Members that run, or wait in their worker for their gang."""
        return self._running

    def _oldest_wait(self) -> timedelta | None:
        if not self._waiting:
            return None
        return timedelta(seconds=self.timeline.now - self._waiting[0].submitted_at)

    def _pop_soon(self) -> None:
        # One attempt per new entry and per freed worker, so neither can be missed.
        self.timeline.after(self.times.pop_s, self._pop)

    def _pop(self) -> None:
        if not self._waiting or not self._free:
            return
        worker = self._free.pop(next(iter(self._free)))
        job = self._waiting.popleft()
        if job.members == 1:
            worker.crew = _Crew(job)
        else:
            worker.crew = self._gathering.setdefault(job, _Crew(job))
        self._set_state(worker, _State.IN_TRANSIT)
        window = self.rng.uniform(*self.times.window_s)
        worker.popping = self.timeline.after(window, lambda: self._arrive(worker))
        self.edges.changed()

    def _arrive(self, worker: _Worker) -> None:
        """The worker runs its member's code, which first waits for the others."""
        crew = _crew_of(worker)
        worker.popping = None
        self._set_state(worker, _State.RUNNING)
        crew.arrived.append(worker)
        if len(crew.arrived) == crew.job.members:
            self._begin(crew)
        self.edges.changed()

    def _begin(self, crew: _Crew) -> None:
        self._gathering.pop(crew.job, None)
        job, saves = crew.job, self.saves
        crew.began = self.timeline.now
        job.resumes += job.saved_s > 0 or job.saved_tasks > 0
        if job.ray is not None:
            self._drive(crew, job.ray)
        else:
            self._run(crew)
        if saves is not None and any(worker.stopping for worker in crew.arrived):
            self._pause(crew, saves)

    def _run(self, crew: _Crew) -> None:
        job, saves = crew.job, self.saves
        if job.started_at is None:
            job.started_at = self.timeline.now
        work_s = job.duration_s - job.saved_s
        duration_s = work_s if saves is None else saves.lasts(work_s)
        crew.ending = self.timeline.after(duration_s, lambda: self._finish(crew, saving_s=duration_s - work_s))

    def _drive(self, crew: _Crew, work: RayWork) -> None:
        job = crew.job
        if self.edges.drive is None:
            raise AssertionError(f"{job.pool}: a driver in a pool without a Ray cluster")

        def began() -> None:
            if job.started_at is None:
                job.started_at = self.timeline.now

        edges = DriveEdges(began=began, ended=lambda: self._finish(crew, saving_s=0.0))
        crew.drive = self.edges.drive(work, job.saved_tasks, edges)
        crew.drive.begin()

    def _finish(self, crew: _Crew, saving_s: float) -> None:
        crew.job.done_at = self.timeline.now
        crew.job.saving_s += crew.job.members * saving_s
        for worker in crew.arrived:
            self._release(worker)
        self.edges.changed()

    def _release(self, worker: _Worker) -> None:
        worker.crew = None
        self._set_state(worker, _State.IDLE)
        if worker.stopping or self.one_job:
            self.timeline.after(self.times.idle_exit_s, lambda: self._exit(worker))
        else:
            self._free[worker.pod] = worker
            self._pop_soon()

    def _exit(self, worker: _Worker) -> None:
        if worker.pod in self._workers:  # not killed meanwhile
            self.edges.exited(worker.pod)

    def _interrupt(self, worker: _Worker) -> None:
        """A worker loses its member."""
        crew = _crew_of(worker)
        job = crew.job
        job.interruptions += 1
        if worker.popping is not None:
            self.timeline.cancel(worker.popping)
            worker.popping = None
        worker.crew = None
        self._set_state(worker, _State.IDLE)
        if crew.began is not None:
            self._break_up(crew, worker)
        elif job.members > 1:
            if worker in crew.arrived:
                crew.arrived.remove(worker)
            self._waiting.appendleft(job)
            self._pop_soon()
        else:
            self._put_back(job)
        self.edges.changed()

    def _pause(self, crew: _Crew, saves: Saves) -> None:
        """A worker of the job received SIGTERM: the job saves once more, then all its workers are free."""
        if crew.pausing_since is not None:
            return
        crew.pausing_since = self.timeline.now
        if crew.ending is not None:
            self.timeline.cancel(crew.ending)
        if crew.drive is None:
            until_saved_s = saves.until_saved_s(_ran_s(crew, crew.pausing_since))
        else:
            crew.drive.withdraw()
            until_saved_s = saves.takes_s
        crew.ending = self.timeline.after(until_saved_s, lambda: self._paused(crew, saves))

    def _paused(self, crew: _Crew, saves: Saves) -> None:
        crew.job.interruptions += 1
        self._account(crew, saves, saved=True)
        self._disband(crew)
        self.edges.changed()

    def _break_up(self, crew: _Crew, lost: _Worker) -> None:
        if crew.ending is not None:
            self.timeline.cancel(crew.ending)
        if crew.drive is not None and crew.pausing_since is None:
            crew.drive.withdraw()
        if self.saves is None:
            crew.job.lost_s += crew.job.members * _ran_s(crew, self.timeline.now)
            if crew.drive is not None:
                crew.drive.forget()
        else:
            self._account(crew, self.saves, saved=False)
        crew.arrived.remove(lost)
        self._disband(crew)

    def _account(self, crew: _Crew, saves: Saves, *, saved: bool) -> None:
        """Account for the attempt of a job that is interrupted: saved, lost and saving time."""
        job, now = crew.job, self.timeline.now
        if crew.drive is not None:
            self._account_drive(crew, crew.drive, saves, saved=saved)
            return
        standing = saves.standing(_ran_s(crew, now if crew.pausing_since is None else crew.pausing_since))
        job.saving_s += job.members * _saving_s(crew, saves, now)
        saved_s = standing.done_s if saved else standing.saved_s
        job.saved_s += saved_s
        job.lost_s += job.members * (standing.done_s - saved_s)

    def _account_drive(self, crew: _Crew, drive: Drive, saves: Saves, *, saved: bool) -> None:
        """A driver saves while its tasks run, so only its last save takes time. Without notice it loses the tasks that
        ended since the previous save.
        """
        job, now = crew.job, self.timeline.now
        pausing_since = now if crew.pausing_since is None else crew.pausing_since
        ran_s = _ran_s(crew, pausing_since)
        saved_s = ran_s if saved else ran_s - ran_s % saves.every_s
        job.saving_s += now - pausing_since
        job.lost_s += ran_s - saved_s
        job.saved_tasks += drive.keep(pausing_since - ran_s + saved_s)

    def _disband(self, crew: _Crew) -> None:
        for worker in crew.arrived:
            self._release(worker)
        self._put_back(crew.job)

    def _put_back(self, job: JobRun) -> None:
        """Append the job to the queue, or put it at the head in a pool with checkpoints. An incomplete gang stays ahead
        of it, or two gangs could hold each other's workers forever.
        """
        if self.saves is None:
            self.enqueue(job)
            return
        ahead: list[JobRun] = []
        while self._waiting and self._waiting[0] in self._gathering:
            ahead.append(self._waiting.popleft())
        for entry in (*[job] * job.members, *reversed(ahead)):
            self._waiting.appendleft(entry)
        for _ in range(job.members):
            self._pop_soon()
        self.edges.changed()

    def _set_state(self, worker: _Worker, state: _State) -> None:
        self._in_transit += (state is _State.IN_TRANSIT) - (worker.state is _State.IN_TRANSIT)
        self._running += (state is _State.RUNNING) - (worker.state is _State.RUNNING)
        if state is _State.RUNNING:
            self._reports_idle.discard(worker.pod)
        elif worker.pod in self._workers:
            self._reports_idle.add(worker.pod)
        worker.state = state


def _ran_s(crew: _Crew, until: float) -> float:
    """The running time of the attempt."""
    return until - (until if crew.began is None else crew.began)


def _saving_s(crew: _Crew, saves: Saves, now: float) -> float:
    """The time that each member of the attempt spent saving, including a last save that has begun."""
    pausing_since = now if crew.pausing_since is None else crew.pausing_since
    if crew.drive is not None:
        return now - pausing_since
    return saves.standing(_ran_s(crew, pausing_since)).saving_s + now - pausing_since


def _crew_of(worker: _Worker) -> _Crew:
    if worker.crew is None:
        raise AssertionError(f"worker {worker.pod} holds no job")
    return worker.crew
