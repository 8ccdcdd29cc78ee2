"""The vertical pod autoscaler, all three of its programs: what a process uses becomes what its pods ask for."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.serving.program import KUBE_SYSTEM
from components.serving.vertical import ADMISSION, RECOMMENDER, UPDATER
from tests.builders.control_plane import eventually
from tests.serving.support import parts
from tests.serving.support.site import NAMESPACE, Serving

pytestmark = pytest.mark.serving

ECHO = Path(__file__).parent / "support" / "echo.py"
HOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config"


@pytest.fixture(scope="module")
def vertical(serving: Serving) -> Iterator[Serving]:
    made = parts.vertical()
    serving.apply(*made)
    for part in (ADMISSION, RECOMMENDER, UPDATER):
        serving.pods(part, 1, namespace=KUBE_SYSTEM)
    eventually(lambda: serving.plane.api.get(HOOK), what="the webhook to be registered")
    yield serving
    serving.plane.api.delete(HOOK)
    serving.delete(*(one for one in made if one["kind"] == "Deployment"))


def autoscaler(name: str, mode: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "updatePolicy": {"updateMode": mode, "minReplicas": 1},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "200m"}}]},
        },
    }


def cpu_of(serving: Serving, name: str) -> list[str]:
    """What the ready pods of a Deployment ask for."""
    pods = serving.plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    ready = {pod.name for pod in serving.pods(name)}
    return [
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods if pod["metadata"]["name"] in ready
    ]


@pytest.mark.timeout(300)
def test_a_new_pod_asks_for_what_the_one_before_used(vertical: Serving) -> None:
    made = [
        *vertical.deployment("sized", [sys.executable, str(ECHO), "busy"], cpu="10m"),
        autoscaler("sized", "Initial"),
    ]
    vertical.apply(*made)
    try:
        (first,) = vertical.pods("sized", 1)

        def recommended() -> bool:
            found = vertical.get("vpa", "sized")
            return bool(found.get("status", {}).get("recommendation", {}).get("containerRecommendations"))

        eventually(recommended, what="a recommendation", patience=180)
        assert cpu_of(vertical, "sized") == ["10m"]

        vertical.plane.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{first.name}")
        eventually(lambda: cpu_of(vertical, "sized") not in ([], ["10m"]), what="a pod that asks for more")
    finally:
        vertical.delete(*made)
