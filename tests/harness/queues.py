"""A modelled Redis with RQ's habits: what a key shows, and what is true without any key showing it.

A job is waiting, in transit (popped; its worker still says idle), running, or over. After a loss of data the jobs in
pods go on, but no key shows them until they end: they are *hidden*. A dead pod's entry counts as running until its
deadline and is stale from then on, until some worker's maintenance puts the job back.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random

from controllers.ports import Known, PodName, PoolName
from tests.harness.agenda import Agenda

MAINTENANCE = 60.0  # seconds between two looks of a living worker at stale entries
DEAD_KEY = 90.0  # seconds that a dead worker's key lives on at most
FAILOVER = 2.3  # seconds until a new primary answers


@dataclass(slots=True, eq=False)
class Job:
    number: int
    seconds: float
    enqueued_at: float
    popped_at: float = 0.0
    hidden: bool = False  # no key shows it
    unseeable: bool = False  # and its worker's hash says idle: lost in a failover's gap, nobody could tell


@dataclass(slots=True, eq=False)
class JobQueue:
    """One pool's queue, by pod name."""

    waiting: deque[Job] = field(default_factory=deque[Job])
    transit: dict[PodName, Job] = field(default_factory=dict[PodName, Job])
    running: dict[PodName, Job] = field(default_factory=dict[PodName, Job])
    hidden: dict[PodName, Job] = field(default_factory=dict[PodName, Job])
    orphaned: list[Job] = field(default_factory=list[Job])  # entries of dead pods, not yet past their deadline
    stale: list[Job] = field(default_factory=list[Job])
    stale_since: float = 0.0
    workers: set[PodName] = field(default_factory=set[PodName])  # that registered
    known: bool = False  # in the server's register of queues
    spans: list[list[float]] = field(default_factory=list[list[float]])  # [start, end] of being in flight, as keys show

    @property
    def in_flight(self) -> int:
        return len(self.waiting) + len(self.transit) + len(self.running) + len(self.orphaned)

    def is_quiet(self) -> bool:
        return not (self.in_flight or self.hidden or self.stale)

    def note(self, now: float) -> None:
        """Keep the record of when anything was in flight."""
        open_span = bool(self.spans) and self.spans[-1][1] < 0
        if self.in_flight and not open_span:
            self.spans.append([now, -1.0])
        elif not self.in_flight and open_span:
            self.spans[-1][1] = now

    def was_empty(self, since: float, until: float, *, looks: Sequence[float] | None = None) -> bool:
        """Whether nothing was in flight then; given `looks`, nothing of what was there at one of these instants."""
        spans = [(start, end if end >= 0 else inf) for start, end in self.spans[-50:]]
        between = [(start, end) for start, end in spans if start < until and end > since]
        if looks is None:
            return not between
        return not any(start <= look <= end for start, end in between for look in looks[-200:])

    def snapshot(self) -> Known:
        free = self.workers.difference(self.running, self.hidden) | {
            pod for pod, job in self.hidden.items() if job.unseeable
        }
        return Known(
            waiting=len(self.waiting),
            in_transit=len(self.transit),
            running=len(self.running) + len(self.orphaned),
            stale=len(self.stale),
            idle=frozenset(free),
        )

    def hosts(self, known: Known) -> list[tuple[str, bool]]:
        return [(pod, pod in known.idle) for pod in sorted(self.workers)]


