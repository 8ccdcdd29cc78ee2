"""Short runs with a real Redis and real RQ worker processes, scaled by the real loop, through real faults.

What is compressed is time alone: the pop window and the retry are half a second and less, since every run would else
last ten seconds. Jobs write their own ledger, so that a Redis that lost its data cannot hide what happened.

A job counts as interrupted if a worker left it unfinished that nobody killed, whatever became of Redis meanwhile. A
worker must not even be told to stop if its job had begun before the queues were last read.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self
from unittest.mock import patch

from redis.exceptions import RedisError
from rq import Queue

from controllers.adapters.clock import SystemClock
from controllers.adapters.redis_connection import connect as controller_connection
from controllers.adapters.redis_demand import RedisDemand
from controllers.adapters.rq_backend import RQ
from controllers.adapters.trust import Trust
from controllers.ports import (
    Action,
    ObservedCluster,
    Outcome,
    PodName,
    PoolName,
    Ports,
    Reading,
    ReconcileReport,
    Scale,
    Unknown,
)
from controllers.scaler import loop as loop_module
from controllers.scaler.loop import Loop
from controllers.scaler.workers import history as watch
from controllers.scaler.workers import victims
from ebbtide.demo.embedded import HOST, free_port
from ebbtide.demo.embedded_redis import connect, find_server
from ebbtide.demo.process_cluster import ProcessCluster, rq_worker_command
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.windows import BusinessHours
from tests.harness.real_jobs import read_ledger, work

SAFE_WORKER = "ebbtide.jobs.rq_worker.SafeWorker"
POP_WINDOW = timedelta(seconds=0.5)
RETRY = timedelta(seconds=0.05)
CALM = timedelta(seconds=0.6)
DISTRUST = timedelta(seconds=2)
TICK = 0.03
JOBS = 5
DEADLINE = 25.0  # seconds: a run is over in three or four
FAULTS = (
    "crash before a write",
    "crash after a write",
    "redis killed, back empty",
    "redis killed, back with data",
    "redis frozen",
    "redis full",
    "worker killed",
)


class Crash(BaseException):
    """The controller's process ends here."""


@dataclass(slots=True, kw_only=True)
class Outcomes:
    seed: int
    fault: str
    done: int = 0
    lost: int = 0  # with Redis or with a killed worker
    unaccounted: int = 0
    zeros: int = 0
    told_to_stop: int = 0
    controllers: int = 0
    broken: list[str] = field(default_factory=list[str])


