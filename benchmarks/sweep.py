"""One reading of 100, 1,000 and 10,000 RQ queues, half of them with jobs, on a real Redis.

`p50_ms`, `p99_ms`: the wall time of one reading; `cpu_ms`: this process's CPU for it (median). `ping_p99_ms`: the time
of another process's PING during such readings without a pause; `quiet_ping_p99_ms`: without them.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from benchmarks.measure import Figures, percentiles
from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import RedisDemand
from controllers.adapters.rq_backend import RQ
from controllers.ports import Known
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import RedisEndpoint

SIZES = {"sweep_100": (100, 300), "sweep_1000": (1_000, 150), "sweep": (10_000, 60)}  # queues, readings
PING_SECONDS = 2.0

# Another process: here the pings would wait for Python, not for Redis.
_PINGER = """
import sys, time
from redis import Redis
port, seconds = int(sys.argv[1]), float(sys.argv[2])
client, times = Redis(port=port), []
client.ping()
print("ready", flush=True)
sys.stdin.readline()
until = time.monotonic() + seconds
while time.monotonic() < until:
    began = time.perf_counter()
    client.ping()
    times.append(time.perf_counter() - began)
    time.sleep(0.001)
times.sort()
print(times[int(0.99 * len(times))] * 1000)
"""


def measured() -> dict[str, Figures]:
    with EmbeddedRedis() as server:
        quiet = {"quiet_ping_p99_ms": _ping_p99(server.port, None)}
        return {name: {**_sweep(server, size, runs), **quiet} for name, (size, runs) in SIZES.items()}


def _sweep(server: EmbeddedRedis, size: int, runs: int) -> Figures:
    names = [f"queue-{number}" for number in range(size)]
    with server.client() as client, connect(RedisEndpoint(host=server.host, port=server.port), {}) as reader:
        client.flushall()
        pipeline = client.pipeline()
        for name in names[::2]:
            for job in range(3):
                pipeline.rpush(f"rq:queue:{name}", f"{name}-{job}")
            pipeline.hset(f"rq:job:{name}-0", "enqueued_at", "2026-06-01T12:00:00.000000Z")
        pipeline.sadd("rq:queues", *(f"rq:queue:{name}" for name in names))
        pipeline.execute()
        demand = RedisDemand(reader, RQ, {name: (name,) for name in names})
        for _ in range(3):  # connects, loads the script and fills caches
            demand.read(names)
        wall: list[float] = []
        cpu: list[float] = []
        for _ in range(runs):
            began, began_cpu = time.perf_counter(), time.process_time()
            demand.read(names)
            wall.append((time.perf_counter() - began) * 1000)
            cpu.append((time.process_time() - began_cpu) * 1000)
        readings = demand.read(names)
        jobs = sum(reading.waiting for reading in readings.values() if isinstance(reading, Known))
        if jobs != 3 * len(names[::2]):
            raise RuntimeError(f"the readings are wrong: {jobs} jobs")
        ping_p99_ms = _ping_p99(server.port, lambda: demand.read(names))
    times = percentiles(wall)
    return {
        "p50_ms": times["p50"],
        "p99_ms": times["p99"],
        "min_ms": round(min(wall), 2),
        "max_ms": times["max"],
        "cpu_ms": round(median(cpu), 2),
        "n": runs,
        "ping_p99_ms": ping_p99_ms,
    }


def _ping_p99(port: int, meanwhile: Callable[[], object] | None) -> float:
    command = [sys.executable, "-c", _PINGER, str(port), str(PING_SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pinger:
        assert pinger.stdin is not None
        assert pinger.stdout is not None
        pinger.stdout.readline()
        pinger.stdin.write("go\n")
        pinger.stdin.flush()
        while meanwhile is not None and pinger.poll() is None:
            meanwhile()
        return round(float(pinger.stdout.read()), 2)
