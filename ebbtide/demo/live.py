"""The live part of the demo: a real Redis, real RQ jobs and workers, and the controller's own loop.

Only the edges of the rendered config document are replaced: the Redis endpoint, and sizes and times for a laptop and
half a minute.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue

from controllers.adapters.clock import EventWaker, SystemClock
from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import demand_sources, prefixes_to_watch
from controllers.adapters.wakers import TrackingListener
from controllers.ports import Action, Outcome, PodName, PoolName, Ports, ReconcileReport, Scale, Unknown
from controllers.scaler.loop import run
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.demo.jobs import NotFinished, Records, Training, read_records, run_interrupted, work
from ebbtide.demo.process_cluster import ProcessCluster, rq_worker_command
from ebbtide.text.counts import number_of
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.documents import dump, load

RESYNC = timedelta(seconds=1)
STABILIZATION_WINDOW = timedelta(seconds=2)
MAX_WORKERS = (4, 2)  # of the first pool and the second
JOB_SECONDS = (0.4, 2.5, 0.8, 1.6)  # in turns: short jobs end while long ones run
REACTION_LIMIT = 2.0  # seconds; a later action is no reaction to this job
NAIVE_POLL = 0.1  # seconds
LIMIT = 90.0  # seconds; usually it takes a third
SAFE_WORKER, STOCK_WORKER = "ebbtide.jobs.rq_worker.SafeWorker", "rq.Worker"

Say = Callable[[str], None]


class LiveError(RuntimeError):
    """The live run did not finish; the message says why in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveResult:
    reaction_ms: tuple[float, ...]  # job enqueued -> scale action done, one per growth
    first_job_started_ms: float  # from the first enqueue, including the start of a worker process
    jobs_done: int
    jobs_interrupted: int  # counted from the jobs' own records
    peak_workers: int
    seconds: float
    training: Training | None = None  # None in the unsafe run

    @property
    def reaction_p50_ms(self) -> float:
        return median(self.reaction_ms)

    @property
    def reaction_max_ms(self) -> float:
        return max(self.reaction_ms)

    def facts(self) -> dict[str, str]:
        """Return the measurements for readers, in words and with units."""
        growths = len(self.reaction_ms)
        return {
            "job enqueued, workers requested": f"{self.reaction_p50_ms:.0f} ms (median of {growths})",
            "first job started": f"{self.first_job_started_ms:.0f} ms after it was enqueued, process start included",
            "jobs done": str(self.jobs_done),
            "jobs interrupted": str(self.jobs_interrupted),
            "most workers at once": str(self.peak_workers),
            "from no worker to no worker": f"{self.seconds:.0f} s",
            **(self.training.facts() if self.training else {}),
        }

    def as_json(self) -> dict[str, Any]:
        """Return the fields, and the two figures of the reactions, for programs."""
        return {
            **asdict(self),
            "reaction_p50_ms": self.reaction_p50_ms,
            "reaction_max_ms": self.reaction_max_ms,
        }


