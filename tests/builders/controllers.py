"""Builders with defaults for controller tests: a test names only what matters to it."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from controllers.doubt import TRUST
from controllers.ports import BudgetReport, PodName, PodPhase, PoolReport, Ports, ReconcileReport, Scale
from controllers.scaler.loop import Loop
from controllers.scaler.workers.decision import PoolReading
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.fakes import FakeCluster, FakeDemand, FakeQueue, ListJournal, ManualClock, ScriptedWaker

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday, open
NIGHT = datetime(2026, 3, 4, 23, 0, tzinfo=UTC)  # the same day, closed
CALM = timedelta(minutes=2)
OFFICE = BusinessHours(timezone="UTC", week=tuple(WeeklyInterval(weekday, 8 * 60, 19 * 60) for weekday in range(5)))


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def reading(**changes: Any) -> PoolReading:
    """A pool watched for an hour; `peak_jobs` follows `jobs` unless named."""
    jobs = changes.get("jobs", 0)
    default = PoolReading(jobs=jobs, peak_jobs=jobs, watched_for=timedelta(hours=1), busy=0, workers=0)
    return replace(default, **changes)


def pool_policy(**changes: Any) -> PoolPolicy:
    default = PoolPolicy(
        name="train",
        namespace="workers",
        deployment="train",
        source="rq",
        queues=("train",),
        jobs_per_worker=1,
        min_workers=0,
        max_workers=10,
        stabilization_window=CALM,
        longest_job=timedelta(hours=2),
        safe_stop=True,
    )
    return replace(default, **changes)


def config(*pools: PoolPolicy, **changes: Any) -> ControllerConfig:
    default = ControllerConfig(
        customer="acme",
        hours=OFFICE,
        closing_guard=timedelta(minutes=15),
        node_startup=timedelta(minutes=5),
        resync=seconds(5),
        redis=RedisEndpoint(host="redis"),
        pools=pools,
        budgets=(),
    )
    return replace(default, **changes)


def budgets(*names: str) -> tuple[BudgetPolicy, ...]:
    return tuple(BudgetPolicy(name=name, namespace="apps") for name in names)


class Bench:
    """A loop on fakes, with one queue per pool, and hands to move jobs and pods."""

    def __init__(self, settings: ControllerConfig, start: datetime = NOON) -> None:
        self.config = settings
        self.clock = ManualClock(start)
        self.queues = {pool.name: FakeQueue() for pool in settings.pools}
        self.cluster = FakeCluster(self.clock, is_busy=self._is_busy)
        for pool in settings.pools:
            self.cluster.add_pool(pool.name)
        self.demand = FakeDemand(self.queues)
        self.journal = ListJournal()
        self.ports = Ports(
            demand=self.demand,
            cluster=self.cluster,
            clock=self.clock,
            waker=ScriptedWaker(self.clock, ()),
            journal=self.journal,
            doubt=lambda: self.doubt,
        )
        self.doubt = TRUST
        self.loop = Loop(settings, self.ports)

    def restart(self) -> None:
        self.loop = Loop(self.config, self.ports)

    def reconcile(self) -> timedelta:
        return self.loop.reconcile(self.clock.now())

    def pass_time(self, amount: timedelta, step: timedelta = timedelta(seconds=1)) -> None:
        """Turn at every step until `amount` has gone by."""
        end = self.clock.now() + amount
        while self.clock.now() < end:
            self.clock.advance(min(step, end - self.clock.now()))
            self.reconcile()

    @property
    def report(self) -> ReconcileReport:
        """Of the last turn."""
        assert self.journal.report is not None
        return self.journal.report

    def pool_report(self, name: str = "train") -> PoolReport:
        return next(report for report in self.report.pools if report.name == name)

    def budget_report(self, name: str = "api") -> BudgetReport:
        return next(report for report in self.report.budgets if report.name == name)

    def scalings(self, pool: str = "train") -> list[Scale]:
        return [action for action in self.cluster.writes if isinstance(action, Scale) and action.pool == pool]

    def staff(self, pool: str, workers: int, *, busy: int = 0) -> list[PodName]:
        """Give the pool running workers, the first `busy` of them with a job."""
        self.cluster.add_pool(pool, workers)
        pods = self.cluster.start_all(pool)
        for number, pod in enumerate(pods):
            self.queues[pool].join(pod)
            if number < busy:
                self.take_job(pool, pod)
        return pods

    def take_job(self, pool: str, pod: PodName) -> None:
        queue = self.queues[pool]
        queue.enqueue()
        queue.pop(pod)
        queue.start(pod)

    def _is_busy(self, pod: PodName) -> bool:
        return any(queue.is_busy(pod) for queue in self.queues.values())


class RandomWorld:
    """Moves jobs, pods and time at random, one small step at a time, and lets workers stop safely."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.ends: dict[PodName, int] = {}  # the step at which a pod's job is done
        self.steps = 0

    def step(self) -> None:
        """A burst now and then; jobs of very different lengths; pods that start and end when they like."""
        self.steps += 1
        for pool in sorted(self.bench.queues):
            moves = [self._arrive, self._start_pod, self._pop, self._run, self._finish, self._end]
            for move in self.random.sample(moves, k=4):
                move(pool)
        self.bench.clock.advance(seconds(self.random.choice([0.01, 0.05, 0.5, 1.0, 2.0])))

    def _arrive(self, pool: str) -> None:
        if self.random.random() < 0.08:
            self.bench.queues[pool].enqueue(self.random.randint(1, 8))

    def _start_pod(self, pool: str) -> None:
        for pod in self.bench.cluster.pods(pool, PodPhase.PENDING)[:2]:
            self.bench.cluster.start(pool, pod)
            self.bench.queues[pool].join(pod)

    def _pop(self, pool: str) -> None:
        queue = self.bench.queues[pool]
        free = [pod for pod in self.bench.cluster.pods(pool, PodPhase.RUNNING) if not queue.is_busy(pod)]
        if free and queue.waiting:
            queue.pop(self.random.choice(free))

    def _run(self, pool: str) -> None:
        queue = self.bench.queues[pool]
        for pod in sorted(queue.popped):
            queue.start(pod)
            self.ends[pod] = self.steps + self.random.choice([1, 5, 60])

    def _finish(self, pool: str) -> None:
        queue = self.bench.queues[pool]
        for pod in sorted(queue.running):
            if self.ends[pod] <= self.steps:
                queue.finish(pod)

    def _end(self, pool: str) -> None:
        """A terminating pod goes once it holds no job."""
        queue = self.bench.queues[pool]
        for pod in self.bench.cluster.pods(pool, PodPhase.TERMINATING):
            if not queue.is_busy(pod):
                queue.leave(pod)
                self.bench.cluster.end(pool, pod)
