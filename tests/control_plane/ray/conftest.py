"""A stack with a Ray cluster on the control plane, and KubeRay's real operator with exactly the rendered rights."""

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.binaries import OF_RAY, RAY_OPERATOR, find, how_to_get
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import APPLY, ApiError, Json, KubeApi
from ebbtide.recording.output import output_files
from ebbtide.settings.sections.ray import RAY_OPERATOR as ACCOUNT
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.labels import NAMESPACE, SPEC
from tests.builders.control_plane import eventually
from tests.builders.recorded import record
from tests.builders.settings import loaded
from tests.control_plane.support.applying import followed

RAY = "ebbtide-ray-flow"
CLUSTER = f"/apis/ray.io/v1/namespaces/{RAY}/rayclusters/flow"
PODS = f"/api/v1/namespaces/{RAY}/pods"
BUDGETS = f"/apis/policy/v1/namespaces/{RAY}/poddisruptionbudgets"
WRITER = "ebbtide-workloads"


@dataclass(frozen=True, kw_only=True)
class RayStack:
    plane: ControlPlane
    folder: Path
    log_begins: int  # characters that operators of earlier stacks have written

    @property
    def api(self) -> KubeApi:
        return self.plane.api

    @property
    def wanted(self) -> Json:
        return json.loads(self.api.get(CLUSTER)["metadata"]["annotations"][SPEC])

    def write_spec(self, spec: Mapping[str, Any]) -> Json:
        """As the workload controller writes it."""
        body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "flow"}, "spec": spec}
        return self.api.patch(CLUSTER, body, APPLY, fieldManager=WRITER, fieldValidation="Strict", force="true")

    def scale(self, group: int, replicas: int) -> None:
        """As Ray's autoscaler writes: by the index of the group."""
        self._patch([{"op": "replace", "path": f"/spec/workerGroupSpecs/{group}/replicas", "value": replicas}])

    def remove(self, group: int, replicas: int, pod: str) -> None:
        """As Ray's autoscaler takes an idle worker away."""
        at = f"/spec/workerGroupSpecs/{group}"
        named = {"op": "replace", "path": f"{at}/scaleStrategy", "value": {"workersToDelete": [pod]}}
        self._patch([named, {"op": "replace", "path": f"{at}/replicas", "value": replicas}])

    def _patch(self, operations: Any) -> None:
        """As the account of the head, beside which the autoscaler runs."""
        as_head = self.plane.api_as(RAY, "flow-head")
        as_head._answer("PATCH", CLUSTER, {}, operations, "application/json-patch+json")

    def pods(self, group: str) -> list[Json]:
        found = self.api.get(PODS, labelSelector=f"ray.io/group={group}")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def is_gone(self) -> bool:
        try:
            self.api.get(CLUSTER)
        except ApiError as error:
            return error.status == 404
        return False

    def apply(self) -> None:
        """All files again, as a later `kubectl apply`."""
        self.plane.kubectl("apply", "--server-side", "-f", str(self.folder / "kubernetes"))


STACK = """\
config:
  aws:region: us-east-1
  ebbtide:customer: acme
  ebbtide:businessHours: { timezone: America/New_York, week: { mon-fri: "08:00-19:00" } }
  ebbtide:workers:
    preprocess:
      source: { queues: [preprocess] }
      image: registry.example.com/ml/ray:2.60.0
      max: 3
      cpu: 1
      memory: 2Gi
      longestJob: 12h
      ray: flow
  ebbtide:ray:
    flow:
      version: "2.60.0"
      image: registry.example.com/ml/ray:2.60.0
      head: { cpu: 2, memory: 6Gi }
      groups:
        cpu: { max: 20, cpu: 7, memory: 24Gi }
        gpu: { max: 8, cpu: 7, memory: 24Gi, gpu: 1 }
      longestTask: 30m
"""


@contextmanager
def operator(plane: ControlPlane, *spaces: str, home: str = NAMESPACE) -> Generator[None]:
    """KubeRay's, as its account in `home`, over these namespaces; without any, over all there are."""
    program = find(RAY_OPERATOR)
    if program is None:
        raise AssertionError(how_to_get(OF_RAY))
    quiet = ["--metrics-addr=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]
    where = [f"--kubeconfig={plane.kubeconfig_as(home, ACCOUNT)}", f"--watch-namespace={','.join(spaces)}"]
    plane.processes.start("kuberay", [str(program), *where, "--enable-leader-election=false", *quiet])
    try:
        yield
    finally:
        plane.processes.stop("kuberay")


@pytest.fixture(scope="module")
def head_options() -> str:
    """Of the head in the stack file."""
    return ""


@pytest.fixture(scope="module")
def ray_stack(
    control_plane: ControlPlane, head_options: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RayStack]:
    if find(RAY_OPERATOR) is None:
        pytest.skip(how_to_get(OF_RAY))
    text = STACK.replace("memory: 6Gi }", f"memory: 6Gi{head_options} }}")
    settings = loaded(text, tmp_path_factory.mktemp("stack"))
    folder = tmp_path_factory.mktemp("ray")
    write_directory(folder, output_files(record(settings)))
    followed(control_plane, folder)
    for kind in ("fixed", "flexible", "gpu"):
        labels = {"ebbtide.dev/node-kind": kind, "ebbtide.dev/node-group": kind}
        control_plane.add_node(f"ray-{kind}", labels=labels, gpu=4 if kind == "gpu" else 0, cpu=64, memory="256Gi")
    log = control_plane.processes.log("kuberay")
    written = len(log.read_text()) if log.exists() else 0
    with operator(control_plane, RAY):
        stack = RayStack(plane=control_plane, folder=folder, log_begins=written)
        yield stack
        if not stack.is_gone():  # before its kind, and while the operator may still finish it
            control_plane.api.delete(CLUSTER)
        eventually(stack.is_gone, what="the RayCluster to be gone", patience=150)
    for file in sorted((folder / "kubernetes").iterdir(), reverse=True):
        control_plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", str(file))
    eventually(lambda: _gone(control_plane.api), what="the stack's namespaces to be gone")
    for kind in ("fixed", "flexible", "gpu"):
        control_plane.api.delete(f"/api/v1/nodes/ray-{kind}")


def _gone(api: KubeApi) -> bool:
    names = {namespace["metadata"]["name"] for namespace in api.get("/api/v1/namespaces")["items"]}
    return not any(name.startswith(NAMESPACE) for name in names)
