"""The vertical pod autoscaler, all three of its programs, with the object of a stack file: what a process uses becomes
what its pods ask for.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.program import KUBE_SYSTEM
from components.serving.vertical import ADMISSION, RECOMMENDER, UPDATER
from controllers.adapters.kube_api import Json
from ebbtide.demo.model_server import ModelServer
from ebbtide.vocabulary.labels import WORKLOAD
from tests.builders.control_plane import eventually
from tests.serving.support import parts
from tests.serving.support.kubelet import PLAIN
from tests.serving.support.site import NAMESPACE, Serving
from tests.serving.support.stack import lasting, open_budget, served, service

pytestmark = pytest.mark.serving

ECHO = Path(__file__).parent / "support" / "echo.py"
HOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config"
ANY = ModelServer(port=0)
ASKED = "10m"
TWO = "scale: { metrics: { inFlight: 3 }, min: 2, max: 8 }"


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


def busy(one: Json, _: ModelServer) -> Json:
    """A Deployment whose image uses a tenth of a core, in its place."""
    (container,) = one["spec"]["template"]["spec"]["containers"]
    container |= {"image": PLAIN, "command": [sys.executable, str(ECHO), "busy"], "args": []}
    return one


def cpu_of(serving: Serving, name: str) -> dict[str, str]:
    """What the ready pods of a Deployment have been given, by pod."""
    pods = serving.plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"{WORKLOAD}={name}")["items"]
    ready = {pod.name for pod in serving.pods(name)}
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"]
        for pod in pods
        if pod["metadata"]["name"] in ready
    }


def test_a_new_pod_asks_for_what_the_one_before_used(vertical: Serving) -> None:
    sized = service("sized", "vertical: initial", f"cpu: {ASKED}")
    with served(vertical, sized, replicas={"sized": 1}, server=ANY, played=busy):
        (first,) = vertical.pods("sized", 1)

        def recommended() -> bool:
            found = vertical.get("vpa", "sized")
            return bool(found.get("status", {}).get("recommendation", {}).get("containerRecommendations"))

        eventually(recommended, what="a recommendation", patience=180)
        assert cpu_of(vertical, "sized") == {first.name: ASKED}

        vertical.plane.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{first.name}")
        eventually(lambda: _asks_for_more(vertical, "sized", 1), what="a pod that asks for more")


def _asks_for_more(serving: Serving, name: str, pods: int) -> bool:
    found = cpu_of(serving, name)
    return len(found) == pods and ASKED not in found.values()


@pytest.mark.long
def test_in_place_the_pods_that_run_are_given_more_and_stay(vertical: Serving) -> None:
    with served(
        vertical,
        service("grown", "vertical: inPlace", f"cpu: {ASKED}", TWO),
        replicas={"grown": 2},
        server=ANY,
        played=busy,
    ):
        before = cpu_of(vertical, "grown")

        eventually(lambda: _asks_for_more(vertical, "grown", 2), what="both to be given more", patience=300)
        assert before == dict.fromkeys(cpu_of(vertical, "grown"), ASKED)


@pytest.mark.long
def test_where_the_node_has_no_room_a_pod_moves_by_night_alone(vertical: Serving) -> None:
    """Its budget is closed by day: the updater's evictions are refused."""
    moved = service("moved", "vertical: inPlace", f"cpu: {ASKED}", TWO)
    vertical.kubelet.has_room = False
    try:
        with served(vertical, moved, replicas={"moved": 2}, server=ANY, played=busy):
            before = cpu_of(vertical, "moved")
            eventually(lambda: "Eviction failed" in _said_by(vertical, UPDATER), what="an eviction", patience=300)
            for _ in lasting(25):  # two turns of the updater
                assert cpu_of(vertical, "moved") == before == dict.fromkeys(before, ASKED)

            open_budget(vertical, "moved")
            eventually(lambda: _asks_for_more(vertical, "moved", 2), what="two that ask for more", patience=120)
            assert not before.keys() & cpu_of(vertical, "moved").keys()
    finally:
        vertical.kubelet.has_room = True


def _said_by(serving: Serving, part: str) -> str:
    (pod,) = serving.pods(part, namespace=KUBE_SYSTEM)
    return "".join(file.read_text() for file in serving.kubelet.logs.glob(f"{pod.name}.*"))
