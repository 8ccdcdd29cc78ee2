"""A model of a message broker, its workers and their reports, with the faults that were seen on real ones.

`BrokerWorld` holds what is true, and shows it late, wrongly or not at all to the rules of the controller. The loop and
the decisions are the controller's own.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from controllers.adapters.broker_rules import (
    RABBITMQ,
    SQS,
    Answer,
    BrokerRules,
    Count,
    Missing,
    Report,
    Reports,
    Timings,
)
from controllers.ports import PodName, PodPhase, PoolName, Ports, Reading, Unknown
from controllers.scaler.loop import Loop
from tests.builders.controllers import NOON, config, pool_policy, seconds
from tests.fakes import FakeCluster, ListJournal, ManualClock, ScriptedWaker

QUEUE = POOL = "train"
REPORT_LIFE = 15.0  # seconds until Redis drops a report without heartbeats
LATEST_COUNT = 4.7  # seconds by which a quorum queue's counts were late at worst
LATEST_OF_SQS = 60.0
SLOWEST_CACHE = 1.0  # seconds; a worker needs longer to start, so the controller sees its pod run before
KNOWN_AFTER = 3.0


def report(worker: str = "a", *, idle: bool = True, **more: object) -> Report:
    """A worker of a pod of the same name."""
    default = Report(worker=worker, host=worker, queues=frozenset({QUEUE}), idle=idle)
    return replace(default, **more)  # pyright: ignore[reportArgumentType]


def count(ready: int = 0, unacked: int = 0, consumers: int | None = 0, listed: int | None = None) -> Count:
    return Count(ready=ready, consumers=consumers, listed=ready if listed is None else listed, unacked=unacked)


def reports(*workers: Report, served: bool = True, **more: object) -> Reports:
    default = Reports(workers=workers, served=frozenset({QUEUE} if served else ()), identity="redis", size=1)
    return replace(default, **more)  # pyright: ignore[reportArgumentType]


@dataclass
class _Worker:
    name: str
    host: PodName
    reports: bool
    busy_since: float | None = None
    until: float = 0.0
    owns_message: bool = False  # False while busy: the broker has given the message out again
    away_until: float = 0.0  # without a connection to the broker
    silent_until: float = 0.0  # its reporting thread is stuck
    received: int = 0
    beats: int = 0
    beat_at: float = -9.0


class BrokerWorld:
    """One pool on RabbitMQ. `step` moves the world, `look` is one reconcile of the controller.

    A run's chances are fixed by its seed: late counts, rounds that are seconds apart, two workers in a pod, pods whose
    workers never report, a pool without our hooks.
    """

    timings: Timings = RABBITMQ
    steps = (0.3, 0.7, 1.0, 1.0, 1.3)  # seconds
    durations = ((0.5, 5, 30), (2, 20, 120), (1, 200, 1), (0.1, 0.3, 60))  # seconds of jobs
    arrivals = (0.03, 0.1, 0.3)  # per step
    lags = (0.0, LATEST_COUNT)  # classic, quorum
    rounds = (0.0, 1.0, 3.0, 5.0)  # seconds between two

    def __init__(self, seed: int, rules: Callable[[Timings], BrokerRules] | None = None) -> None:
        self.random = random.Random(seed)
        self._faults = self.random.choice([0.01, 0.03, 0.1])  # per step
        self._arrivals = self.random.choice(self.arrivals)
        self._durations = self.random.choice(self.durations)
        self._rules_of: Callable[[Timings], BrokerRules] = rules or partial(BrokerRules, POOL)
        self.clock = ManualClock(NOON)
        self.cluster = FakeCluster(self.clock, is_busy=self.is_busy)
        self.cluster.add_pool(POOL)
        self.cluster.pods_lag = seconds(self.random.choice([0, 0, SLOWEST_CACHE]))
        window = self.random.choice([0, 2, 8])
        self._config = config(pool_policy(name=POOL, queues=(QUEUE,), stabilization_window=seconds(window)))
        self.lag = self.random.choice(self.lags)
        self._pause = self.random.choice(self.rounds)
        self._crew = self.random.choice([1, 1, 2])  # workers in a pod
        self.has_hooks = self.random.random() < 0.85
        self._mute = self.random.choice([0.0, 0.0, 0.2]) if self.has_hooks else 1.0  # pods whose workers never report
        self.now, self.waiting = 0.0, 0
        self.workers: dict[str, _Worker] = {}
        self._born = self._link = self._redis = 0
        self._running_since: dict[PodName, float] = {}
        self._muted: dict[PodName, bool] = {}
        self._returning: list[float] = []  # instants at which messages of dead workers are waiting again
        self._stored: dict[str, tuple[float, Report]] = {}
        self._served = False
        self._past: list[tuple[float, int, int]] = []  # (at, ready, unacknowledged)
        self._round: tuple[float, Answer] | None = None
        self._nonzero_at = 0.0
        self._lie, self._lie_until = "", 0.0
        self._redis_down_until = 0.0
        self._reported: set[str] = set()  # workers whose reports this controller has seen
        self.seen_idle: set[PodName] = set()  # by the reports of the last look
        self.unreported: list[PodName] = []  # removed although a worker did not report idle
        self.too_early: list[str] = []  # lowerings that the counts did not allow
        self.stopped = 0  # pods that were removed with a worker
        self.restart_controller()

    def restart_controller(self) -> None:
        self._rules = self._rules_of(self.timings)
        self._reported = set()
        self._ports = Ports(
            demand=self,
            cluster=self.cluster,
            clock=self.clock,
            waker=ScriptedWaker(self.clock, ()),
            journal=ListJournal(),
        )
        self._loop = Loop(self._config, self._ports)

    def is_busy(self, pod: PodName) -> bool:
        return any(
            worker.host == pod and worker.busy_since is not None and self.now - worker.busy_since >= KNOWN_AFTER
            for worker in self.workers.values()
        )

    # --- the controller's side ------------------------------------------------------------------------------------

    def wrongs(self) -> list[str]:
        """Return what must never happen. A pool without hooks may fall to zero, and its workers then end their jobs."""
        return [*self.too_early, *([*self.cluster.removed_busy, *self.unreported] if self.has_hooks else [])]

    def look(self) -> None:
        before, staffed = len(self.cluster.removed), {worker.host for worker in self.workers.values()}
        replicas = self.cluster.replicas(POOL)
        self._loop.reconcile(self.clock.now())
        gone = [pod for pod in self.cluster.removed[before:] if pod in staffed]
        if self._served:
            self.unreported += [pod for pod in gone if pod not in self.seen_idle]
        self.stopped += len(gone)
        if gone and self.cluster.replicas(POOL) < replicas:
            self._judge(self.cluster.replicas(POOL))

    def _judge(self, replicas: int) -> None:
        zeros = self.now - self._nonzero_at
        if replicas == 0 and zeros < self.timings.empty_for:
            self.too_early.append(f"empty after {zeros:.0f} s of zeros")
        if not self.has_hooks and (replicas or zeros < self.timings.blind_for):
            self.too_early.append(f"without hooks to {replicas} after {zeros:.0f} s of zeros")

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        shown = self._shown_reports()
        if isinstance(shown, Reports):
            self._reported |= {worker.worker for worker in shown.workers}
            idle = {worker.worker for worker in shown.workers if worker.idle}
            living = [worker for worker in self.workers.values() if worker.name in self._reported]
            self.seen_idle = {worker.host for worker in shown.workers if worker.idle}
            self.seen_idle -= {worker.host for worker in living if worker.name not in idle}
            self.seen_idle -= {worker.host for worker in shown.workers if not worker.idle}
        link = "" if self._lie == "down" else f"broker {self._link}"
        answer = self._newest_answer()
        if not (isinstance(answer, Count) and answer.ready == answer.unacked == 0):
            self._nonzero_at = self.now
        reading = self._rules.look(self.now, link, {QUEUE: answer}, shown)
        return dict.fromkeys(pools, reading)

    def _newest_answer(self) -> Answer:
        """Return the answer of the newest round, which may be seconds old."""
        unacked = sum(worker.owns_message for worker in self.workers.values()) + len(self._returning)
        self._past.append((self.now, self.waiting, unacked))
        if self._round is None or self.now - self._round[0] >= self._pause:
            self._round = (self.now, self._answer())
        return self._round[1]

    def _shown_reports(self) -> Reports | Unknown:
        if self.now < self._redis_down_until:
            return Unknown("Redis cannot be reached")
        self._stored = {name: kept for name, kept in self._stored.items() if self.now - kept[0] < REPORT_LIFE}
        kept = tuple(report for _, report in self._stored.values())
        return reports(*kept, served=self._served, identity=f"redis {self._redis}", size=int(self._served))

    def _counts_at(self, instant: float) -> tuple[int, int]:
        """Return the waiting and the unacknowledged messages at an earlier instant."""
        return next(((ready, held) for at, ready, held in reversed(self._past) if at <= instant), (0, 0))

    def _answer(self) -> Answer:
        listed, shown = self._counts_at(self.now - self.lag)
        consumers = sum(worker.away_until <= self.now for worker in self.workers.values())
        return self._lied(Count(ready=self.waiting, consumers=consumers, listed=listed, unacked=shown))

    def _lied(self, count: Count) -> Answer:
        any_number = self.random.randint(0, 5)
        consumers = None if count.consumers is None else any_number
        answers: dict[str, Answer] = {
            "zeros": replace(count, ready=0, listed=0, unacked=0),
            "none unacknowledged": replace(count, unacked=0),
            "no consumers": count if consumers is None else replace(count, consumers=0),
            "any": Count(ready=any_number, consumers=consumers, listed=any_number, unacked=any_number),
            "missing": Missing(),
            "down": Unknown("no answer within 1 s"),
        }
        return answers.get(self._lie, replace(count))

    # --- the world ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        self._advance(self.random.choice(self.steps))
        if self.random.random() < self._faults:
            self.random.choice(self.faults())()
        if self.now >= self._lie_until:
            self._lie = ""
        if self.random.random() < self._arrivals:
            self.waiting += self.random.choice([1, 1, 2, 6])
        due = [at for at in self._returning if at <= self.now]
        self._returning = [at for at in self._returning if at > self.now]
        self.waiting += len(due)
        self._start_pods()
        for worker in self.random.sample(sorted(self.workers.values(), key=lambda one: one.name), len(self.workers)):
            self._work(worker)
        self._end_pods()

    def faults(self) -> list[Callable[[], None]]:
        return [
            self._restart_broker,
            self._lose_connection,
            self._make_queue_again,
            self._begin_lie,
            self._begin_lie,
            self._silence_report,
            self._restart_redis,
            self._kill_worker,
            self.restart_controller,
        ]

    def _advance(self, by: float) -> None:
        self.now += by
        self.clock.advance(timedelta(seconds=by))

    def _start_pods(self) -> None:
        for pod in self.cluster.pods(POOL, PodPhase.PENDING):
            if self.random.random() < 0.4:
                self.cluster.start(POOL, pod)
        for pod in self.cluster.pods(POOL, PodPhase.RUNNING):
            since = self._running_since.setdefault(pod, self.now)
            mute = self._muted.setdefault(pod, self.random.random() < self._mute)
            crew = sum(worker.host == pod for worker in self.workers.values())
            if crew < self._crew and self.now - since >= SLOWEST_CACHE and self.random.random() < 0.4:
                self._born += 1
                worker = _Worker(f"{pod}.{self._born}", pod, reports=not mute)
                self.workers[worker.name] = worker

    def _work(self, worker: _Worker) -> None:
        stopping = worker.host in self.cluster.pods(POOL, PodPhase.TERMINATING)
        changed = False
        if worker.busy_since is not None and self.now >= worker.until:
            worker.busy_since, worker.owns_message, changed = None, False, True
        if worker.busy_since is None and not stopping and worker.away_until <= self.now and self.waiting:
            self.waiting -= 1
            worker.busy_since, worker.owns_message, changed = self.now, True, True
            worker.until = self.now + self.random.choice(self._durations)
            worker.received += 1
        changed = changed and self.random.random() < 0.8  # otherwise reported with the next heartbeat
        if (changed or self.now - worker.beat_at >= 1.0) and worker.silent_until <= self.now:
            self._write_report(worker, stopping=stopping)

    def _write_report(self, worker: _Worker, *, stopping: bool) -> None:
        if self.now < self._redis_down_until or not worker.reports:
            return
        worker.beats, worker.beat_at, self._served = worker.beats + 1, self.now, True
        busy = int(worker.busy_since is not None)
        newest = Report(
            worker=worker.name,
            host=worker.host,
            queues=frozenset({QUEUE}),
            idle=not busy and not stopping,
            stopping=stopping,
            active=busy,
            held=int(worker.owns_message),
            received=worker.received,
            beat=str(worker.beats),
        )
        self._stored[worker.name] = (self.now, newest)

    def _end_pods(self) -> None:
        for pod in self.cluster.pods(POOL, PodPhase.TERMINATING):
            mine = [worker for worker in self.workers.values() if worker.host == pod]
            if all(worker.busy_since is None for worker in mine):
                for worker in mine:
                    del self.workers[worker.name]
                    self._stored.pop(worker.name, None)
                self.cluster.end(POOL, pod)

    # --- faults ---------------------------------------------------------------------------------------------------

    def _restart_broker(self) -> None:
        """Running tasks go on, and their messages are ready again."""
        self._link += 1
        self._lie, self._lie_until = "down", self.now + self.random.choice([0, 1, 5])
        for worker in self.workers.values():
            self._disconnect(worker)

    def _lose_connection(self) -> None:
        if self.workers:
            self._disconnect(self.random.choice([*self.workers.values()]))

    def _make_queue_again(self) -> None:
        """Its messages are lost, and running tasks go on."""
        self.waiting = 0
        for worker in self.workers.values():
            self._disconnect(worker)
        self.waiting = 0

    def _disconnect(self, worker: _Worker) -> None:
        self.waiting += worker.owns_message
        worker.owns_message = False
        worker.away_until = self.now + self.random.choice([0.5, 2, 5, 40])

    def _begin_lie(self) -> None:
        self._lie = self.random.choice(["zeros", "none unacknowledged", "no consumers", "any", "missing", "down"])
        self._lie_until = self.now + self.random.choice([1, 5, 30])

    def _silence_report(self) -> None:
        if self.workers:
            self.random.choice([*self.workers.values()]).silent_until = self.now + self.random.choice([2, 10, 40])

    def _restart_redis(self) -> None:
        """With or without its content."""
        self._redis += 1
        self._redis_down_until = self.now + self.random.choice([0, 3, 20])
        self._served = self.random.random() < 0.7 and self._served
        self._stored = {}

    def _kill_worker(self) -> None:
        """Its message is ready again at once, its report stays until it expires, and its container starts again."""
        if self.workers:
            worker = self.workers.pop(self.random.choice([*self.workers]))
            self._give_back(worker)

    def _give_back(self, worker: _Worker) -> None:
        self.waiting += worker.owns_message


class SqsWorld(BrokerWorld):
    """One pool on SQS: each answer shows some instant of the last minute, and consumers are not counted."""

    timings = SQS
    steps = (0.7, 1.0, 1.0, 2.0)
    arrivals = (0.01, 0.03, 0.1)
    lags = (2.0, 20.0, LATEST_OF_SQS)
    rounds = (1.0, 10.0)

    def _answer(self) -> Answer:
        ready, _ = self._counts_at(self.now - self.random.uniform(0, self.lag))
        _, held = self._counts_at(self.now - self.random.uniform(0, self.lag))
        return self._lied(Count(ready=ready, consumers=None, listed=ready, unacked=held))

    def faults(self) -> list[Callable[[], None]]:
        return [
            self._expire,
            self._begin_lie,
            self._begin_lie,
            self._silence_report,
            self._restart_redis,
            self._kill_worker,
            self.restart_controller,
        ]

    def _expire(self) -> None:
        """The visibility of a running job's message was not extended."""
        if self.workers:
            worker = self.random.choice([*self.workers.values()])
            self.waiting += worker.owns_message
            worker.owns_message = False

    def _give_back(self, worker: _Worker) -> None:
        """The message is visible again after the rest of its timeout."""
        if worker.owns_message:
            self._returning.append(self.now + self.random.uniform(0, 120))
