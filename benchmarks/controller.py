"""The controller at rest and at work, on a real Redis.

`turn_us`: one turn of the loop with nothing to do, on in-memory ports: what the decisions themselves cost.
`sweep_ms`: one reading of 10,000 RQ queues, half of them with jobs, and the client's own CPU in it.
`reaction_ms`: a job pushed by a second client, until the loop has asked for the worker; reading every 20 ms.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from benchmarks.measure import Figures, cpu_seconds, percentiles, spread
from controllers.adapters.clock import SystemClock
from controllers.adapters.redis_connection import connect
from controllers.adapters.rq_demand import RqDemand
from controllers.adapters.wakers import PollingWaker
from controllers.loop import Loop, run
from controllers.ports import Action, ClusterSeen, Known, Outcome, PoolName, PoolSeen, Ports, Scale, TurnReport
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.settings import load_stack
from ebbtide.settings.controller_document import controller_config
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint

QUEUES = 10_000
POLL = timedelta(milliseconds=20)
ARRIVALS = 60


@dataclass
class _Desk:
    """A cluster that only notes what it is asked, and a journal that says nothing."""

    replicas: dict[PoolName, int] = field(default_factory=dict[PoolName, int])
    asked: dict[PoolName, float] = field(default_factory=dict[PoolName, float])

    def observe(self) -> ClusterSeen:
        return ClusterSeen({name: PoolSeen(replicas=n, pods=()) for name, n in self.replicas.items()})

    def act(self, action: Action) -> Outcome:
        if isinstance(action, Scale):
            self.replicas[action.pool] = action.replicas
            self.asked[action.pool] = time.perf_counter()
        return Outcome.DONE

    def turned(self, report: TurnReport) -> None: ...

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None: ...

    def noted(self, at: datetime, subject: str, message: str) -> None: ...


class _Nothing:
    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Known]:
        return {pool: Known(waiting=0, in_transit=0, running=0) for pool in pools}


def measured() -> dict[str, Figures]:
    with EmbeddedRedis() as server:
        return {"turn_us": _turns(), **_sweeps(server), "reaction_ms": _reactions(server)}


def _config(port: int = 6379) -> ControllerConfig:
    return controller_config(load_stack("demo"), RedisEndpoint(host="127.0.0.1", port=port))


def _turns() -> Figures:
    config = _config()
    desk = _Desk({pool.name: 0 for pool in config.pools})
    ports = Ports(demand=_Nothing(), cluster=desk, clock=SystemClock(), waker=PollingWaker(POLL), journal=desk)
    loop = Loop(config, ports)
    start = datetime(2026, 6, 1, 12, tzinfo=UTC)
    turns = 1000

    def many() -> None:
        for second in range(turns):
            loop.turn(start + timedelta(seconds=second))

    return spread([seconds / turns * 1e6 for seconds in cpu_seconds(many, runs=7)], 1)


def _sweeps(server: EmbeddedRedis) -> dict[str, Figures]:
    with server.client() as client:
        client.flushall()
        pipeline = client.pipeline()
        for number in range(0, QUEUES, 2):
            pipeline.rpush(f"rq:queue:q{number}", *range(3))
        pipeline.execute()
        demand = RqDemand(
            connect(RedisEndpoint(host=server.host, port=server.port), {}),
            {f"q{number}": (f"q{number}",) for number in range(QUEUES)},
        )
        pools = [f"q{number}" for number in range(QUEUES)]
        demand.read(pools)
        wall: list[float] = []
        cpu: list[float] = []
        for _ in range(15):
            began, began_cpu = time.perf_counter(), time.process_time()
            demand.read(pools)
            wall.append((time.perf_counter() - began) * 1000)
            cpu.append((time.process_time() - began_cpu) * 1000)
        client.flushall()
    return {"sweep_10000_queues_ms": spread(wall, 1), "sweep_10000_queues_client_cpu_ms": spread(cpu, 1)}


def _reactions(server: EmbeddedRedis) -> Figures:
    config = _config(server.port)
    pool = config.pools[0]
    desk = _Desk({other.name: 0 for other in config.pools})
    demand = RqDemand(connect(config.redis, {}), {other.name: other.queues for other in config.pools})
    waker = PollingWaker(POLL)
    ports = Ports(demand=demand, cluster=desk, clock=SystemClock(), waker=waker, journal=desk)
    thread = threading.Thread(target=run, args=(config, ports))
    thread.start()
    times: list[float] = []
    try:
        with server.client() as client:
            for arrival in range(ARRIVALS):
                desk.replicas[pool.name] = 0
                time.sleep(0.05 + 0.0137 * (arrival % 7))  # off the poll's beat
                began = time.perf_counter()
                client.rpush(f"rq:queue:{pool.queues[0]}", f"job-{arrival}")
                while desk.asked.get(pool.name, 0.0) < began:
                    time.sleep(0.0005)
                times.append((desk.asked[pool.name] - began) * 1000)
                client.delete(f"rq:queue:{pool.queues[0]}")
                time.sleep(0.06)
    finally:
        waker.stop()
        thread.join()
    return percentiles(times)
