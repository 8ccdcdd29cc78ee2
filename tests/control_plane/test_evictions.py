"""Proof 3: what the Eviction API grants of a rendered stack, by day and in the window, asked as the autoscaler does."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import add_group_node, install

from components.cluster.autoscaler import NAME as AUTOSCALER
from components.cluster.autoscaler import NAMESPACE as AUTOSCALER_NAMESPACE
from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import load_stack
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CATEGORY, NAMESPACE, PAUSED, WORKLOAD, Category
from ebbtide.vocabulary.windows import WeeklyInterval
from tests.builders.control_plane import eventually
from tests.builders.operation import Process, Scene
from tests.builders.redis import endpoint
from tests.control_plane.support.placement import redis_volume
from tests.paths import DATA

Json: TypeAlias = dict[str, Any]

PATIENCE = 90.0  # seconds
POOL = "prep"
WORKERS = 3
NODES = {"fixed": 2, "flexible": 8}
_ALWAYS = tuple(WeeklyInterval(day, 0, 24 * 60) for day in range(7))
_POLICY = "/apis/policy/v1/namespaces"


@dataclass(frozen=True, kw_only=True)
class Town:
    """The stack, its pods running, and the controller's process at work."""

    plane: ControlPlane
    scene: Scene
    controller: Process
    config: ControllerConfig
    autoscaler: KubeApi  # with the rights that are rendered for it

    def make_day(self) -> None:
        self._tell(night=False)

    def make_night(self) -> None:
        self._tell(night=True)

    def _tell(self, *, night: bool) -> None:
        self.scene.write(document(self.config, night=night))
        limit = 1 if night else 0

        def flipped() -> bool:
            report: Json = self.controller.status().get("report") or {}
            budgets = [self.budget(policy.name) for policy in self.config.budgets]
            asked = [budget["spec"].get("maxUnavailable", 0) == limit for budget in budgets]
            allowed = [budget["status"]["disruptionsAllowed"] == limit for budget in budgets]
            return report.get("windowOpen") is night and all(asked) and all(allowed)

        eventually(flipped, what=f"the controller to set the budgets to {limit}", patience=PATIENCE)

    def budget(self, name: str, namespace: str = NAMESPACE) -> Json:
        return self.plane.api.get(f"{_POLICY}/{namespace}/poddisruptionbudgets/{name}")

    def pods(self, category: Category, workload: str = "") -> list[Json]:
        """Those that are not being deleted, in a fixed order."""
        selector = f"{CATEGORY}={category}" + (f",{WORKLOAD}={workload}" if workload else "")
        found = self.plane.api.get("/api/v1/pods", labelSelector=selector)["items"]
        alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(alive, key=lambda pod: str(pod["metadata"]["name"]))

    def evict(self, pod: Json, *, grace: int | None = None) -> int:
        """The HTTP status of the answer."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        if grace is not None:
            body["deleteOptions"] = {"gracePeriodSeconds": grace}
        return eventually(lambda: self._answer(f"{path_of(pod)}/eviction", body), what="an answer", patience=PATIENCE)

    def _answer(self, path: str, body: Json) -> int:
        """0 without an answer: a busy machine is slow, and to ask again changes nothing."""
        try:
            self.autoscaler.create(path, body)
        except ApiError as error:
            return error.status
        return 201

    def evict_all(self, pods: list[Json]) -> set[int]:
        assert pods
        return {self.evict(pod) for pod in pods}

    def say(self, pod: Json, *, ready: bool) -> None:
        """As a kubelet would; for the workers, which KWOK leaves alone, it is all they ever are."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        self.plane.api.patch(
            f"{path_of(pod)}/status",
            {"status": {"phase": "Running", "conditions": [condition]}},
            "application/strategic-merge-patch+json",
        )

    def break_down(self, pod: Json) -> None:
        """It is unready, and its budget has noticed: until then the API server counts it as healthy."""
        workload, namespace = pod["metadata"]["labels"][WORKLOAD], pod["metadata"]["namespace"]
        self.say(pod, ready=False)

        def noticed() -> bool:
            status = self.budget(workload, namespace)["status"]
            return bool(status["currentHealthy"] < status["desiredHealthy"])

        eventually(noticed, what=f"the budget of {workload} to notice", patience=PATIENCE)

    def stop_one_worker(self) -> Json:
        """As the controller's scaling does; the pod as it then is, with its grace running."""
        before = self.pods(Category.WORKER, POOL)
        scale(self.plane, len(before) - 1)

        def stopping() -> Json | None:
            now = [self.plane.api.get(path_of(pod)) for pod in before]
            return next((pod for pod in now if "deletionTimestamp" in pod["metadata"]), None)

        return eventually(stopping, what="a worker to be told to stop", patience=PATIENCE)


