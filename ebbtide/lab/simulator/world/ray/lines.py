"""One group of Ray workers in virtual time: its waiting tasks, and the tasks that each worker runs.

Strictly first come, first served: Ray has no priorities. A task starts on the oldest worker with enough free resources.
A task over several workers (a gang) starts when all its members fit, like a placement group, and later tasks wait
behind it. A worker that received SIGTERM takes no new tasks and finishes its running ones. The tasks of a lost worker
run again, from zero, in their former place in the line.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ebbtide.lab.simulator.results import ClusterSeries, RayGroupResult, SeriesRecorder
from ebbtide.lab.simulator.timeline import Handle, Timeline
from ebbtide.lab.simulator.world.ray.work import RayGroupPlan, RayWork, Size
from ebbtide.lab.simulator.world.waits import percentile

BUSY, IDLE = "busy", "idle"
EXIT_S = 1.0
"""The time from the last task of a stopping worker to the end of its process."""


@dataclass(slots=True, eq=False)
class Task:
    """One task, with all its members."""

    work: RayWork
    number: int  # in the order of requests
    requested_at: float
    began: Callable[[], None]
    ended: "Callable[[Task], None]"
    on: "list[RayWorker]" = field(default_factory=list["RayWorker"])
    began_at: float | None = None
    first_began_at: float | None = None
    ending: Handle | None = None


@dataclass(slots=True, eq=False)
class RayWorker:
    """A pod of the group with Ray running, and its free resources."""

    pod: str
    cpu_m: int
    memory_mib: int
    gpu: int
    tasks: dict[Task, None] = field(default_factory=dict[Task, None])
    idle_since: float | None = None  # None: it runs a task
    draining: bool = False

    def holds(self, size: Size) -> int:
        """The number of parts of this size that fit into the free resources."""
        fits = [
            have // need
            for have, need in ((self.cpu_m, size.cpu_m), (self.memory_mib, size.memory_mib), (self.gpu, size.gpu))
            if need
        ]
        return min(fits)

    def take(self, size: Size, parts: int = 1) -> None:
        self.cpu_m -= parts * size.cpu_m
        self.memory_mib -= parts * size.memory_mib
        self.gpu -= parts * size.gpu


@dataclass(slots=True)
class LineCounts:
    """Outcomes of the tasks of a group. Seconds are sums over the members of a task."""

    done: int = 0
    done_s: float = 0.0
    interrupted: int = 0  # attempts that were lost with their worker
    cancelled: int = 0  # tasks whose driver had ended
    lost_s: float = 0.0  # running time of both
    redone_s: float = 0.0  # the part of `done_s` that runs again, since the driver lost the results
    waits: list[float] = field(default_factory=list[float])  # from request to first start


@dataclass(slots=True, eq=False)
class Line:
    """`changed`: called after each change of workers and tasks. `exited`: a stopping worker's process has ended."""

    timeline: Timeline
    plan: RayGroupPlan
    changed: Callable[[], None]
    exited: Callable[[str], None]
    waiting: list[Task] = field(default_factory=list[Task])  # in the order of requests
    workers: dict[str, RayWorker] = field(default_factory=dict[str, RayWorker])  # by pod, oldest first
    counts: LineCounts = field(default_factory=LineCounts)
    running: int = 0  # tasks
    _requests: int = 0
    _placing: bool = False

    def request(self, work: RayWork, *, began: Callable[[], None], ended: Callable[[Task], None]) -> Task:
        """Enqueue a task. It begins after this call, so the caller has the task before `began` is called."""
        self._requests += 1
        task = Task(work, self._requests, self.timeline.now, began, ended)
        self.waiting.append(task)
        self._place_soon()
        return task

    def cancel(self, task: Task) -> None:
        """The driver of the task has ended. A task that has ended is no error."""
        place = bisect_left(self.waiting, task.number, key=_number)
        if place < len(self.waiting) and self.waiting[place] is task:
            del self.waiting[place]
        elif task.began_at is not None:
            self._break(task)
        else:
            return
        self.counts.cancelled += 1
        self._place()

    def started(self, pod: str) -> None:
        """A worker has joined."""
        size = self.plan.size
        self.workers[pod] = RayWorker(pod, size.cpu_m, size.memory_mib, size.gpu, idle_since=self.timeline.now)
        self._place()

    def stop(self, pod: str) -> float | None:
        """SIGTERM: seconds until the process exits, or None if `exited` follows."""
        worker = self.workers[pod]
        worker.draining = True
        self.changed()
        return None if worker.tasks else EXIT_S

    def gone(self, pod: str) -> None:
        """The pod no longer exists; its tasks run again. A pod that never joined is no error."""
        worker = self.workers.pop(pod, None)
        if worker is None:
            return
        for task in list(worker.tasks):
            self.counts.interrupted += 1
            self._break(task)
            insort(self.waiting, task, key=_number)
        self._place()

    @property
    def busy(self) -> int:
        return sum(worker.idle_since is None for worker in self.workers.values())

    @property
    def ready(self) -> list[RayWorker]:
        """The workers that take tasks."""
        return [worker for worker in self.workers.values() if not worker.draining]

    def lose(self, work: RayWork, tasks: int) -> None:
        """Tasks that had ended run again: their driver lost their results."""
        self.counts.redone_s += tasks * work.members * work.task_s

    def _place_soon(self) -> None:
        """Place all tasks of an instant together."""
        if not self._placing:
            self._placing = True
            self.timeline.after(0.0, self._place)

    def _place(self) -> None:
        self._placing = False
        while self.waiting and (places := self._places(self.waiting[0].work)):
            self._begin(self.waiting.pop(0), places)
        self.changed()

    def _places(self, work: RayWork) -> list[RayWorker]:
        """A worker for each member, or none at all."""
        places: list[RayWorker] = []
        for worker in self.workers.values():
            if not worker.draining:
                places += [worker] * min(worker.holds(work.size), work.members - len(places))
            if len(places) == work.members:
                return places
        return []

    def _begin(self, task: Task, places: list[RayWorker]) -> None:
        now = task.began_at = self.timeline.now
        if task.first_began_at is None:
            task.first_began_at = now
            self.counts.waits.append(now - task.requested_at)
        task.on = places
        self.running += 1
        for worker in places:
            worker.take(task.work.size)
            worker.tasks[task] = None
            worker.idle_since = None
        task.ending = self.timeline.after(task.work.task_s, lambda: self._end(task))
        task.began()

    def _end(self, task: Task) -> None:
        self.counts.done += 1
        self.counts.done_s += task.work.members * task.work.task_s
        self._release(task)
        task.ended(task)
        self._place()

    def _break(self, task: Task) -> None:
        if task.ending is not None:
            self.timeline.cancel(task.ending)
        if task.began_at is not None:
            self.counts.lost_s += task.work.members * (self.timeline.now - task.began_at)
        self._release(task)

    def _release(self, task: Task) -> None:
        places, task.on = task.on, []
        task.began_at = task.ending = None
        self.running -= 1
        for worker, parts in Counter(places).items():
            worker.take(task.work.size, -parts)
            del worker.tasks[task]
            if not worker.tasks:
                worker.idle_since = self.timeline.now
                if worker.draining and worker.pod in self.workers:
                    self.timeline.after(EXIT_S, self._exit(worker))

    def _exit(self, worker: RayWorker) -> Callable[[], None]:
        def exit_() -> None:
            if worker.pod in self.workers:  # not killed meanwhile
                self.exited(worker.pod)

        return exit_


