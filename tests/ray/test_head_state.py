"""A head whose state is in Redis: killed, and started anew, it goes on where it was."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.settings.sections.ray import RECONNECT
from tests.builders.redis import wait_until
from tests.ray.cluster import PROGRAMS, Node, RayCluster

pytestmark = pytest.mark.ray

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