def path_of(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def end_of(pod: Json) -> tuple[str, int]:
    """When the pod must be gone, and how long it was given."""
    return pod["metadata"]["deletionTimestamp"], pod["metadata"]["deletionGracePeriodSeconds"]


def scale(plane: ControlPlane, workers: int) -> None:
    plane.kubectl("--namespace", WORKER_NAMESPACE, "scale", f"deployment/{POOL}", f"--replicas={workers}")


@contextmanager
def town(folder: Path) -> Generator[Town]:
    settings = load_stack("demo", DATA)
    with ControlPlane(hands_off=f"{CATEGORY}={Category.WORKER}") as plane, EmbeddedRedis() as redis:
        for group, number in NODES.items():
            for index in range(number):
                add_group_node(plane, settings, group, f"{group}-{index}")
        plane.api.create("/api/v1/persistentvolumes", redis_volume())
        config = install(plane, settings, folder / "rendered").config
        config = replace(config, redis=endpoint(redis), resync=timedelta(seconds=1))
        deployment = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments/{POOL}"
        plane.api.patch(deployment, {"metadata": {"annotations": {PAUSED: "its workers are asked for by hand"}}})
        scale(plane, WORKERS)
        scene = Scene(plane=plane, redis=redis, apps=NAMESPACE, workers=WORKER_NAMESPACE, folder=folder)
        scene.write(document(config, night=False))  # whatever the hour is in which the test runs
        with scene.leader() as controller:
            autoscaler = plane.api_as(AUTOSCALER_NAMESPACE, AUTOSCALER)
            found = Town(plane=plane, scene=scene, controller=controller, config=config, autoscaler=autoscaler)
            _wait_until_running(found)
            yield found


def document(config: ControllerConfig, *, night: bool) -> str:
    return dump(replace(config, hours=replace(config.hours, week=() if night else _ALWAYS)))


def _wait_until_running(town: Town) -> None:
    workers = eventually(
        lambda: bound if len(bound := _bound(town.pods(Category.WORKER))) == WORKERS else None,
        what="the workers to have a node",
        patience=PATIENCE,
    )
    for pod in workers:
        town.say(pod, ready=True)

    def run() -> bool:
        rest = [*town.pods(Category.FIXED), *town.pods(Category.FLEXIBLE)]
        return bool(rest) and all(pod["status"].get("phase") == "Running" for pod in rest)

    eventually(run, what="the fixed and the flexible pods to run", patience=PATIENCE)


def _bound(pods: list[Json]) -> list[Json]:
    return [pod for pod in pods if pod["spec"].get("nodeName")]


pytestmark = pytest.mark.control_plane

GRANTED, REFUSED, FORBIDDEN = 201, 429, 403
OWN_GRACE = 168 * 3600 + 120  # of the demo's workers: their longest job, and two minutes


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with town(tmp_path_factory.mktemp("town")) as found:
        yield found


# --- by day, and in the window ----------------------------------------------------------------------------------------


def test_by_day_no_running_pod_of_the_stack_may_be_evicted(demo: Town) -> None:
    demo.make_day()

    for category, pods in ((Category.FIXED, 7), (Category.FLEXIBLE, 19), (Category.WORKER, 3)):
        running = demo.pods(category)
        assert len(running) == pods
        assert demo.evict_all(running) == {REFUSED}


def test_in_the_window_flexible_pods_go_one_at_a_time(demo: Town) -> None:
    demo.make_night()
    first, second, third = demo.pods(Category.FLEXIBLE, "api")
    demo.plane.suspend("kwok")  # so that no replacement can get ready
    try:
        assert demo.evict(first) == GRANTED
        assert demo.evict_all([second, third]) == {REFUSED}
    finally:
        demo.plane.resume("kwok")

    eventually(
        lambda: demo.budget("api")["status"]["disruptionsAllowed"] == 1,
        what="the replacement to be ready",
        patience=PATIENCE,
    )
    assert demo.evict(second) == GRANTED


def test_in_the_window_fixed_pods_and_workers_still_stay(demo: Town) -> None:
    demo.make_night()

    assert demo.evict_all(demo.pods(Category.FIXED)) == {REFUSED}
    assert demo.evict_all(demo.pods(Category.WORKER)) == {REFUSED}


def test_when_the_day_begins_flexible_pods_stay_again(demo: Town) -> None:
    demo.make_night()
    demo.make_day()

    assert demo.evict_all(demo.pods(Category.FLEXIBLE)) == {REFUSED}


# --- pods that are not ready ------------------------------------------------------------------------------------------


def test_by_day_an_unready_flexible_pod_may_go_and_its_ready_siblings_may_not(demo: Town) -> None:
    demo.make_day()
    broken, *ready = demo.pods(Category.FLEXIBLE, "model-serving")
    demo.break_down(broken)

    assert demo.evict_all(ready) == {REFUSED}
    assert demo.evict(broken) == GRANTED


@pytest.mark.parametrize(("category", "workload"), [(Category.FIXED, "ray-head"), (Category.WORKER, POOL)])
def test_an_unready_pod_that_may_hold_state_or_a_job_stays(demo: Town, category: Category, workload: str) -> None:
    pod = demo.pods(category, workload)[0]
    demo.break_down(pod)
    try:
        assert demo.evict(pod) == REFUSED
    finally:
        demo.say(pod, ready=True)


# --- workers that were told to stop -----------------------------------------------------------------------------------


def test_evicting_a_stopping_worker_leaves_it_its_grace(demo: Town) -> None:
    worker = demo.stop_one_worker()
    end = end_of(worker)
    assert end[1] == OWN_GRACE

    answers = [demo.evict(worker, grace=grace) for grace in (None, OWN_GRACE, OWN_GRACE + 300, OWN_GRACE - 1, 60, 0)]

    assert answers == [GRANTED, GRANTED, GRANTED, FORBIDDEN, FORBIDDEN, FORBIDDEN]
    assert end_of(demo.plane.api.get(path_of(worker))) == end


def test_the_refusal_says_what_to_do(demo: Town) -> None:
    worker = demo.pods(Category.WORKER)[0]
    eviction = {"metadata": {"name": worker["metadata"]["name"]}, "deleteOptions": {"gracePeriodSeconds": 60}}

    with pytest.raises(ApiError, match=f"may need {OWN_GRACE} s to end its job: evict it with that grace, or with"):
        demo.plane.api.create(f"{path_of(worker)}/eviction", eviction)


def test_without_our_policy_the_api_server_would_shorten_it(demo: Town) -> None:
    binding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/ebbtide-evictions"
    kept = demo.plane.api.get(binding)
    worker = demo.stop_one_worker()
    demo.plane.api.delete(binding)
    try:
        eventually(lambda: demo.evict(worker, grace=60) == GRANTED, what="the policy to be gone", patience=PATIENCE)
        assert end_of(demo.plane.api.get(path_of(worker)))[1] == 60
    finally:
        kept["metadata"] = {"name": kept["metadata"]["name"]}
        demo.plane.api.create(binding.rpartition("/")[0], kept)


def test_the_policy_is_for_workers_alone(demo: Town) -> None:
    flexible = demo.pods(Category.FLEXIBLE)[0]
    demo.make_day()

    assert flexible["metadata"]["namespace"] != WORKER_NAMESPACE
    assert demo.evict(flexible, grace=60) == REFUSED
