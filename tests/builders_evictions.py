"""The demo stack, a controller that is told whether it is day, and evictions as the autoscaler asks for them."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from control_plane.driver import ControlPlane
from control_plane.stack import add_group_node, install

from components.autoscaler import NAME as AUTOSCALER
from components.autoscaler import NAMESPACE as AUTOSCALER_NAMESPACE
from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.settings import load_stack
from ebbtide.vocabulary.controller_config import ControllerConfig, dump
from ebbtide.vocabulary.labels import CATEGORY, NAMESPACE, PAUSED, WORKER_NAMESPACE, WORKLOAD, Category
from ebbtide.vocabulary.windows import WeeklyInterval
from tests.builders_components import ROOT
from tests.builders_control_plane import eventually
from tests.builders_operation import Process, Scene
from tests.builders_placement import redis_volume
from tests.builders_redis import endpoint

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
    settings = load_stack("demo", ROOT)
    with ControlPlane(hands_off=f"{CATEGORY}={Category.WORKER}") as plane, EmbeddedRedis() as redis:
        for group, number in NODES.items():
            for index in range(number):
                add_group_node(plane, settings, group, f"{group}-{index}")
        plane.api.create("/api/v1/persistentvolumes", redis_volume())
        config = install(plane, settings, folder / "rendered").config
        config = replace(config, redis=endpoint(redis), sweep=timedelta(seconds=1))
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
