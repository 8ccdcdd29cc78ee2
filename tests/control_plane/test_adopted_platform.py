"""A team's platform, from `ebbtide adopt` to a drained node: owners are never written, only flexible pods move."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import add_group_node, install
from typer.testing import CliRunner

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.__main__ import app
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, NAMESPACE
from ebbtide.vocabulary.windows import WeeklyInterval
from tests.builders.control_plane import eventually
from tests.builders.operation import Scene
from tests.builders.redis import endpoint
from tests.builders.settings import loaded, shortest

pytestmark = pytest.mark.control_plane

ALWAYS = tuple(WeeklyInterval(day, 0, 24 * 60) for day in range(7))
TEAMS = ("api", "jupyter", "postgres")
CONTAINER = {"name": "main", "image": "example.com/any:1", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}


def owner(kind: str, namespace: str, name: str, label: str, replicas: int) -> dict[str, Any]:
    labels = {label: name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    more = {"serviceName": name} if kind == "StatefulSet" else {}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {**spec, **more}}


def user(number: int) -> dict[str, Any]:
    labels = {"component": "singleuser-server"}
    metadata = {"name": f"jupyter-user-{number}", "namespace": "jupyter", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [CONTAINER]}}


OWNERS = (
    owner("Deployment", "api", "api", "app", 3),
    owner("Deployment", "jupyter", "hub", "component", 1),
    owner("StatefulSet", "postgres", "main", "cnpg.io/cluster", 3),
)
USERS = tuple(user(number) for number in (1, 2))


@dataclass(frozen=True, kw_only=True)
class Platform:
    plane: ControlPlane
    scene: Scene
    config: ControllerConfig

    def apply_as_a_team(self) -> str:
        """Client-side, as Argo CD does by default."""
        items = json.dumps({"apiVersion": "v1", "kind": "List", "items": OWNERS})
        return self.plane.kubectl("apply", "-f", "-", stdin=items)

    def make(self, *, night: bool) -> None:
        hours = replace(self.config.hours, week=() if night else ALWAYS)
        self.scene.write(dump(replace(self.config, hours=hours)))
        eventually(
            lambda: self.budget("api", "ebbtide-api")["spec"].get("maxUnavailable", 0) == int(night),
            what="the controller to write the budget of api",
        )

    def budget(self, namespace: str, name: str) -> dict[str, Any]:
        return self.plane.api.get(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}")

    def pods(self, **selectors: str) -> list[dict[str, Any]]:
        return self.plane.api.get("/api/v1/pods", **selectors)["items"]

    def on(self, node: str) -> list[dict[str, Any]]:
        pods = self.pods(fieldSelector=f"spec.nodeName={node}")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def movable_on(self, node: str) -> list[dict[str, Any]]:
        return [pod for pod in self.on(node) if pod["metadata"]["namespace"] == "api"]

    def evicted(self, pod: dict[str, Any]) -> int:
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"
        try:
            self.plane.api.create(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
        except ApiError as error:
            return error.status
        return 201


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    folder = tmp_path_factory.mktemp("platform")
    base = shortest(more='ebbtide:cluster: { version: "1.36" }')
    with ExitStack() as stack:
        plane, redis = stack.enter_context(ControlPlane()), stack.enter_context(EmbeddedRedis())
        settings = loaded(base, folder)
        for group, number in {"fixed": 2, "flexible": 2}.items():
            for index in range(number):
                add_group_node(plane, settings, group, f"{group}-{index}")
        for team in TEAMS:
            plane.api.create("/api/v1/namespaces", {"metadata": {"name": team}})
        eventually(lambda: _has_account(plane), what="the accounts of the namespaces")
        items = {"apiVersion": "v1", "kind": "List", "items": [*OWNERS, *USERS]}
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(items))
        eventually(lambda: _running(plane) == 9, what="the team's pods to run")

        words = ["adopt", *(word for team in TEAMS for word in ("--namespace", team))]
        result = CliRunner().invoke(app, [*words, "--kubeconfig", str(plane.kubeconfig)])
        assert result.exit_code == 0, result.output
        section = result.output[result.output.index("ebbtide:adopted:") :].partition("\n\n")[0]
        installed = install(plane, loaded(base + _indented(section), folder), folder / "rendered")
        config = replace(installed.config, redis=endpoint(redis), resync=timedelta(seconds=1))
        scene = Scene(plane=plane, redis=redis, apps=NAMESPACE, workers=WORKER_NAMESPACE, folder=folder)
        scene.write(dump(replace(config, hours=replace(config.hours, week=ALWAYS))))
        stack.enter_context(scene.leader())
        platform = Platform(plane=plane, scene=scene, config=config)
        platform.make(night=False)
        yield platform


def _has_account(plane: ControlPlane) -> bool:
    """A pod is refused until its namespace has an account."""
    return all(plane.api.get(f"/api/v1/namespaces/{team}/serviceaccounts")["items"] for team in TEAMS)


def _running(plane: ControlPlane) -> int:
    pods = [pod for team in TEAMS for pod in plane.api.get(f"/api/v1/namespaces/{team}/pods")["items"]]
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def _indented(section: str) -> str:
    margin = "" if section.startswith(" ") else "  "
    return "".join(f"{margin}{line}\n" for line in section.splitlines())


def test_the_proposed_rules_hold_what_the_pods_are(platform: Platform) -> None:
    categories = {budget.name: "flexible" for budget in platform.config.budgets}
    categories |= {budget.name: "fixed" for budget in platform.config.never_opened if budget.namespace in TEAMS}

    assert categories == {"api": "flexible", "hub": "fixed", "main": "fixed"}


def test_owners_stay_unchanged_and_new_pods_are_placed(platform: Platform) -> None:
    before = platform.apply_as_a_team()
    for kind, namespace, name in (("deployment", "api", "api"), ("deployment", "jupyter", "hub")):
        platform.plane.kubectl("--namespace", namespace, "rollout", "restart", f"{kind}/{name}")

    def placed() -> bool:
        pods = platform.pods(labelSelector="ebbtide.dev/workload in (api,hub)")
        nodes = {(pod["metadata"]["namespace"], str(pod["spec"].get("nodeName", ""))[:-2]) for pod in pods}
        return nodes == {("api", "flexible"), ("jupyter", "fixed")} and _running(platform.plane) == 9

    eventually(placed, what="new pods on nodes of their kind")
    assert {line.rpartition(" ")[2] for line in before.splitlines()} == {"unchanged"}


def test_at_night_a_drained_node_loses_its_flexible_pods_one_by_one_and_keeps_all_others(platform: Platform) -> None:
    pods = [pod for pod in platform.pods() if pod["metadata"]["namespace"] in TEAMS]
    assert {platform.evicted(pod) for pod in pods} == {429}  # by day

    platform.make(night=True)
    node = next(name for name in ("flexible-0", "flexible-1") if platform.movable_on(name))
    platform.plane.kubectl("cordon", node)
    healthy = [3]

    def drained() -> bool:
        for pod in platform.movable_on(node):
            platform.evicted(pod)
        healthy.append(platform.budget("api", "ebbtide-api")["status"]["currentHealthy"])
        return not platform.movable_on(node)

    eventually(drained, what="the flexible pods to leave the node")
    assert min(healthy) >= 2
    stayed = [pod for pod in pods if pod["metadata"]["namespace"] != "api"]
    assert {platform.evicted(pod) for pod in stayed} == {429}
    assert platform.budget("jupyter", "ebbtide-singleuser-server.pods")["spec"]["minAvailable"] == CLOSED_MINIMUM
