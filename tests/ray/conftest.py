"""One head and one worker for the session: a head takes ten seconds of a busy machine's time."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.builders.redis import client, server, shared_server
from tests.ray.cluster import HOW, PROGRAMS, RayCluster
from tests.ray.drivers import Pool

__all__ = ["client", "server", "shared_server"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("ray") and not (PROGRAMS / "ray").exists():
        if os.environ.get("GITHUB_ACTIONS"):
            pytest.fail(HOW, pytrace=False)
        pytest.skip(HOW)


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[RayCluster]:
    with RayCluster() as cluster:
        cluster.worker(cpus=4, gpus=1)
        yield cluster


@pytest.fixture
def cluster(shared_cluster: RayCluster) -> RayCluster:
    """With one worker of four CPUs and a GPU."""
    return shared_cluster


@pytest.fixture
def pool(cluster: RayCluster, server: EmbeddedRedis, client: Redis, tmp_path: Path) -> Iterator[Pool]:
    with Pool(cluster, server, client, tmp_path) as pool:
        yield pool
