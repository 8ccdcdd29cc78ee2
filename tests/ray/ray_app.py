"""The jobs of these tests: drivers of Ray. Imported beside Ray, not in the tests' own environment."""

import os
import time
from pathlib import Path
from typing import Any

from ebbtide.jobs import checkpoint
from ebbtide.jobs.ray_driver import ray_cluster
from ebbtide.jobs.rq_worker import SafeWorker


class Worker(SafeWorker):
    last_chance = 1  # a test that ends a worker's machine knows that it is gone


def squares(count: int, pause: float = 0.0) -> int:
    """In tasks of one CPU each."""
    with ray_cluster() as ray:
        task = ray.remote(num_cpus=1)(_square)
        return sum(ray.get([task.remote(number, pause) for number in range(count)]))


def steps(count: int, folder: str) -> list[int]:
    """One task at a time, each of which leaves a file that grows while it runs; after each the job offers its state."""
    with checkpoint(every=0) as saved, ray_cluster() as ray:
        state: dict[str, Any] = saved.load(default={"done": []})
        Path(folder, "driver").write_text(str(os.getpid()))
        task = ray.remote(num_cpus=1)(_grow)
        while len(state["done"]) < count:
            step = len(state["done"])
            running = task.remote(str(Path(folder, f"{step}-{saved.attempt}")), 1.0)
            while not ray.wait([running], timeout=0.2)[0]:
                if saved.stopping:
                    saved.offer(state)
            state["done"].append(ray.get(running) and step)
            saved.offer(state)
        return state["done"]


def gpu_nodes() -> list[list[str]]:
    """What the cluster's nodes with CPUs are while a GPU is used, once it is idle again, and when it is used anew."""
    with ray_cluster() as ray:
        task = ray.remote(num_gpus=1, num_cpus=0)(_square)
        seen: list[list[str]] = []
        for _ in range(2):
            ray.get(task.remote(2, 0))
            seen.append(_groups(ray))
            while _groups(ray):
                time.sleep(0.2)
        return seen


def _groups(ray: Any) -> list[str]:
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return ["gpu" if "GPU" in has else "cpu" for has in alive if "CPU" in has]


def _square(number: int, pause: float) -> int:
    time.sleep(pause)
    return number * number


def _grow(path: str, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with Path(path).open("a") as file:
            file.write(".")
        time.sleep(0.05)
    return True