class KeptRedis:
    """A server whose process can be killed and started again, with its data or without, on the same port."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="ebbtide-harness-")
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._directory.cleanup()

    def start(self) -> None:
        always = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        self._process = subprocess.Popen(
            [str(find_server()), "--bind", HOST, "--port", str(self.port), "--dir", self._directory.name, *always],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + DEADLINE
        with connect(self.port) as client:
            while True:
                try:
                    client.ping()
                except RedisError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
                else:
                    return

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self, *, forget: bool = False) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if forget:
            for file in Path(self._directory.name).rglob("*.*"):
                if file.is_file():
                    file.unlink()


class Watched:
    """The process cluster and the demand, watched, and with a crash at one write."""

    def __init__(self, cluster: ProcessCluster, pools: Sequence[PoolName]) -> None:
        self._cluster = cluster
        self._pools = pools
        self.demand: RedisDemand
        self.read_at = 0.0
        self.told: dict[PodName, tuple[float, float]] = {}  # when told to stop, and when the queues had been read
        self.crash_at: tuple[int, bool] | None = None  # number of the write, and whether before it
        self.writes = 0
        self.zeros = 0

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        self.read_at = time.monotonic()
        return self.demand.read(pools)

    def observe(self) -> ObservedCluster | Unknown:
        return self._cluster.observe()

    def act(self, action: Action) -> Outcome:
        self.writes += 1
        if self.crash_at == (self.writes, True):
            raise Crash
        outcome = self._cluster.act(action)
        if isinstance(action, Scale):
            self.zeros += outcome is Outcome.DONE and action.replicas == 0
            for pod in self._stopping():
                self.told.setdefault(pod, (time.monotonic(), self.read_at))
        if self.crash_at == (self.writes, False):
            raise Crash
        return outcome

    def reconciled(self, report: ReconcileReport) -> None: ...

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None: ...

    def noted(self, at: datetime, subject: str, message: str) -> None: ...

    def wait(self, timeout: timedelta) -> bool:
        raise AssertionError(f"the harness turns the loop itself, not after {timeout}")

    def _stopping(self) -> list[PodName]:
        pools = self._cluster._pools.values()
        return [pod.name for pool in pools for pod in pool.pods.values() if pod.terminated_at is not None]


class RealRun:
    def __init__(self, seed: int) -> None:
        self._random = Random(f"real {seed}")
        self._fault = FAULTS[seed % len(FAULTS)]
        self._result = Outcomes(seed=seed, fault=self._fault)
        self._names = ("train", "embed")
        self._killed: set[PodName] = set()
        self._redis_lost: list[float] = []  # when its process was killed
        self._accepted: set[int] = set()
        self._risked: set[int] = set()  # accepted before Redis was killed
        self._due: list[tuple[float, int, PoolName, float]] = []

    def result(self) -> Outcomes:
        with ExitStack() as stack:
            self._directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ebbtide-harness-")))
            self._redis = stack.enter_context(KeptRedis())
            url = f"redis://{HOST}:{self._redis.port}"
            self._cluster = stack.enter_context(
                ProcessCluster(self._names, lambda pool, pod: rq_worker_command(url, pod, [pool], SAFE_WORKER))
            )
            self._watched = Watched(self._cluster, self._names)
            self._drive()
        return self._result

    def _drive(self) -> None:
        begun = time.monotonic()
        self._due = sorted(
            (
                begun + self._random.uniform(0, 1.5),
                number,
                self._random.choice(self._names),
                self._random.choice((0.05, 0.3, 0.8)),
            )
            for number in range(JOBS)
        )
        fault_at = begun + self._random.uniform(0.5, 2.0)
        if self._fault.startswith("crash"):
            self._watched.crash_at = (self._random.randint(1, 8), "before" in self._fault)
            fault_at = float("inf")
        turn_at = begun
        loop = self._controller()
        while not self._is_over(begun):
            now = time.monotonic()
            self._enqueue_due(now)
            if now >= fault_at:
                self._strike()
                fault_at = float("inf")
            if now >= turn_at:
                try:
                    pause = loop.reconcile(SystemClock().now()).total_seconds()
                except Crash:
                    self._watched.crash_at = None
                    loop, pause = self._controller(), self._random.uniform(0, 0.5)
                turn_at = time.monotonic() + min(pause, TICK)
            time.sleep(0.005)
        self._judge()

    def _controller(self) -> Loop:
        """A controller from nothing, as after a crash."""
        self._result.controllers += 1
        config = _config(self._names, self._redis.port)
        demand = RedisDemand(
            controller_connection(config.redis, {}), RQ, {name: (name,) for name in self._names}, trust=Trust(DISTRUST)
        )
        self._watched.demand = demand
        watched = self._watched
        return Loop(config, Ports(demand=watched, cluster=watched, clock=SystemClock(), waker=watched, journal=watched))

    def _enqueue_due(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            _, number, pool, seconds = self._due[0]
            try:
                with connect(self._redis.port) as client:
                    Queue(pool, connection=client).enqueue(work, str(self._ledger), number, seconds)
            except RedisError:
                return  # the producer tries again
            self._accepted.add(number)
            self._due.pop(0)

    @property
    def _ledger(self) -> Path:
        return self._directory / "ledger"

    def _strike(self) -> None:
        if self._fault == "redis frozen":
            self._redis.signal(signal.SIGSTOP)
            time.sleep(self._random.uniform(0.2, 1.0))
            self._redis.signal(signal.SIGCONT)
        elif self._fault == "redis full":
            with connect(self._redis.port) as client:
                client.config_set("maxmemory", 1)
                time.sleep(self._random.uniform(0.2, 1.0))
                client.config_set("maxmemory", 0)
        elif self._fault.startswith("redis killed"):
            self._redis_lost.append(time.monotonic())
            self._risked |= self._accepted
            self._redis.kill(forget="empty" in self._fault)
            time.sleep(self._random.uniform(0.0, 0.5))
            self._redis.start()
        elif self._fault == "worker killed":
            pods = [pod for pool in self._cluster._pools.values() for pod in pool.live()]
            if pods:
                pod = self._random.choice(pods)
                self._killed.add(pod.name)
                os.killpg(pod.process.pid, signal.SIGKILL)

    # --- what became of it ----------------------------------------------------------------------------------------

    def _open_jobs(self) -> set[int]:
        """Accepted, not finished, and not excused."""
        ledger = read_ledger(self._ledger)
        lost = {turn.number for turn in ledger.turns if turn.pod in self._killed and turn.finished is None}
        begun = {turn.number for turn in ledger.turns}
        # With its Redis a job may be lost before its start, never after it.
        left = self._accepted - ledger.finished - lost - (self._risked - begun)
        # A killed worker may have popped one that it had not begun.
        return set() if not left & begun and len(lost) + len(left) <= len(self._killed) else left

    def _is_over(self, begun: float) -> bool:
        if time.monotonic() > begun + DEADLINE:
            return True
        if self._due or self._open_jobs():
            return False
        # A killed worker's entry counts as running for up to 90 s: the pool keeps a worker, and rightly so.
        # And after a loss of data RQ's idle workers do not say again that they are idle.
        return bool(self._killed or self._redis_lost) or not self._cluster.pids()

    def _judge(self) -> None:
        ledger, result = read_ledger(self._ledger), self._result
        result.done = len(ledger.finished)
        result.unaccounted = len(self._open_jobs()) + len(self._due)
        result.lost = len(self._accepted) - result.done - len(self._open_jobs())
        result.zeros, result.told_to_stop = self._watched.zeros, len(self._watched.told)
        for turn in ledger.turns:
            if turn.finished is None and turn.pod not in self._killed:
                result.broken.append(f"job {turn.number} was left unfinished in {turn.pod}, which nobody killed")
            if turn.pod not in self._watched.told or turn.pod in self._killed:
                continue
            told_at, read_at = self._watched.told[turn.pod]
            over = turn.finished
            if turn.started < read_at and (over is None or over > told_at):
                result.broken.append(
                    f"{turn.pod} was told to stop, busy with job {turn.number} since before the reading"
                )
        if result.unaccounted:
            result.broken.append(f"{result.unaccounted} jobs are not over after {DEADLINE:.0f} s")


def _config(names: Sequence[PoolName], port: int) -> ControllerConfig:
    return ControllerConfig(
        customer="acme",
        hours=BusinessHours(timezone="UTC", week=()),
        closing_guard=timedelta(minutes=15),
        node_startup=timedelta(minutes=5),
        resync=timedelta(seconds=0.5),
        redis=RedisEndpoint(host=HOST, port=port),
        pools=tuple(
            PoolPolicy(
                name=name,
                namespace="workers",
                deployment=name,
                source="rq",
                queues=(name,),
                jobs_per_worker=2,
                min_workers=0,
                max_workers=2,
                stabilization_window=CALM,
                longest_job=timedelta(hours=1),
                safe_stop=True,
            )
            for name in names
        ),
        budgets=(),
    )


def _one(seed: int) -> Outcomes:
    return RealRun(seed).result()


def run_real(seeds: Sequence[int], at_once: int) -> list[Outcomes]:
    with ExitStack() as stack:
        for module in (victims, watch):
            stack.enter_context(patch.object(module, "POP_WINDOW", POP_WINDOW))
        stack.enter_context(patch.object(loop_module, "RETRY", RETRY))
        threads = stack.enter_context(ThreadPoolExecutor(at_once))
        return list(threads.map(_one, seeds))


def counted(results: Sequence[Outcomes]) -> Counter[str]:
    """What many runs add up to."""
    counts: Counter[str] = Counter()
    for result in results:
        counts[result.fault] += 1
        for name in ("done", "lost", "unaccounted", "zeros", "told_to_stop", "controllers"):
            counts[name] += getattr(result, name)
    return counts
