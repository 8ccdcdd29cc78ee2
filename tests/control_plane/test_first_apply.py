"""What the files leave out, and what becomes of it: before the controller writes, while it runs, and without it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import APPLY, ApiError, Json
from controllers.adapters.replica_writers import conflicting_manager, writers_of
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.builders.control_plane import Fresh, eventually
from tests.builders.operation import Scene, make_scene
from tests.builders.redis import server, shared_server
from tests.control_plane.support.kube import deployment
from tests.control_plane.support.ownership import Program, Provisioner

__all__ = ["server", "shared_server"]  # fixtures

pytestmark = [pytest.mark.control_plane, pytest.mark.redis]

ALWAYS_DAY = BusinessHours(timezone="UTC", week=tuple(WeeklyInterval(day, 0, 24 * 60) for day in range(7)))
NEW = Program(image="worker:2", label="b")


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, server: EmbeddedRedis, tmp_path: Path) -> Scene:
    """Its pool and its budget are applied by kubectl, without what is the controller's."""
    scene = make_scene(control_plane, fresh, server, tmp_path)
    for path in (pool_of(scene), budget_of(scene)):
        control_plane.api.delete(path)
    return scene


def pool_of(scene: Scene) -> str:
    return f"/apis/apps/v1/namespaces/{scene.workers}/deployments/train"


def budget_of(scene: Scene) -> str:
    return f"/apis/policy/v1/namespaces/{scene.apps}/poddisruptionbudgets/api"


def values(scene: Scene) -> tuple[int, int | None]:
    """Replicas, and `maxUnavailable` if it is there."""
    return scene.replicas(), scene.plane.api.get(budget_of(scene))["spec"].get("maxUnavailable")


def pods_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def by_kubectl(scene: Scene, program: Program) -> None:
    """As `kubectl apply --server-side` of rendered files."""
    bodies = {
        pool_of(scene): program.deployment(scene.workers, replicas=None),
        budget_of(scene): program.budget(scene.apps, maxUnavailable=None),
    }
    for path, body in bodies.items():
        scene.plane.api.patch(path, body, APPLY, fieldManager="kubectl", fieldValidation="Strict")


def ready_pod(scene: Scene) -> str:
    """The name of the budget's one pod."""
    pods = scene.plane.api.get(pods_of(scene.apps))["items"]
    ready = [pod for pod in pods for it in pod["status"].get("conditions", ()) if (it["type"], it["status"]) == READY]
    return str(ready[0]["metadata"]["name"]) if ready else ""


READY = ("Ready", "True")


def evicted(scene: Scene, name: str) -> int:
    """The HTTP status; 0 if it was granted."""
    eviction: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    try:
        scene.plane.api.create(f"{pods_of(scene.apps)}/{name}/eviction", eviction)
    except ApiError as error:
        return error.status
    return 0


def test_a_budget_without_a_number_refuses_evictions_until_the_controller_opens_it(scene: Scene, fresh: Fresh) -> None:
    by_kubectl(scene, NEW)
    fresh.node(labels={"only": scene.apps})
    service = deployment("api", scene.apps, 1)
    service["spec"]["template"]["spec"]["nodeSelector"] = {"only": scene.apps}
    scene.plane.api.create(pool_of(scene).replace(scene.workers, scene.apps).rpartition("/")[0], service)
    pod = eventually(lambda: ready_pod(scene), what="the pod to be ready")
    status = eventually(
        lambda: (now := scene.plane.api.get(budget_of(scene))["status"]).get("currentHealthy") == 1 and now,
        what="the budget to count it",
    )

    assert status["disruptionsAllowed"] == 0
    assert evicted(scene, pod) == 429
    with scene.leader():
        eventually(lambda: evicted(scene, pod) == 0, what="the eviction to be granted")
        assert scene.max_unavailable() == 1


def test_pools_that_nobody_sent_home_go_home_after_their_calm(scene: Scene) -> None:
    by_kubectl(scene, NEW)
    assert scene.replicas() == 1
    config = scene.config()
    scene.write(dump(replace(config, pools=(replace(config.pools[0], stabilization_window=timedelta(seconds=1)),))))

    with scene.leader():
        eventually(lambda: scene.replicas() == 0, what="the pool to be at zero")


def test_files_are_applied_again_while_the_controller_acts_and_it_sees_no_rival_in_them(scene: Scene) -> None:
    by_kubectl(scene, NEW)
    scene.plane.kubectl("--namespace", scene.workers, "scale", "deployment", "--all", "--replicas=0")
    with scene.leader():
        scene.enqueue("one", "two")
        eventually(lambda: values(scene) == (2, 1), what="the controller to write both")

        by_kubectl(scene, replace(NEW, image="worker:3"))

        pool = scene.plane.api.get(pool_of(scene))
        assert pool["spec"]["template"]["spec"]["containers"][0]["image"] == "worker:3"
        assert values(scene) == (2, 1)
        assert conflicting_manager(writers_of(pool["metadata"]), adopted=False, differs=False) == ""
        scene.enqueue("three")
        eventually(lambda: scene.replicas() == 3, what="the controller to go on")


def test_i_what_a_killed_controller_wrote_outlasts_the_programs_updates(scene: Scene) -> None:
    program = created(scene, max_unavailable=0)
    with scene.leader() as process:
        scene.enqueue("one", "two")
        eventually(lambda: values(scene) == (2, 1), what="the controller to write both")
        process.kill()

        program.update(pool_of(scene), NEW.deployment(scene.workers))
        program.update(budget_of(scene), NEW.budget(scene.apps))

    assert values(scene) == (2, 1)
    assert scene.plane.api.get(budget_of(scene))["metadata"]["labels"] == {"test": "b"}


def test_j_a_budget_that_is_made_anew_with_the_nights_value_is_closed_by_day(scene: Scene) -> None:
    scene.write(dump(scene.config(hours=ALWAYS_DAY)))
    created(scene, max_unavailable=1)

    with scene.leader():
        eventually(lambda: scene.max_unavailable() == 0, what="the closing")


def created(scene: Scene, *, max_unavailable: int) -> Provisioner:
    program = Provisioner(scene.plane.api)
    program.create(pool_of(scene), Program().deployment(scene.workers))
    program.create(budget_of(scene), Program().budget(scene.apps, maxUnavailable=max_unavailable))
    return program
