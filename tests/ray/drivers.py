"""A queue pool whose workers are Ray's drivers: RQ's safe workers, in the environment that the stack gives them."""

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from redis import Redis
from rq import Queue
from rq.job import Job

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.ray.cluster import PROGRAMS, RayCluster

QUEUE = "flow"


class Pool:
    """Workers that are left at the end are killed with all that they started."""

    def __init__(self, cluster: RayCluster, server: EmbeddedRedis, client: Redis, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.client = client
        self.queue = Queue(QUEUE, connection=client)
        self.url = f"redis://{server.host}:{server.port}/0"
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            self.kill(worker)

    def worker(self, **variables: str) -> "subprocess.Popen[bytes]":
        store = {
            "store": str(self.folder / "store"),
            "every": 0,
            "saveWithin": 90,
            "required": False,
            "openWithin": 600,
        }
        options = ("worker", "-w", "ray_app.Worker", "--worker-ttl", "60", "-u", self.url, QUEUE)
        given = {"EBBTIDE_CHECKPOINTS": json.dumps(store), **variables}
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                [str(PROGRAMS / "rq"), *options],
                env=self.cluster.driver_environment(**given),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.workers.append(worker)
        return worker

    @property
    def log(self) -> Path:
        return self.folder / "workers.log"

    def enqueue(self, function: str, *arguments: Any) -> Job:
        return self.queue.enqueue(f"ray_app.{function}", *arguments)

    def expire(self, job: Job) -> None:
        """The deadline of a worker that is gone has passed: RQ's is 90 s ahead."""
        registry = job.started_job_registry.key
        members: Any = self.client.zrange(registry, 0, -1)
        self.client.zadd(registry, dict.fromkeys(members, 1))

    def kill(self, worker: "subprocess.Popen[bytes]") -> None:
        """As if its pod were gone: the worker, its job and the raylet beside it."""
        self.end(tree_of(worker.pid))
        worker.wait()

    def end(self, pids: list[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def tree_of(root: int) -> list[int]:
    """It and everything below it, whatever its group."""
    found = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children: dict[int, list[int]] = {}
    for line in found.splitlines():
        pid, parent = map(int, line.split())
        children.setdefault(parent, []).append(pid)
    tree = [root]
    for pid in tree:
        tree += children.get(pid, [])
    return tree
