"""From a job to a pod that the scheduler has bound, and back to nothing, with the controller's own rights."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import InstalledStack, add_group_node, install

from controllers.adapters.kube_api import Json
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import POOL, WORKER_NAMESPACE
from ebbtide.settings import load_stack
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import NAMESPACE, NODE_GROUP
from tests.builders.control_plane import Fresh, eventually
from tests.builders.operation import ALWAYS_NIGHT, Scene
from tests.builders.redis import endpoint, server, shared_server
from tests.paths import DATA

__all__ = ["server", "shared_server"]  # fixtures

pytestmark = [pytest.mark.control_plane, pytest.mark.redis]

NAME, JOBS = "prep", 3
NODES = 24  # the demo's 19 flexible pods may each sit on one of them, and a worker needs a whole one
PATIENCE = 60.0  # seconds


@pytest.fixture
def stack(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> Iterator[InstalledStack]:
    settings = load_stack("demo", DATA)
    stack = install(control_plane, settings, tmp_path / "rendered")
    for name in (f"reaction-{number}" for number in range(NODES)):
        fresh.forget_later(f"/api/v1/nodes/{name}")
        add_group_node(control_plane, settings, "flexible", name)
    yield stack
    control_plane.kubectl("delete", "--wait=false", "-f", str(stack.folder / "kubernetes"))
    eventually(lambda: not namespaces(control_plane), what="the stack's namespaces to be gone", patience=PATIENCE)


@pytest.fixture
def scene(stack: InstalledStack, control_plane: ControlPlane, server: EmbeddedRedis, tmp_path: Path) -> Scene:
    scene = Scene(plane=control_plane, redis=server, apps=NAMESPACE, workers=WORKER_NAMESPACE, folder=tmp_path)
    pools = tuple(replace(pool, stabilization_window=timedelta(seconds=2)) for pool in stack.config.pools)
    scene.write(dump(replace(stack.config_with(endpoint(server)), pools=pools, hours=ALWAYS_NIGHT)))
    return scene


def namespaces(plane: ControlPlane) -> set[str]:
    names = {namespace["metadata"]["name"] for namespace in plane.api.get("/api/v1/namespaces")["items"]}
    return names & {NAMESPACE, WORKER_NAMESPACE}


def pods_of_pool(scene: Scene) -> list[Json]:
    return scene.plane.api.get(f"/api/v1/namespaces/{scene.workers}/pods", labelSelector=f"{POOL}={NAME}")["items"]


def bound_to(scene: Scene) -> list[str]:
    nodes = [pod["spec"].get("nodeName", "") for pod in pods_of_pool(scene)]
    return nodes if len(nodes) == JOBS and all(nodes) else []


def replicas(scene: Scene) -> int:
    path = f"/apis/apps/v1/namespaces/{scene.workers}/deployments/{NAME}"
    return int(scene.plane.api.get(path)["spec"].get("replicas", 0))


def report_idle_workers(scene: Scene) -> None:
    """As the workers in these pods do when the last job is done."""
    with scene.redis.client() as client:
        for pod in (item["metadata"]["name"] for item in pods_of_pool(scene)):
            client.hset(f"rq:worker:{pod}", mapping={"hostname": pod, "state": "idle"})
            client.sadd(f"rq:workers:{NAME}", f"rq:worker:{pod}")
        client.delete(f"rq:queue:{NAME}")


def test_jobs_become_bound_pods_and_no_jobs_become_no_pods(scene: Scene) -> None:
    with scene.leader(), scene.redis.client() as client:
        client.rpush(f"rq:queue:{NAME}", *(f"job-{number}" for number in range(JOBS)))
        nodes = eventually(lambda: bound_to(scene), what=f"{JOBS} bound pods", patience=PATIENCE)

        group = {scene.plane.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"][NODE_GROUP] for node in nodes}
        assert (group, replicas(scene)) == ({"flexible"}, JOBS)

        report_idle_workers(scene)
        eventually(lambda: not pods_of_pool(scene), what="the pool to be empty", patience=PATIENCE)
        assert replicas(scene) == 0
