"""A large customer on a real control plane: every pool with jobs gets its number, and nobody touches the others."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import add_group_node, install

from benchmarks.scale_stack import large_stack
from controllers.adapters.kube_api import Json
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import POOL, WORKER_NAMESPACE
from ebbtide.vocabulary.controller_config import PoolPolicy
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import NAMESPACE
from tests.builders.control_plane import eventually
from tests.builders.operation import Scene
from tests.builders.redis import endpoint
from tests.counts import count

pytestmark = [pytest.mark.control_plane, pytest.mark.redis, pytest.mark.long]

# Half of the pools are at work: with those of the workloads and the stack itself some 1,000 pods.
POOLS, WORKLOADS, COPIES, MOST = count(180, 30), count(20, 4), 5, 10
QUEUES, NODES = count(10_000, 600), count(100, 20)
PATIENCE = 240.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Large:
    scene: Scene
    pools: tuple[PoolPolicy, ...]

    @property
    def busy(self) -> dict[str, int]:
        """Jobs of each pool that has any; the numbers differ, and two are above the limit."""
        jobs = {pool.name: 10 for pool in self.pools[::2]}
        names = list(jobs)
        return {**jobs, names[0]: 1, names[1]: 19, names[2]: MOST + 5, names[3]: 7, names[4]: 3}

    def deployments(self) -> dict[str, Json]:
        path = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"
        return {item["metadata"]["name"]: item for item in self.scene.plane.api.get(path)["items"]}

    def bound(self) -> dict[str, int]:
        """Pods with a node, by pool."""
        found: dict[str, int] = {}
        for pod in self.scene.plane.api.get(f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods")["items"]:
            pool = pod["metadata"]["labels"][POOL]
            found[pool] = found.get(pool, 0) + bool(pod["spec"].get("nodeName"))
        return found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    """On a plane of its own: to take so much away again would cost more than to start one."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    settings = large_stack(pools=POOLS, queues=QUEUES, workloads=WORKLOADS, copies=COPIES, most=MOST)
    folder: Path = tmp_path_factory.mktemp("scale")
    with ControlPlane() as plane, EmbeddedRedis() as redis:
        stack = install(plane, settings, folder / "rendered")
        for number in range(NODES):
            add_group_node(plane, settings, "flexible", f"flexible-{number}")
        scene = Scene(plane=plane, redis=redis, apps=NAMESPACE, workers=WORKER_NAMESPACE, folder=folder)
        scene.write(dump(stack.config_with(endpoint(redis))))
        large = Large(scene=scene, pools=stack.config.pools)
        eventually(lambda: not large.bound(), what="the first workers to be gone", patience=PATIENCE)
        yield large


def test_each_pool_with_jobs_gets_its_number_and_the_others_stay(large: Large) -> None:
    before = {name: item["metadata"]["generation"] for name, item in large.deployments().items()}
    busy, wanted = large.busy, {name: min(jobs, MOST) for name, jobs in large.busy.items()}
    with large.scene.redis.client() as client:
        for pool in large.pools:
            for number in range(busy.get(pool.name, 0)):
                client.rpush(f"rq:queue:{pool.queues[number % len(pool.queues)]}", f"{pool.name}-{number}")

    with large.scene.leader():
        eventually(lambda: large.bound() == wanted, what="every job's pod to be bound", patience=PATIENCE)
        after = large.deployments()

    assert {name: item["spec"]["replicas"] for name, item in after.items() if item["spec"].get("replicas")} == wanted
    untouched = {name: item["metadata"]["generation"] for name, item in after.items() if name not in wanted}
    assert untouched == {name: before[name] for name in before.keys() - wanted.keys()}
    assert len(untouched) == POOLS // 2
