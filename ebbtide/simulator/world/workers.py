"""One pool's queue and its workers in virtual time.

A worker takes the job at the head, holds it *in transit* for a moment (popped, registered nowhere as running, and the
worker still says "idle"), then runs it. That moment is where careless scaling loses jobs, so it is modelled and never
skipped. SIGTERM to a safe worker only sets a flag: the job it holds, in transit or running, ends first. A stock worker
(`safe_stop=False`) drops a job that is in transit. A job that loses its worker is *interrupted*, and its queue gets it
back, to start from zero.

In a pool with checkpoints (`saves`) SIGTERM interrupts the job at once: it saves, goes back to the head of the queue
and goes on from there. A worker that is killed costs the work since the last save, and its job goes to the head, too.

In a pool of drivers a job runs tasks on a Ray cluster (`ray`): it starts with its first task and ends with its last
one, and a driver that is interrupted takes its tasks along. A save of it keeps the tasks that have ended.

A job over several workers (a gang) is as many entries of one instant. A worker that popped one waits in the job for the
others: it is running as far as anybody can see. All members start when the last one has its worker, and end together.
A member that loses its worker before that goes back to the *head* of the queue, so that never two gangs are incomplete
because of one that came later; after that the whole gang is interrupted, and the other workers are free at once.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from random import Random

from controllers.ports import Known
from ebbtide.simulator.timeline import Handle, Timeline
from ebbtide.simulator.world.pools import PooledJob
from ebbtide.simulator.world.ray.drives import Drive, DriveEdges
from ebbtide.simulator.world.ray.work import RayWork
from ebbtide.simulator.world.saves import Saves


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTimes:
    """Seconds. The pop window is a few milliseconds when measured; it grows with payload and network."""

    pop_s: float = 0.002  # from a job that waits and a worker that is free to the pop
    window_s: tuple[float, float] = (0.002, 0.050)
    idle_exit_s: float = 0.3


@dataclass(slots=True, eq=False)
class JobRun:
    """What becomes of one job. `started_at` is its first start: of a gang, that of its last member."""

    submitted_at: float
    duration_s: float
    pool: str
    started_at: float | None = None
    done_at: float | None = None
    interruptions: int = 0
    members: int = 1  # workers that it needs at once
    lost_s: float = 0.0  # work that it has to do again, added up over its members and interruptions
    kept_s: float = 0.0  # of its duration what is done and saved: where it goes on
    saving_s: float = 0.0  # in which it saved instead of working, added up over its members
    resumes: int = 0  # attempts that went on from a save
    ray: RayWork | None = None  # of a driver: its tasks
    kept_tasks: int = 0  # of those what is done and saved


def runs_of(jobs: Iterable[PooledJob]) -> list[JobRun]:
    """Jobs to which nothing has happened yet, in the same order."""
    return [JobRun(job.submitted_at, job.duration_s, job.pool, members=job.members, ray=job.ray) for job in jobs]


class _State(Enum):
    IDLE = auto()
    IN_TRANSIT = auto()
    RUNNING = auto()


@dataclass(slots=True, eq=False)
class _Crew:
    """The workers that hold one job's members; it starts when they are all there."""

    job: JobRun
    arrived: "list[_Worker]" = field(default_factory=list["_Worker"])
    began: float | None = None
    told_at: float | None = None  # when it began its last save, since a worker of it was told to stop
    ending: Handle | None = None  # of the job, or of that save
    drive: Drive | None = None  # of a driver that has begun


