"""Ray's nodes as the stack runs them: told to stop with work on them, and brought by demand alone."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.builders.redis import wait_until
from tests.ray.cluster import PROGRAMS, RayCluster
from tests.ray.drivers import Pool

pytestmark = pytest.mark.ray

DRIVER = """
import sys, time
from pathlib import Path
import ray

ray.init(sys.argv[1], log_to_driver=False)
folder = Path(sys.argv[2])

@ray.remote(num_cpus=1, max_retries=0, resources={sys.argv[3]: 1})
def slow(seconds):
    (folder / "begun").touch()
    time.sleep(seconds)
    return ray.util.get_node_ip_address()

@ray.remote(num_cpus=1)
def quick():
    return ray.util.get_node_ip_address()

task = slow.remote(float(sys.argv[4]))
while not (folder / "told").exists():
    time.sleep(0.05)
print(ray.get(quick.remote()), flush=True)
try:
    print(ray.get(task), flush=True)
except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError):
    print("died", flush=True)
"""
SECONDS = 15.0


@pytest.mark.parametrize("drain", [120.0, 0.0], ids=["with time to drain", "without"])
def test_a_worker_told_to_stop_ends_its_task_in_place_if_it_has_time_to_drain(
    cluster: RayCluster, tmp_path: Path, drain: float
) -> None:
    place = f"only-here-{drain:.0f}"
    leaving = cluster.worker(cpus=2, drain=drain, **{place: 1})
    driver = started(cluster, DRIVER, cluster.address, str(tmp_path), place, str(SECONDS))
    wait_until((tmp_path / "begun").exists, "the task to begin")

    leaving.told_to_stop()
    time.sleep(2)  # the drain is known everywhere
    (tmp_path / "told").touch()

    said, trouble = driver.communicate(timeout=60)
    assert driver.returncode == 0, trouble
    elsewhere, ended = said.split()
    assert elsewhere != leaving.ip
    assert ended == (leaving.ip if drain else "died")
    leaving.process.wait(30)


@pytest.fixture
def demanding(server: EmbeddedRedis, client: Redis, tmp_path: Path) -> Iterator[Pool]:
    """A cluster of two groups, both empty."""
    groups = {"cpu": {"CPU": 2}, "gpu": {"CPU": 2, "GPU": 1}}
    with RayCluster(groups=groups) as cluster, Pool(cluster, server, client, tmp_path) as pool:
        yield pool


def test_a_task_with_a_gpu_brings_one_node_of_its_group_and_nothing_else_and_an_idle_node_leaves(
    demanding: Pool,
) -> None:
    demanding.worker()

    job = demanding.enqueue("gpu_nodes")

    wait_until(
        lambda: job.get_status() in {"finished", "failed"}, "both tasks to end, and their nodes to leave", limit=100
    )
    assert job.return_value() == [["gpu"], ["gpu"]]


def started(cluster: RayCluster, script: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [str(PROGRAMS / "python"), "-c", script, *arguments],
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
