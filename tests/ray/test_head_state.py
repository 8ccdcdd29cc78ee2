"""A head is killed, and a new one is at its address: with its state in Redis drivers go on, without it they end."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.settings.sections.ray import RECONNECT
from tests.builders.redis import wait_until
from tests.ray.cluster import PROGRAMS, Node, RayCluster
from tests.ray.drivers import Pool

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]

DRIVER = """
import os, sys, time
from pathlib import Path
from ebbtide.jobs.ray_driver import ray_cluster

folder = Path(sys.argv[1])
with ray_cluster() as ray:
    @ray.remote(num_cpus=1)
    class Counter:
        def __init__(self):
            self.count = 0
        def up(self):
            self.count += 1
            return self.count

    @ray.remote(num_cpus=1, max_retries=0)
    def begun_before():
        (folder / "begun").touch()
        while not (folder / "head-is-back").exists():
            time.sleep(0.05)
        return "ended"

    kept = Counter.options(name="kept", lifetime="detached").remote()
    ray.get(kept.up.remote())
    task = begun_before.remote()
    while not (folder / "head-is-back").exists():
        time.sleep(0.05)
    fresh = Counter.remote()
    said = ray.get([task, kept.up.remote(), fresh.up.remote()], timeout=60)
    (folder / "said").write_text(repr(said))
"""


class OfRedis(RayCluster):
    """As KubeRay starts a head with `gcsFaultToleranceOptions`."""

    def __init__(self, server: EmbeddedRedis) -> None:
        super().__init__()
        self._redis = {
            "RAY_REDIS_ADDRESS": f"redis://127.0.0.1:{server.port}",
            "RAY_external_storage_namespace": "a-uid",
        }

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**{**dict([RECONNECT]), **more})

    def _start(self, ip: str, options: Sequence[str], variables: Mapping[str, str]) -> Node:
        of_head = self._redis if "--head" in options else {}
        return super()._start(ip, options, {**variables, **of_head})


def test_a_new_head_goes_on_with_the_tasks_and_actors_that_the_one_before_had(
    server: EmbeddedRedis, tmp_path: Path
) -> None:
    with OfRedis(server) as cluster:
        worker = cluster.worker(cpus=3)
        driver = subprocess.Popen(
            [str(PROGRAMS / "python"), "-c", DRIVER, str(tmp_path)],
            env=cluster.driver_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until((tmp_path / "begun").exists, "the task to begin")

        cluster.new_head()

        (tmp_path / "head-is-back").touch()
        _, trouble = driver.communicate(timeout=120)
        assert driver.returncode == 0, trouble
        assert (tmp_path / "said").read_text() == "['ended', 2, 1]"
        assert worker.process.poll() is None


def test_a_head_that_knows_nothing_ends_the_driver_of_the_one_before_and_its_worker_begins_it_again(
    server: EmbeddedRedis, client: Redis, tmp_path: Path
) -> None:
    """Ray ends the raylet beside the driver at once, and the driver itself later, or never, as was seen in pods."""
    with RayCluster() as cluster, Pool(cluster, server, client, tmp_path) as pool:
        cluster.worker(cpus=1)
        pool.worker()
        job = pool.enqueue("steps", 40, str(tmp_path))
        wait_until((tmp_path / "1-1").exists, "the second step to run")

        cluster.new_head()
        cluster.worker(cpus=1)

        wait_until(lambda: job.get_status() in {"finished", "failed"}, "the job to end", limit=200)
        assert job.return_value() == list(range(40))
        assert "the raylet beside this driver has ended" in pool.log.read_text()
        assert not list(tmp_path.glob("0-[2-9]*")), "the first step was repeated"
