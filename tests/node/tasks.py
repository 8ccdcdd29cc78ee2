"""The jobs that drive Ray in the workers' pods, and their tasks in Ray's pods, where this file is mounted."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rq import get_current_job

from ebbtide.jobs import checkpoint
from ebbtide.jobs.ray_driver import ray_cluster

DONE = "test:tasks:"  # + the job's id: for each task that was done its number, its pod, when it began and ended
AT_ONCE = 8
SWEEP = "/tmp/sweep-"  # + the job's id: a folder with its results


def squares(plan: dict[str, Any]) -> list[int]:
    """`count` of them, each by a task of one CPU that takes `pause` seconds; what is done is saved as it comes."""
    job, count, pause = get_current_job(), plan["count"], plan["pause"]
    assert job is not None
    with checkpoint() as saved, ray_cluster() as ray:
        found: dict[int, int] = saved.load(default={})
        task = ray.remote(num_cpus=1)(square)
        left = [number for number in range(count) if number not in found]
        running: dict[Any, int] = {}
        while left or running:
            while left and len(running) < AT_ONCE:
                number = left.pop(0)
                running[task.remote(number, pause)] = number
            ended, _ = ray.wait(list(running), timeout=1.0)
            for each in ended:
                result, *told = ray.get(each)
                job.connection.rpush(DONE + job.id, " ".join(map(str, (running[each], *told))))
                found[running.pop(each)] = result
            saved.offer(found)
    return [found[number] for number in range(count)]


def square(number: int, pause: float) -> tuple[int, str, float, float]:
    began = time.time()
    time.sleep(pause)
    return number * number, socket.gethostname(), began, time.time()


def swept(plan: dict[str, Any]) -> dict[str, Any]:
    """What `ebbtide sweep` finds, with these options, for the stack files that the plan has as texts."""
    job = get_current_job()
    assert job is not None
    folder = Path(SWEEP + job.id)
    folder.mkdir()
    files = [folder / f"Pulumi.{name}.yaml" for name in plan["stacks"]]
    for file, text in zip(files, plan["stacks"].values(), strict=True):
        file.write_text(text)
    command = [sys.executable, "-m", "ebbtide.cli", "sweep", *files, *plan["options"]]
    run = subprocess.run(
        [*command, "--results", folder / "results", "--json", folder / "found.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    return json.loads((folder / "found.json").read_text())