@dataclass
class _LiveJournal:
    """Prints actions, and records when each pool last grew."""

    say: Say
    grown: dict[PoolName, float] = field(default_factory=dict[PoolName, float])

    def reconciled(self, report: ReconcileReport) -> None:
        pass

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None:  # noqa: ARG002 - the port's signature
        if isinstance(action, Scale) and outcome is Outcome.DONE:
            self.grown[action.pool] = time.monotonic()
            self.say(f"{action.pool}: wants {number_of(action.replicas, 'worker')} ({action.reason})")

    def noted(self, at: datetime, subject: str, message: str) -> None:  # noqa: ARG002 - the port's signature
        self.say(f"{subject}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _LiveOptions:
    say: Say
    jobs: int
    unsafe: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    config: ControllerConfig
    cluster: ProcessCluster
    connection: Redis
    journal: _LiveJournal
    options: _LiveOptions


def run_live(config: ControllerConfig, say: Say, *, jobs: int = 12, unsafe: bool = False) -> LiveResult:
    """Run from no worker to no worker, with `jobs` jobs between. `unsafe` shows a careless controller instead."""
    began = time.monotonic()
    try:
        with EmbeddedRedis() as server:
            local = local_config(config, server.port)
            say(f"Redis answers on {server.host}:{server.port}")
            result = _run(local, server.client(), began, _LiveOptions(say=say, jobs=jobs, unsafe=unsafe))
            return result if unsafe else replace(result, training=_training(server, say))
    except RedisError as error:
        raise LiveError(f"the demo's Redis is gone: {error}") from error


def _training(server: EmbeddedRedis, say: Say) -> Training:
    try:
        with server.client() as connection:
            return run_interrupted(connection, f"redis://{server.host}:{server.port}", SAFE_WORKER, say)
    except NotFinished as error:
        raise LiveError(str(error)) from error


def _run(config: ControllerConfig, connection: Redis, began: float, options: _LiveOptions) -> LiveResult:
    names = [pool.name for pool in config.pools]
    with connection, ProcessCluster(names, _commands(config, unsafe=options.unsafe), blind=options.unsafe) as cluster:
        journal = _LiveJournal(options.say)
        stage = _Stage(config=config, cluster=cluster, connection=connection, journal=journal, options=options)
        with _controlling(stage) as check:
            options.say("0 workers: nothing to do, nothing to pay for")
            first, reactions = _enqueue_all(stage, check)
            records = _wait_for_the_end(stage, check)
        peak = cluster.peak
    if not reactions or records.first_start is None:
        raise LiveError("no job was started: did the worker processes start at all?")
    return LiveResult(
        reaction_ms=tuple(reactions),
        first_job_started_ms=(records.first_start - first) * 1000,
        jobs_done=records.done,
        jobs_interrupted=records.interrupted,
        peak_workers=peak,
        seconds=time.monotonic() - began,
    )


def local_config(config: ControllerConfig, port: int) -> ControllerConfig:
    """Return the rendered document, read back, for this machine: at most two pools, small and quick to shrink."""
    if not config.pools:
        raise LiveError("the stack has no worker pool: nothing to show live")
    document = load(ControllerConfig, dump(config))
    pools = tuple(
        replace(
            pool,
            min_workers=0,
            max_workers=min(pool.max_workers, most),
            jobs_per_worker=1,
            stabilization_window=STABILIZATION_WINDOW,
            floors=(),
        )
        for pool, most in zip(document.pools, MAX_WORKERS, strict=False)
    )
    endpoint = RedisEndpoint(host="127.0.0.1", port=port)
    return replace(document, pools=pools, budgets=(), resync=RESYNC, redis=endpoint)


def _commands(config: ControllerConfig, *, unsafe: bool) -> Callable[[PoolName, PodName], list[str]]:
    queues = {pool.name: pool.queues for pool in config.pools}
    url = f"redis://{config.redis.host}:{config.redis.port}"
    worker_class = STOCK_WORKER if unsafe else SAFE_WORKER
    return lambda pool, pod: rq_worker_command(url, pod, queues[pool], worker_class)


@contextmanager
def _controlling(stage: _Stage) -> Generator[Callable[[], None]]:
    """Run the controller in a thread; yield a check that raises the thread's error."""
    waker = EventWaker()
    over = threading.Event()
    failures: list[BaseException] = []
    loop = _naive(stage, over) if stage.options.unsafe else _safe(stage, waker)

    def guarded() -> None:
        try:
            loop()
        except BaseException as error:  # the main thread raises it
            failures.append(error)

    def check() -> None:
        if failures:
            raise failures[0]

    thread = threading.Thread(target=guarded, name="controller")
    thread.start()
    try:
        yield check
    finally:
        waker.stop()
        over.set()
        thread.join()
    check()


def _safe(stage: _Stage, waker: EventWaker) -> Callable[[], None]:
    connection = partial(connect, stage.config.redis, {})
    demand = demand_sources(stage.config, connection)
    listener = TrackingListener(connection, prefixes_to_watch(stage.config), waker.notify)
    ports = Ports(demand=demand, cluster=stage.cluster, clock=SystemClock(), waker=waker, journal=stage.journal)

    def loop() -> None:
        listener.start()
        try:
            run(stage.config, ports)
        finally:
            listener.close()

    return loop


def _naive(stage: _Stage, over: threading.Event) -> Callable[[], None]:
    """Return a naive loop: as many workers as jobs *wait*. It shows what the safe controller avoids.

    It ignores running jobs, so it removes busy workers as soon as the queue is empty.
    """

    def loop() -> None:
        while not over.is_set():
            observed = stage.cluster.observe()
            if not isinstance(observed, Unknown):
                for pool in stage.config.pools:
                    replicas = min(_waiting(stage, pool), pool.max_workers)
                    if replicas != observed.pools[pool.name].replicas:
                        action = Scale(pool=pool.name, replicas=replicas, version=None, reason="jobs-waiting")
                        stage.journal.acted(SystemClock().now(), action, stage.cluster.act(action))
            time.sleep(NAIVE_POLL)

    return loop


def _enqueue_all(stage: _Stage, check: Callable[[], None]) -> tuple[float, list[float]]:
    """Enqueue one job after another while that makes a pool grow, then the rest at once."""
    pools, jobs = stage.config.pools, stage.options.jobs
    first = time.time()
    reactions: list[float] = []
    stage.options.say(f"{jobs} jobs are enqueued")
    for number in range(jobs):
        pool = pools[number % len(pools)]
        grows = number < sum(min(other.max_workers, jobs // len(pools)) for other in pools)
        before = time.monotonic()
        _enqueue(stage, pool, number)
        if grows:
            reactions += _reaction(stage, pool.name, before, check)
    return first, reactions


def _enqueue(stage: _Stage, pool: PoolPolicy, number: int) -> None:
    queue = Queue(pool.queues[number % len(pool.queues)], connection=stage.connection)
    queue.enqueue(work, JOB_SECONDS[number % len(JOB_SECONDS)])


def _reaction(stage: _Stage, pool: PoolName, before: float, check: Callable[[], None]) -> list[float]:
    """Return the milliseconds until the controller acted on the job just enqueued; empty if it did not act."""
    while time.monotonic() < before + REACTION_LIMIT:
        check()
        at = stage.journal.grown.get(pool, 0.0)
        if at > before:
            return [(at - before) * 1000]
        time.sleep(0.002)
    return []


def _wait_for_the_end(stage: _Stage, check: Callable[[], None]) -> Records:
    deadline = time.monotonic() + LIMIT
    jobs = stage.options.jobs
    reported = -1
    while time.monotonic() < deadline:
        check()
        records = read_records(stage.connection)
        if records.done != reported:
            reported = records.done
            stage.options.say(f"{reported} of {jobs} jobs done, {number_of(stage.cluster.live_workers(), 'worker')}")
        settled = stage.options.unsafe or records.done == jobs
        waiting = sum(_waiting(stage, pool) for pool in stage.config.pools)
        if settled and not waiting and not stage.cluster.pids():
            stage.options.say("0 workers again")
            return read_records(stage.connection)
        time.sleep(0.1)
    workers = number_of(stage.cluster.live_workers(), "worker")
    raise LiveError(f"not finished after {LIMIT:.0f} s: {reported} of {jobs} jobs done, {workers}")


def _waiting(stage: _Stage, pool: PoolPolicy) -> int:
    return sum(int(stage.connection.llen(f"rq:queue:{queue}")) for queue in pool.queues)