@dataclass(slots=True, eq=False)
class _Worker:
    pod: str
    state: _State = _State.IDLE
    crew: _Crew | None = None
    popping: Handle | None = None  # the end of its pop window
    stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEdges:
    """Whom a pool tells: that its counts changed, and that a stopping worker's process ended."""

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
    _waiting: deque[JobRun] = field(default_factory=deque[JobRun])  # one entry per member
    _workers: dict[str, _Worker] = field(default_factory=dict[str, _Worker])
    _free: dict[str, _Worker] = field(default_factory=dict[str, _Worker])  # blocked in their pop, longest first
    _gathering: dict[JobRun, _Crew] = field(default_factory=dict[JobRun, _Crew])  # gangs that have not started
    _says_idle: set[str] = field(default_factory=set[str])  # kept by every change of state: a reading counts nothing
    _in_transit: int = 0
    _running: int = 0

    def enqueue(self, job: JobRun) -> None:
        for _ in range(job.members):
            self._waiting.append(job)
            self._pop_soon()
        self.edges.changed()

    def started(self, pod: str) -> None:
        """The worker process of a pod is up."""
        self._workers[pod] = self._free[pod] = _Worker(pod)
        self._says_idle.add(pod)
        self._pop_soon()
        self.edges.changed()

    def stop(self, pod: str) -> float | None:
        """SIGTERM: seconds until the process exits, or None if `edges.exited` will tell."""
        worker = self._workers[pod]
        worker.stopping = True
        self._free.pop(pod, None)
        if worker.state is _State.IN_TRANSIT and not self.safe_stop:
            self._interrupt(worker)
        elif worker.crew is not None and worker.crew.began is not None and self.saves is not None:
            self._pause(worker.crew, self.saves)
        return self.times.idle_exit_s if worker.crew is None else None

    def gone(self, pod: str) -> None:
        """The pod no longer exists; a job it still held is interrupted. A pod that never ran is no error."""
        worker = self._workers.pop(pod, None)
        if worker is None:
            return
        self._free.pop(pod, None)
        self._says_idle.discard(pod)
        if worker.crew is not None:
            self._interrupt(worker)
        self.edges.changed()

    def settle(self) -> None:
        """The replay is over: count the time that attempts under way have spent saving."""
        crews = dict.fromkeys(worker.crew for worker in self._workers.values())
        for crew in crews:
            if self.saves is not None and crew is not None and crew.began is not None:
                crew.job.saving_s += crew.job.members * _saving_s(crew, self.saves, self.timeline.now)

    def reading(self) -> Known:
        """One atomic snapshot, as the real queue would show it now: a worker with a job in transit says "idle"."""
        return Known(
            waiting=len(self._waiting),
            in_transit=self._in_transit,
            running=self._running,
            oldest_wait=self._oldest_wait(),
            idle=frozenset(self._says_idle),
        )

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Members that run, or wait in their worker for the rest of their gang."""
        return self._running

    def _oldest_wait(self) -> timedelta | None:
        if not self._waiting:
            return None
        return timedelta(seconds=self.timeline.now - self._waiting[0].submitted_at)

    def _pop_soon(self) -> None:
        # One attempt per new entry and per freed worker: so none of either can be forgotten.
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
        self._becomes(worker, _State.IN_TRANSIT)
        window = self.rng.uniform(*self.times.window_s)
        worker.popping = self.timeline.after(window, lambda: self._arrive(worker))
        self.edges.changed()

    def _arrive(self, worker: _Worker) -> None:
        """The worker runs its member's code, which begins by waiting for the others."""
        crew = _held(worker)
        worker.popping = None
        self._becomes(worker, _State.RUNNING)
        crew.arrived.append(worker)
        if len(crew.arrived) == crew.job.members:
            self._begin(crew)
        self.edges.changed()

    def _begin(self, crew: _Crew) -> None:
        self._gathering.pop(crew.job, None)
        job, saves = crew.job, self.saves
        crew.began = self.timeline.now
        job.resumes += job.kept_s > 0 or job.kept_tasks > 0
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
        work = job.duration_s - job.kept_s
        lasts = work if saves is None else saves.lasts(work)
        crew.ending = self.timeline.after(lasts, lambda: self._finish(crew, saving_s=lasts - work))

    def _drive(self, crew: _Crew, work: RayWork) -> None:
        job = crew.job
        if self.edges.drive is None:
            raise AssertionError(f"{job.pool}: a driver in a pool without a Ray cluster")

        def began() -> None:
            if job.started_at is None:
                job.started_at = self.timeline.now

        edges = DriveEdges(began=began, ended=lambda: self._finish(crew, saving_s=0.0))
        crew.drive = self.edges.drive(work, job.kept_tasks, edges)
        crew.drive.begin()

    def _finish(self, crew: _Crew, saving_s: float) -> None:
        crew.job.done_at = self.timeline.now
        crew.job.saving_s += crew.job.members * saving_s
        for worker in crew.arrived:
            self._release(worker)
        self.edges.changed()

    def _release(self, worker: _Worker) -> None:
        worker.crew = None
        self._becomes(worker, _State.IDLE)
        if worker.stopping:
            self.timeline.after(self.times.idle_exit_s, lambda: self._exit(worker))
        else:
            self._free[worker.pod] = worker
            self._pop_soon()

    def _exit(self, worker: _Worker) -> None:
        if worker.pod in self._workers:  # not killed meanwhile
            self.edges.exited(worker.pod)

    def _interrupt(self, worker: _Worker) -> None:
        """A worker loses the member that it holds."""
        crew = _held(worker)
        job = crew.job
        job.interruptions += 1
        if worker.popping is not None:
            self.timeline.cancel(worker.popping)
            worker.popping = None
        worker.crew = None
        self._becomes(worker, _State.IDLE)
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
        """A worker of the job was told to stop: the job saves once more, and all its workers are free then."""
        if crew.told_at is not None:
            return
        crew.told_at = self.timeline.now
        if crew.ending is not None:
            self.timeline.cancel(crew.ending)
        if crew.drive is None:
            rest_s = saves.rest_s(_ran_s(crew, crew.told_at))
        else:
            crew.drive.withdraw()
            rest_s = saves.takes_s
        crew.ending = self.timeline.after(rest_s, lambda: self._paused(crew, saves))

    def _paused(self, crew: _Crew, saves: Saves) -> None:
        crew.job.interruptions += 1
        self._account(crew, saves, saved=True)
        self._disband(crew)
        self.edges.changed()

    def _break_up(self, crew: _Crew, lost: _Worker) -> None:
        if crew.ending is not None:
            self.timeline.cancel(crew.ending)
        if crew.drive is not None and crew.told_at is None:
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
        """What its attempt leaves of a job that is interrupted."""
        job, now = crew.job, self.timeline.now
        if crew.drive is not None:
            self._account_drive(crew, crew.drive, saves, saved=saved)
            return
        stood = saves.standing(_ran_s(crew, now if crew.told_at is None else crew.told_at))
        job.saving_s += job.members * _saving_s(crew, saves, now)
        kept_s = stood.done_s if saved else stood.kept_s
        job.kept_s += kept_s
        job.lost_s += job.members * (stood.done_s - kept_s)

    def _account_drive(self, crew: _Crew, drive: Drive, saves: Saves, *, saved: bool) -> None:
        """A driver saves while its tasks run, so only its last save takes time; what ended since the one before is
        lost where it was not told.
        """
        job, now = crew.job, self.timeline.now
        told_at = now if crew.told_at is None else crew.told_at
        ran_s = _ran_s(crew, told_at)
        kept_s = ran_s if saved else ran_s - ran_s % saves.every_s
        job.saving_s += now - told_at
        job.lost_s += ran_s - kept_s
        job.kept_tasks += drive.keep(told_at - ran_s + kept_s)

    def _disband(self, crew: _Crew) -> None:
        for worker in crew.arrived:
            self._release(worker)
        self._put_back(crew.job)

    def _put_back(self, job: JobRun) -> None:
        """To the end of the queue, or to its head where jobs save: behind the rest of a gang that is incomplete, or
        two gangs could hold each other's workers for ever.
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

    def _becomes(self, worker: _Worker, state: _State) -> None:
        self._in_transit += (state is _State.IN_TRANSIT) - (worker.state is _State.IN_TRANSIT)
        self._running += (state is _State.RUNNING) - (worker.state is _State.RUNNING)
        if state is _State.RUNNING:
            self._says_idle.discard(worker.pod)
        elif worker.pod in self._workers:
            self._says_idle.add(worker.pod)
        worker.state = state


def _ran_s(crew: _Crew, until: float) -> float:
    """How long the attempt ran."""
    return until - (until if crew.began is None else crew.began)


def _saving_s(crew: _Crew, saves: Saves, now: float) -> float:
    """How much of the attempt each member spent saving, the last save included if it has begun."""
    told_at = now if crew.told_at is None else crew.told_at
    if crew.drive is not None:
        return now - told_at
    return saves.standing(_ran_s(crew, told_at)).saving_s + now - told_at


def _held(worker: _Worker) -> _Crew:
    if worker.crew is None:
        raise AssertionError(f"worker {worker.pod} holds no job")
    return worker.crew