def _number(task: Task) -> int:
    return task.number


def workers_lacking(line: Line, coming: int) -> int:
    """The number of additional workers that all waiting tasks need, by first fit; `coming` workers are still empty.

    Tasks of one size are counted together: a long line costs no more than a short one.
    """
    size = line.plan.size
    workers = [RayWorker(ready.pod, ready.cpu_m, ready.memory_mib, ready.gpu) for ready in line.ready]
    workers += [RayWorker("", size.cpu_m, size.memory_mib, size.gpu) for _ in range(coming)]
    lacking = 0
    for part, count in _parts(line):
        unplaced = count
        for worker in workers:
            fitting = min(worker.holds(part), unplaced)
            worker.take(part, fitting)
            unplaced -= fitting
        while unplaced > 0 and lacking < line.plan.max:
            worker = RayWorker("", size.cpu_m, size.memory_mib, size.gpu)
            fitting = min(worker.holds(part), unplaced)
            worker.take(part, fitting)
            workers.append(worker)
            unplaced -= fitting
            lacking += 1
    return lacking


def _parts(line: Line) -> Iterator[tuple[Size, int]]:
    counts: Counter[Size] = Counter()
    for task in line.waiting:
        counts[task.work.size] += task.work.members
    return iter(counts.items())


class GroupMeter:
    """Samples a group at its changes."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._recorder = SeriesRecorder((BUSY, IDLE))
        self.note()

    def note(self) -> None:
        line = self._line
        busy = line.busy
        workers = {BUSY: busy, IDLE: len(line.workers) - busy}
        self._recorder.sample(line.timeline.now, workers, len(line.waiting), line.running)

    def result(self, end_s: float) -> RayGroupResult:
        series, counts = self._recorder.series(), self._line.counts
        busy_h, idle_h = (_hours(series, kind, end_s) for kind in (BUSY, IDLE))
        return RayGroupResult(
            worker_hours=busy_h + idle_h,
            busy_hours=busy_h,
            most_workers=max(map(sum, zip(*series.nodes.values(), strict=True)), default=0),
            tasks_done=counts.done,
            tasks_interrupted=counts.interrupted,
            task_hours=counts.done_s / 3600,
            lost_task_s=counts.lost_s + counts.redone_s,
            wait_p50_s=percentile(counts.waits, 0.5),
            wait_p95_s=percentile(counts.waits, 0.95),
            series=series,
        )


def _hours(series: ClusterSeries, kind: str, end_s: float) -> float:
    ends = (*series.at[1:], end_s)
    steps = zip(series.nodes[kind], series.at, ends, strict=True)
    return sum(count * (end - at) for count, at, end in steps) / 3600
