"""What a driver of Ray costs, and what ends with it, for three ways to drive: `python -m benchmarks.ray.drivers`.

Needs Ray in .venvs/ray (`make test-ray` builds it). The head, a worker and the pool's workers are processes of this
machine. Memory is anonymous memory, shared pages counted once (`Pss_Anon`): libraries' pages are shared with the other
nodes of this machine, and would not be in a pod.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.builders.redis import wait_until
from tests.ray.cluster import RayCluster, anonymous_megabytes
from tests.ray.drivers import Pool, tree_of

WAYS = ("by_raylet", "by_client", "by_job")
DRIVERS = (1, 3, 8)
ROUNDS = 1
WATCH = 75.0  # seconds after a driver's end


def address(cluster: RayCluster, way: str) -> str:
    return f"{cluster.head.ip}:{8265 if way == 'by_job' else cluster.client_port}"


def main(ways: Sequence[str]) -> None:
    for way in ways or WAYS:
        for _ in range(ROUNDS):
            with RayCluster(dashboard=True) as cluster, EmbeddedRedis() as server:
                worker = cluster.worker(cpus=32)
                time.sleep(5)
                print(
                    f"{way}: nodes idle: head {cluster.head.megabytes():.0f} MiB PSS, worker {worker.megabytes():.0f}"
                )
                for drivers in DRIVERS:
                    _measure(cluster, server, way, drivers)
                _lose(cluster, server, way, "the job's process", lambda pid, _pool: [pid])
                _lose(cluster, server, way, "its whole pod", lambda _pid, pool: tree_of(pool.workers[0].pid))


def _measure(cluster: RayCluster, server: EmbeddedRedis, way: str, drivers: int) -> None:
    with tempfile.TemporaryDirectory() as name, server.client() as client:
        client.flushall()
        folder = Path(name)
        with Pool(cluster, server, client, folder) as pool:
            for _ in range(drivers):
                pool.worker()
            time.sleep(5)
            before = anonymous_megabytes(_head(cluster))
            began = time.time()
            for number in range(drivers):
                pool.queue.enqueue(f"benchmarks.ray.ways.{way}", name, str(number), address(cluster, way))
            _at_work(folder, pool, drivers)
            time.sleep(5)
            failed = pool.queue.failed_job_registry.get_job_ids()
            for job in failed:
                said = pool.queue.fetch_job(job)
                result = said and said.latest_result()
                print(f"{way}: a driver failed: {str(result and result.exc_string).strip().splitlines()[-1]}")
            during = anonymous_megabytes(_head(cluster))
            pods = [anonymous_megabytes(tree_of(worker.pid)) for worker in pool.workers]
            started = [n for n in range(drivers) if (folder / f"{n}.first").exists()]
            firsts = [float((folder / f"{n}.first").read_text()) - began for n in started]
            (folder / "go").touch()
            time.sleep(10)
            after = anonymous_megabytes(_head(cluster))
    each = (during - before) / max(1, len(firsts))
    print(
        f"{way}: {len(firsts)} of {drivers} drivers: head {before:.0f} MiB, {during:.0f} with them ({each:+.0f} each), "
        f"{after:.0f} after; each pod of a driver {median(pods):.0f} MiB; "
        f"first task after {min(firsts, default=0):.1f} to {max(firsts, default=0):.1f} s",
        flush=True,
    )


def _lose(
    cluster: RayCluster, server: EmbeddedRedis, way: str, what: str, victims: Callable[[int, Pool], list[int]]
) -> None:
    with tempfile.TemporaryDirectory() as name, server.client() as client:
        client.flushall()
        folder = Path(name)
        with Pool(cluster, server, client, folder) as pool:
            pool.worker()
            pool.queue.enqueue(f"benchmarks.ray.ways.{way}", name, "0", address(cluster, way))
            _at_work(folder, pool, 1)
            pool.end(victims(int((folder / "0.pid").read_text()), pool))
            killed = time.monotonic()
            last, size = killed, (folder / "0.task").stat().st_size
            while time.monotonic() < min(killed + WATCH, last + 20):
                time.sleep(0.2)
                grown = (folder / "0.task").stat().st_size
                last, size = (time.monotonic(), grown) if grown > size else (last, size)
            goes_on = last - killed
            (folder / "go").touch()
    text = f"went on for {goes_on:.1f} s" if goes_on < WATCH - 2 else f"still went on after {WATCH:.0f} s"
    print(f"{way}: {what} killed: its task {text}", flush=True)


def _at_work(folder: Path, pool: Pool, count: int) -> None:
    def known() -> int:
        return len(list(folder.glob("*.task"))) + pool.queue.failed_job_registry.get_job_count(cleanup=False)

    wait_until(lambda: known() == count, f"{count} drivers at work", limit=300)


def _head(cluster: RayCluster) -> list[int]:
    return tree_of(cluster.head.process.pid)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(sys.argv[1:])
