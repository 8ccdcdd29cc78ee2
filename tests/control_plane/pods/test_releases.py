"""A release of what fills its nodes, on nodes that are full: it ends, as it is rendered, and would not by bringing one
pod more; and a pod that is alone is never there twice.
"""

import time
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import Json
from ebbtide.settings.load import stack_of_text
from tests.builders.control_plane import Fresh, eventually
from tests.builders.generated import text_of
from tests.builders.recorded import record
from tests.builders.stack_files.listed import config_of

pytestmark = [pytest.mark.control_plane]

BRINGS = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
SIZE = {"image": "a:1", "cpu": 1, "memory": "2Gi"}
GPU = {**SIZE, "category": "flexible", "gpu": 1, "replicas": 2}
GROUPS = {"gpu": {"instanceTypes": ["g5.xlarge"], "max": 2}}  # one GPU each


def rendered(**workload: Any) -> Json:
    """The spec of that workload's Deployment, with its own pods alone on its mind."""
    config = config_of("eks", ["flexible-workloads"])
    sections = {"ebbtide:nodeGroups": GROUPS, "ebbtide:workloads": {"api": workload}}
    settings = stack_of_text(text_of({**config, **sections}), stack="acme", file="Pulumi.acme.yaml")
    return next(each.inputs["spec"] for each in record(settings) if each.name == "api-deployment")


class Release:
    """Two nodes with one GPU each, full of what is released."""

    def __init__(self, plane: ControlPlane, fresh: Fresh, spec: Json) -> None:
        self.api, self.space = plane.api, fresh.namespace()
        for _ in range(2):
            fresh.node(labels={"only": self.space}, gpu=1)
        labels = {"app": self.space}
        container = spec["template"]["spec"]["containers"][0]
        pod: Json = {
            "nodeSelector": {"only": self.space},
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "api", "image": "a:1", "resources": container["resources"]}],
        }
        self.spec: Json = {
            "replicas": spec["replicas"],
            "strategy": spec["strategy"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }

    def start(self, **changes: Any) -> None:
        body: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}}
        self.api.create(self._deployments, {**body, "spec": {**self.spec, **changes}})
        eventually(lambda: self.ready("a:1") == self.spec["replicas"], what="the first pods")

    def wait_for_the_controller(self) -> None:
        """Until it has seen the release, and twice what it then takes to make a pod."""

        def seen() -> bool:
            now = self.api.get(f"{self._deployments}/api")
            return bool(now["status"].get("observedGeneration") == now["metadata"]["generation"])

        eventually(seen, what="the controller to see the release")
        time.sleep(2)

    def release(self) -> None:
        containers = [{"name": "api", "image": "a:2"}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        self.api.patch(f"{self._deployments}/api", patch, "application/strategic-merge-patch+json")

    def pods(self) -> list[Json]:
        return self.api.get(self._pods)["items"]

    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods()]

    def ready(self, image: str) -> int:
        return sum(
            pod["spec"]["containers"][0]["image"] == image and pod["status"].get("phase") == "Running"
            for pod in self.pods()
        )

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.space}/pods"

    @property
    def _deployments(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.space}/deployments"


def test_a_release_ends_where_the_pods_fill_their_nodes(control_plane: ControlPlane, fresh: Fresh) -> None:
    release = Release(control_plane, fresh, rendered(**GPU))
    release.start()

    release.release()

    eventually(lambda: (release.ready("a:1"), release.ready("a:2")) == (0, 2), what="the next release")


def test_it_would_wait_for_a_third_node_if_the_next_pod_came_first(control_plane: ControlPlane, fresh: Fresh) -> None:
    release = Release(control_plane, fresh, rendered(**GPU))
    release.start(strategy=BRINGS)

    release.release()

    eventually(lambda: any(map(is_unschedulable, release.pods())), what="a pod without a node")
    assert (release.ready("a:1"), release.ready("a:2")) == (2, 0)


def is_unschedulable(pod: Json) -> bool:
    return any(it.get("reason") == "Unschedulable" for it in pod["status"].get("conditions", ()))


def test_the_next_pod_of_a_fixed_workload_that_is_alone_waits_for_the_end_of_the_old_one(
    control_plane: ControlPlane, fresh: Fresh
) -> None:
    """Pods end once KWOK is at work again, so the old one stops as late as the test says."""
    release = Release(control_plane, fresh, rendered(**SIZE, category="fixed"))
    release.start()
    (old,) = release.names()
    control_plane.suspend("kwok")
    try:
        release.release()
        eventually(
            lambda: any("deletionTimestamp" in pod["metadata"] for pod in release.pods()), what="the old pod to be told"
        )
        release.wait_for_the_controller()
        assert release.names() == [old]
    finally:
        control_plane.resume("kwok")

    eventually(lambda: release.ready("a:2") == 1 and old not in release.names(), what="the next pod")
