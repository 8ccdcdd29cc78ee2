"""Three ways in which a job of a queue can drive Ray, for `benchmarks/ray/drivers.py`. Imported beside Ray."""

import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

PAUSE = 0.1


def by_client(folder: str, name: str, address: str) -> None:
    cluster: Any = import_module("ray")
    cluster.init(f"ray://{address}")
    drive(cluster, Path(folder), name)
    cluster.shutdown()


def by_raylet(folder: str, name: str, _address: str) -> None:
    from ebbtide.jobs.ray_driver import ray_cluster

    with ray_cluster() as ray:
        drive(ray, Path(folder), name)


def by_job(folder: str, name: str, address: str) -> None:
    from rq import get_current_job

    job = get_current_job()
    assert job is not None
    client: Any = import_module("ray.job_submission").JobSubmissionClient(f"http://{address}")
    client.submit_job(
        entrypoint=f"{sys.executable} -m benchmarks.ray.ways {folder} {name}",
        submission_id=job.id,
        entrypoint_num_cpus=1,
    )
    while not client.get_job_status(job.id).is_terminal():
        time.sleep(PAUSE)


def drive(ray: Any, folder: Path, name: str) -> None:
    (folder / f"{name}.pid").write_text(str(os.getpid()))
    ray.get(ray.remote(num_cpus=1)(_nothing).remote())
    (folder / f"{name}.first").write_text(str(time.time()))
    task = ray.remote(num_cpus=1)(_grow).remote(str(folder / f"{name}.task"), str(folder / "go"))
    while not ray.wait([task], timeout=1.0)[0]:
        pass


def _nothing() -> None:
    pass


def _grow(path: str, until: str) -> None:
    while not Path(until).exists():
        with Path(path).open("a") as file:
            file.write(".")
        time.sleep(PAUSE)


if __name__ == "__main__":
    cluster: Any = import_module("ray")
    cluster.init()
    drive(cluster, Path(sys.argv[1]), sys.argv[2])
