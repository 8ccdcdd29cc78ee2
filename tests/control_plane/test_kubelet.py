"""The kubelet that plays pods as processes, on a real API server: what happens to a pod happens to its process."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.kubelet import Kubelet, What

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.vocabulary.labels import CATEGORY
from tests.builders.control_plane import Fresh, eventually
from tests.processes import lives

pytestmark = pytest.mark.control_plane

SPEED = 20.0
PROGRAMS: Mapping[str, str] = {
    "patient": "import time; time.sleep(1000)",
    "stubborn": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
    "time.sleep(1000)",
    "family": "import signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print(subprocess.Popen(['sleep', '1000']).pid, flush=True); time.sleep(1000)",
    "brief": "import os; print(os.environ['POD_NAME'], os.environ['HOSTNAME'], os.environ['MINE'])",
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane(hands_off=f"{CATEGORY}=worker") as plane:
        plane.add_node("one")
        yield plane


class Pods:
    """Pods in a namespace of their own, named by the program that they run."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.api, self.path = plane.api, f"/api/v1/namespaces/{namespace}/pods"

    def create(self, program: str, *, grace: int = 30, node: str = "one") -> None:
        spec: dict[str, Any] = {
            "terminationGracePeriodSeconds": grace,
            "containers": [{"name": "worker", "image": program}],
            **({"nodeName": node} if node else {"nodeSelector": {"none": "such"}}),
        }
        self.api.create(self.path, {"metadata": {"name": program, "labels": {CATEGORY: "worker"}}, "spec": spec})

    def delete(self, name: str, grace: int | None = None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.api._answer("DELETE", f"{self.path}/{name}", {}, options)

    def get(self, name: str) -> Json | None:
        with suppress(ApiError):
            return self.api.get(f"{self.path}/{name}")
        return None

    def container(self, name: str) -> Json:
        containers: list[Json] = (self.get(name) or {}).get("status", {}).get("containerStatuses") or [{}]
        return containers[0]

    def is_ready(self, name: str) -> bool:
        conditions = (self.get(name) or {}).get("status", {}).get("conditions", ())
        return {"type": "Ready", "status": "True"} in [{key: c[key] for key in ("type", "status")} for c in conditions]

    def until_ready(self, name: str) -> None:
        eventually(lambda: self.is_ready(name), what=f"{name} to be ready")

    def until_gone(self, name: str) -> None:
        eventually(lambda: self.get(name) is None, what=f"{name} to be gone")


@pytest.fixture
def pods(plane: ControlPlane) -> Iterator[Pods]:
    fresh = Fresh(plane)
    yield Pods(plane, fresh.namespace())
    fresh.clean()


@pytest.fixture
def kubelet(pods: Pods, tmp_path: Path) -> Iterator[Kubelet]:
    namespace = pods.path.split("/")[-2]
    with Kubelet(
        pods.api, namespace, command, environment={"MINE": "yes"}, speed=SPEED, log_folder=tmp_path
    ) as kubelet:
        yield kubelet


def command(pod: Json) -> list[str] | None:
    image = pod["spec"]["containers"][0]["image"]
    return [sys.executable, "-S", "-c", PROGRAMS[image]] if image in PROGRAMS else [image] if "/" in image else None


def happened(kubelet: Kubelet, pod: str) -> list[What]:
    return [entry.what for entry in kubelet.history(pod)]


def test_a_bound_pod_runs_and_ends_as_it_is_told(pods: Pods, kubelet: Kubelet) -> None:
    pods.create("patient")
    pods.until_ready("patient")
    assert lives(kubelet.processes()["patient"])
    status = (pods.get("patient") or {})["status"]
    assert (status["phase"], bool(status["podIP"]), bool(status["startTime"])) == ("Running", True, True)

    pods.delete("patient")
    pods.until_gone("patient")

    assert happened(kubelet, "patient") == [What.STARTED, What.TOLD_TO_STOP, What.EXITED]
    assert kubelet.processes() == {}


def test_a_process_that_does_not_end_is_killed_after_its_grace_and_not_before(
    pods: Pods, kubelet: Kubelet, tmp_path: Path
) -> None:
    pods.create("stubborn", grace=30)
    eventually(lambda: "up" in printed(tmp_path, "stubborn"), what="the process to ignore SIGTERM")

    pods.delete("stubborn")
    pods.until_gone("stubborn")

    _, told, killed, exited = kubelet.history("stubborn")
    assert (told.what, killed.what, exited.code) == (What.TOLD_TO_STOP, What.OUT_OF_GRACE, -9)
    assert killed.at - told.at >= 30 / SPEED


def test_a_later_deletion_with_less_grace_is_followed(pods: Pods, kubelet: Kubelet, tmp_path: Path) -> None:
    pods.create("stubborn", grace=100_000)
    eventually(lambda: "up" in printed(tmp_path, "stubborn"), what="the process to ignore SIGTERM")
    pods.delete("stubborn")
    eventually(lambda: What.TOLD_TO_STOP in happened(kubelet, "stubborn"), what="the SIGTERM")

    pods.delete("stubborn", grace=10)
    pods.until_gone("stubborn")

    assert happened(kubelet, "stubborn") == [What.STARTED, What.TOLD_TO_STOP, What.OUT_OF_GRACE, What.EXITED]


def test_a_process_killed_from_outside_is_started_again_in_its_pod(pods: Pods, kubelet: Kubelet) -> None:
    pods.create("patient")
    pods.until_ready("patient")
    first = kubelet.processes()["patient"]

    kubelet.kill("patient")
    eventually(lambda: pods.container("patient").get("restartCount") == 1, what="the restart")
    pods.until_ready("patient")

    assert kubelet.processes()["patient"] != first
    assert pods.container("patient")["lastState"]["terminated"]["exitCode"] == 137
    assert happened(kubelet, "patient") == [What.STARTED, What.STRUCK, What.EXITED, What.STARTED]


def test_a_process_that_exits_by_itself_is_started_again(pods: Pods, kubelet: Kubelet, tmp_path: Path) -> None:
    pods.create("brief")
    eventually(lambda: pods.container("brief").get("restartCount", 0) >= 1, what="the restart")

    assert happened(kubelet, "brief")[:3] == [What.STARTED, What.EXITED, What.STARTED]
    assert printed(tmp_path, "brief").splitlines()[0] == "brief brief yes"


def test_a_deletion_by_force_ends_the_whole_process_group(pods: Pods, kubelet: Kubelet, tmp_path: Path) -> None:
    pods.create("family")
    child = int(eventually(lambda: printed(tmp_path, "family"), what="the child's id"))
    parent = kubelet.processes()["family"]

    pods.delete("family", grace=0)

    eventually(lambda: What.EXITED in happened(kubelet, "family"), what="the exit")
    assert not lives(parent)
    eventually(lambda: not lives(child), what="the child to end")
    assert pods.get("family") is None


def test_what_cannot_be_started_is_told_in_the_status(pods: Pods, kubelet: Kubelet) -> None:
    pods.create("nowhere")
    pods.until_ready("nowhere")  # no command: it is just said to run
    pods.api.create(
        pods.path,
        {
            "metadata": {"name": "wrong", "labels": {CATEGORY: "worker"}},
            "spec": {"nodeName": "one", "containers": [{"name": "worker", "image": "no/such/program"}]},
        },
    )

    eventually(lambda: "message" in pods.container("wrong").get("state", {}).get("waiting", {}), what="the reason")

    assert "no/such/program" in pods.container("wrong")["state"]["waiting"]["message"]
    assert not pods.is_ready("wrong")


def test_a_pod_without_a_node_is_left_alone(pods: Pods, kubelet: Kubelet) -> None:
    pods.create("patient", node="")
    pods.create("brief")
    eventually(lambda: happened(kubelet, "brief"), what="the other pod's start")

    pods.delete("patient")
    pods.until_gone("patient")

    assert happened(kubelet, "patient") == []


def test_an_api_server_that_restarts_changes_nothing(plane: ControlPlane, pods: Pods, kubelet: Kubelet) -> None:
    pods.create("patient")
    pods.until_ready("patient")

    plane.restart("kube-apiserver")
    eventually(lambda: pods.delete("patient") is None, what="the deletion")
    pods.until_gone("patient")

    assert happened(kubelet, "patient") == [What.STARTED, What.TOLD_TO_STOP, What.EXITED]


def test_at_its_end_nothing_is_left(pods: Pods, tmp_path: Path) -> None:
    with Kubelet(pods.api, pods.path.split("/")[-2], command, log_folder=tmp_path) as kubelet:
        pods.create("family")
        child = int(eventually(lambda: printed(tmp_path, "family"), what="the child's id"))
        parent = kubelet.processes()["family"]

    assert not lives(parent)
    eventually(lambda: not lives(child), what="the child to end")
    assert kubelet.processes() == {}
    assert pods.get("family") is not None


def printed(folder: Path, pod: str) -> str:
    log = folder / f"{pod}.log"
    return log.read_text() if log.exists() else ""
