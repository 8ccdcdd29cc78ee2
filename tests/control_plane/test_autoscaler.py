"""The simulator's autoscaler on the real API server: nodes come for pods, and go through the Eviction API."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from control_plane.night.autoscaler import RealAutoscaler
from control_plane.night.scaled import ScaledClock
from control_plane.plane.driver import ControlPlane

from ebbtide.lab.simulator.cluster.model import GroupModel, Taint
from ebbtide.vocabulary.labels import CATEGORY, NODE_GROUP, WORKLOAD
from tests.builders.cluster import quick
from tests.builders.control_plane import Fresh, eventually

pytestmark = pytest.mark.control_plane

GROUP = "test-autoscaled"  # its taint keeps other tests' pods away, its name other tests' nodes
SPEED = 20.0
PATIENCE = 60.0


@dataclass
class Scene:
    plane: ControlPlane
    namespace: str
    said: list[str] = field(default_factory=list[str])

    def nodes(self) -> dict[str, dict[str, Any]]:
        items = self.plane.api.get("/api/v1/nodes", labelSelector=f"{NODE_GROUP}={GROUP}")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def deploy(self, name: str, replicas: int, cpu: str = "2", **pod: Any) -> None:
        labels = {WORKLOAD: name, CATEGORY: "flexible"}
        container = {"name": "main", "image": "api:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        spec = {"containers": [container], "tolerations": [{"key": GROUP, "operator": "Exists"}], **pod}
        spec |= {"terminationGracePeriodSeconds": 0, "nodeSelector": {NODE_GROUP: GROUP}}
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {"replicas": replicas, "selector": {"matchLabels": {WORKLOAD: name}}, "template": template}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        self.plane.api.create(path, {"metadata": {"name": name}, "spec": body})

    def scale(self, name: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}"
        self.plane.api.patch(path, {"spec": {"replicas": replicas}})

    def budget(self, name: str, most: int) -> None:
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{name}"
        spec = {"maxUnavailable": most, "selector": {"matchLabels": {WORKLOAD: name}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        self.plane.api.apply(path, body, manager="test")

    def running_on(self, name: str) -> list[str]:
        """Nodes of the pods that run, with repetitions."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        items = self.plane.api.get(path, labelSelector=f"{WORKLOAD}={name}")["items"]
        return [item["spec"]["nodeName"] for item in items if item["status"]["phase"] == "Running"]


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh) -> Iterator[Scene]:
    made = Scene(control_plane, fresh.namespace("autoscaled"))
    yield made
    for node in made.nodes():
        control_plane.api.delete(f"/api/v1/nodes/{node}")


def autoscaler(scene: Scene, **flags: Any) -> RealAutoscaler:
    """A group of nodes with room for two pods each."""
    group = GroupModel(
        name=GROUP, min=0, max=5, cpu_m=4000, memory_mib=16384, labels={NODE_GROUP: GROUP}, taints=(Taint(GROUP),)
    )
    clock = ScaledClock(datetime(2026, 6, 2, 22, 0, tzinfo=UTC), SPEED)
    return RealAutoscaler(scene.plane.api, [group], quick(**flags), clock, tell=scene.said.append)


def test_nodes_come_for_waiting_pods_and_go_when_nobody_needs_them(scene: Scene) -> None:
    with autoscaler(scene) as running:
        scene.deploy("api", 3)
        eventually(lambda: len(scene.running_on("api")) == 3, what="the pods to run", patience=PATIENCE)
        assert len(scene.nodes()) == 2

        scene.scale("api", 0)
        eventually(lambda: not scene.nodes(), what="the nodes to go", patience=PATIENCE)

        assert running.node_hours()[GROUP] > 0
        assert [nodes[GROUP] for _, nodes in running.history] == [1, 2, 1, 0]


def test_a_closed_budget_pins_a_node_and_an_open_one_lets_it_go(scene: Scene) -> None:
    scene.budget("api", 0)
    with autoscaler(scene) as running:
        scene.deploy("api", 1, cpu="1")
        scene.deploy("filler", 1, cpu="3")
        (home,) = eventually(lambda: scene.running_on("api"), what="the service to run", patience=PATIENCE)
        eventually(lambda: scene.running_on("filler") == [home], what="its node to be full", patience=PATIENCE)
        scene.deploy("anchor", 1, cpu="3")
        (other,) = eventually(lambda: scene.running_on("anchor"), what="another node", patience=PATIENCE)
        scene.scale("filler", 0)
        eventually(running.unremovable_reasons, what="the autoscaler to find the node pinned", patience=PATIENCE)
        assert running.unremovable_reasons() == (f"not enough pod disruption budget to move {scene.namespace}/api",)
        assert running.evictions == ()

        scene.budget("api", 1)
        eventually(lambda: list(scene.nodes()) == [other], what="the node to go", patience=PATIENCE)
        eventually(lambda: scene.running_on("api") == [other], what="the service to run elsewhere")

    assert [(it.workload, it.category, it.node) for it in running.evictions] == [
        (f"{scene.namespace}/api", "flexible", home)
    ]


def test_what_the_model_cannot_say_is_told_and_left_alone(scene: Scene) -> None:
    with autoscaler(scene):
        scene.deploy("odd", 1, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}])
        eventually(lambda: any("more than the model can say" in line for line in scene.said), what="the refusal")

    assert scene.nodes() == {}
