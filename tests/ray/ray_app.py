"""The jobs of these tests: drivers of Ray. Imported beside Ray, not in the tests' own environment."""

import os
import time
from pathlib import Path
from typing import Any

from ebbtide.jobs import checkpoint
from ebbtide.jobs.ray_driver import ray_cluster


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


def forever(folder: str) -> None:
    """Its task never ends by itself."""
    with checkpoint(every=0) as saved, ray_cluster() as ray:
        state = saved.load(default={"attempts": 0})
        if state["attempts"]:
            return
        running = ray.remote(num_cpus=1)(_grow).remote(str(Path(folder, "task")), 3600.0)
        state["attempts"] += 1
        while not ray.wait([running], timeout=0.2)[0]:
            if saved.stopping:
                saved.offer(state)


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