class Redis:
    """The server: `up`, or in one of its troubles. `idle_pods` is asked which pods wait for a job of a pool."""

    def __init__(self, agenda: Agenda, random: Random, pools: list[PoolName]) -> None:
        self._agenda = agenda
        self._random = random
        self.queues = {name: JobQueue() for name in pools}
        self.state = "up"
        self.generation = 1
        self.counts: Counter[str] = Counter()
        self.on_news: Callable[[PoolName], None] = lambda _pool: None
        self.on_return: Callable[[], None] = lambda: None
        self.on_cleared: Callable[[], None] = lambda: None
        self._jobs = 0
        self._stopped_at = 0.0

    @property
    def writable(self) -> bool:
        return self.state == "up"

    @property
    def readable(self) -> bool:
        return self.state in {"up", "full"}

    @property
    def identity(self) -> str:
        return f"run {self.generation}"

    @property
    def queues_known(self) -> int:
        return sum(queue.known for queue in self.queues.values())

    def enqueue(self, pool: PoolName, seconds: float) -> None:
        if not self.writable:
            self.counts["refused by redis"] += 1
            return
        self._jobs += 1
        queue = self.queues[pool]
        queue.known = True
        queue.waiting.append(Job(self._jobs, seconds, self._agenda.now))
        queue.note(self._agenda.now)
        self.counts["enqueued"] += 1
        self.on_news(pool)

    # --- troubles -------------------------------------------------------------------------------------------------

    def trouble(self, state: str) -> None:
        self.state = state
        self._stopped_at = self._agenda.now

    def recover(self) -> None:
        if self.state != "up":
            self.state = "up"
            self.on_return()

    def restart(self, *, empty: bool) -> None:
        """The server comes back as another process, with its data or without."""
        self.generation += 1
        if empty:
            for queue in self.queues.values():
                self._lose(queue)
            self.on_cleared()
        self.recover()

    def fail_over(self) -> None:
        """The new primary misses the last instants before the old one went away."""
        since = self._stopped_at - self._random.uniform(0, 0.5)
        self.generation += 1
        for queue in self.queues.values():
            kept = [job for job in queue.waiting if job.enqueued_at <= since]
            self.counts["lost by redis"] += len(queue.waiting) - len(kept)
            queue.waiting = deque(kept)
            for pods in (queue.transit, queue.running):
                for pod in [pod for pod, job in pods.items() if job.popped_at > since]:
                    self._hide(queue, pods, pod, unseeable=True)
            queue.note(self._agenda.now)
        self.recover()

    def _lose(self, queue: JobQueue) -> None:
        self.counts["lost by redis"] += len(queue.waiting) + len(queue.orphaned) + len(queue.stale)
        queue.waiting.clear()
        queue.orphaned.clear()
        queue.stale.clear()
        for pods in (queue.transit, queue.running):
            for pod in list(pods):
                self._hide(queue, pods, pod, unseeable=False)
        queue.workers.clear()
        queue.known = False
        queue.note(self._agenda.now)

    def _hide(self, queue: JobQueue, pods: dict[PodName, Job], pod: PodName, *, unseeable: bool) -> None:
        job = pods.pop(pod)
        job.hidden, job.unseeable = True, unseeable
        queue.hidden[pod] = job

    # --- what workers do ------------------------------------------------------------------------------------------

    def pop(self, pool: PoolName, pod: PodName) -> Job | None:
        queue = self.queues[pool]
        if not (self.writable and queue.waiting):
            return None
        job = queue.transit[pod] = queue.waiting.popleft()
        job.popped_at = self._agenda.now
        return job

    def start(self, pool: PoolName, pod: PodName) -> None:
        queue = self.queues[pool]
        if pod in queue.transit:
            queue.running[pod] = queue.transit.pop(pod)

    def finish(self, pool: PoolName, pod: PodName) -> None:
        queue = self.queues[pool]
        queue.running.pop(pod, None)
        queue.transit.pop(pod, None)
        queue.hidden.pop(pod, None)
        queue.workers.add(pod)
        queue.note(self._agenda.now)
        self.counts["done"] += 1

    def leave(self, pool: PoolName, pod: PodName) -> None:
        self.queues[pool].workers.discard(pod)

    def die(self, pool: PoolName, pod: PodName) -> None:
        """The pod is gone in the middle of whatever it did."""
        queue = self.queues[pool]
        job = queue.running.pop(pod, None) or queue.transit.pop(pod, None)
        if job is None:
            self._agenda.after(DEAD_KEY, lambda: queue.workers.discard(pod))  # it goes on saying idle
        else:
            queue.workers.discard(pod)
            queue.orphaned.append(job)
            self._agenda.after(self._random.uniform(20, 90), lambda: self._expire(pool, job))
        if queue.hidden.pop(pod, None) is not None:
            self.counts["lost by redis"] += 1
        queue.note(self._agenda.now)

    def _expire(self, pool: PoolName, job: Job) -> None:
        queue = self.queues[pool]
        if job in queue.orphaned:
            queue.orphaned.remove(job)
            queue.stale_since = self._agenda.now if not queue.stale else queue.stale_since
            queue.stale.append(job)
            queue.note(self._agenda.now)

    def maintain(self, pool: PoolName) -> float | None:
        """A worker's look at stale entries: their jobs wait again. Gives how long the oldest was stale."""
        queue = self.queues[pool]
        if not (self.writable and queue.stale):
            return None
        queue.waiting.extend(queue.stale)
        queue.stale.clear()
        queue.note(self._agenda.now)
        self.on_news(pool)
        return self._agenda.now - queue.stale_since
