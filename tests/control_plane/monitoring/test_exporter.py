"""The exporter as a process on a real API server, with exactly the account that is rendered for it.

KWOK plays the nodes, and pods on them run by its word; restarts are told in a kubelet's place.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.recording.output import output_files
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.exporter import ExporterConfig
from ebbtide.vocabulary.labels import CLOSER, EXPORTER, NAMESPACE
from tests.builders.control_plane import Fresh, eventually
from tests.builders.monitoring.promql import valued
from tests.builders.operation import Process
from tests.builders.recorded import record
from tests.builders.settings import loaded
from tests.control_plane.support.applying import Applying, objects_in

pytestmark = pytest.mark.control_plane

STACK = """\
config:
  aws:region: us-east-1
  ebbtide:customer: acme
  ebbtide:businessHours: { timezone: Europe/Berlin, week: { mon-fri: "08:00-19:00" }, holidays: { country: DE } }
  ebbtide:workers:
    train: { source: { queues: [train] }, image: "train:1", max: 3, cpu: 1, memory: 2Gi, longestJob: 1h }
  ebbtide:monitoring: { prometheus: existing, namespace: monitoring }
"""
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
CRON_JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs"
_RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_RESTRICTED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CLOSED = "2026-11-23T05:50:09Z"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The rendered namespaces, closer and exporter, and nothing else of the stack."""

    plane: ControlPlane
    folder: Path
    fresh: Fresh
    apps: str = NAMESPACE

    @property
    def file(self) -> Path:
        return self.folder / "exporter.json"

    @property
    def api(self) -> KubeApi:
        return self.plane.api

    def node(self, instance_type: str = "m7i.large") -> str:
        """Open to pods."""
        labels = {
            "ebbtide.dev/node-group": "flexible",
            "ebbtide.dev/node-kind": "flexible",
            "node.kubernetes.io/instance-type": instance_type,
            "eks.amazonaws.com/capacityType": "SPOT",
            "topology.kubernetes.io/zone": "us-east-1b",
        }
        name = self.fresh.node(labels=labels, cpu="3920m", memory="15Gi")
        eventually(lambda: not self.api.get(f"/api/v1/nodes/{name}")["spec"].get("taints"), what="a node")
        return name

    def pod(self, name: str, node: str | None) -> None:
        labels = {"ebbtide.dev/workload": "train", "ebbtide.dev/category": "worker"}
        asks = {"requests": {"cpu": "1500m", "memory": "2Gi"}}
        container = {"name": "main", "image": "train", "resources": asks, "securityContext": _RESTRICTED}
        spec: dict[str, Any] = {"containers": [container], "securityContext": _RESTRICTED_POD}
        spec |= {"nodeName": node} if node else {"nodeSelector": {"no-such": "node"}}
        self.api.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        if node:
            eventually(lambda: self.api.get(f"{PODS}/{name}")["status"]["phase"] == "Running", what=f"{name} to run")

    def restarted(self, name: str, times: int) -> None:
        """As a kubelet tells it of a container that ran out of memory."""
        end = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": datetime.now(UTC).isoformat(timespec="seconds")}
        status: dict[str, Any] = self.api.get(f"{PODS}/{name}")["status"]["containerStatuses"][0]
        changed = {**status, "restartCount": times, "lastState": {"terminated": end}}
        self.api.patch(f"{PODS}/{name}/status", {"status": {"containerStatuses": [changed]}})

    def gone(self, name: str) -> None:
        self.api.delete(f"{PODS}/{name}")
        eventually(lambda: name not in str(self.api.get(PODS)["items"]), what=f"{name} to be gone")


@pytest.fixture(scope="module")
def rendered(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The exporter's document, once all that the exporter needs is there."""
    folder = tmp_path_factory.mktemp("rendered")
    settings = loaded(STACK, folder)
    write_directory(folder / "out", output_files(record(settings)))
    applying = Applying(control_plane.api)
    objects = [it for it in objects_in(folder / "out") if _needed(it)]
    for cron_job in (it for it in objects if it["kind"] == "CronJob"):
        cron_job["spec"]["suspend"] = True  # or its controller writes the status too, at the hours when a run is due
    applying.apply(objects)
    (document,) = [it["data"]["exporter.json"] for it in objects if it["kind"] == "ConfigMap"]
    yield document
    for path in reversed(applying.paths):
        control_plane.api.delete(path)

    def left() -> list[str]:
        found = control_plane.api.get("/api/v1/namespaces")["items"]
        return [it["metadata"]["name"] for it in found if it["metadata"]["name"] in (NAMESPACE, WORKER_NAMESPACE)]

    eventually(lambda: not left(), what="the stack's namespaces to be gone")


def _needed(item: Mapping[str, Any]) -> bool:
    kind, name = item["kind"], item["metadata"]["name"]
    rights = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap")
    return (
        kind == "Namespace" or (kind == "CronJob" and name.startswith(CLOSER)) or (kind in rights and name == EXPORTER)
    )


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, rendered: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(plane=control_plane, folder=tmp_path, fresh=fresh)
    scene.file.write_text(rendered)
    yield scene
    for pod in scene.api.get(PODS)["items"]:
        scene.gone(pod["metadata"]["name"])


@pytest.fixture
def process(scene: Scene) -> Iterator[Process]:
    account = scene.plane.kubeconfig_as(NAMESPACE, EXPORTER)
    process = Process("exporter", scene, kubeconfig=account, module="controllers.exporter")  # pyright: ignore[reportArgumentType] - plane, file, folder and apps are all it takes
    eventually(lambda: process.get("/readyz") == (200, "ok\n"), what="the exporter to see all")
    yield process
    process.kill()
    print(process.log.read_text())


def told(process: Process, name: str, **labels: str) -> list[float]:
    """The values of the series that have these labels."""
    found = valued(process.get("/metrics")[1]).get(f"ebbtide_{name}", [])
    return [value for have, value in found if labels.items() <= have.items()]


def tells(process: Process, name: str, value: float | None, **labels: str) -> Callable[[], bool]:
    """Whether it tells exactly this; None: nothing."""
    return lambda: told(process, name, **labels) == ([] if value is None else [value])


def test_nodes_and_pods_are_told_as_they_come_and_no_longer_once_they_are_gone(scene: Scene, process: Process) -> None:
    node = scene.node()
    scene.pod("train-1", node)
    scene.pod("train-2", None)

    eventually(tells(process, "pod_info", 1, pod="train-1", node=node, workload="train", category="worker"), what="pod")
    eventually(tells(process, "pods_pending", 1, workload="train", category="worker"), what="the one that waits")
    place = {"group": "flexible", "kind": "flexible", "instance_type": "m7i.large"}
    assert told(process, "node_info", node=node, **place, capacity_type="SPOT", zone="us-east-1b") == [1]
    assert told(process, "node_cpu_cores", node=node) == [3.92]
    assert told(process, "node_memory_bytes", node=node) == [15 * 2**30]
    assert told(process, "node_ready", node=node) == [1]
    made = datetime.fromisoformat(scene.api.get(f"/api/v1/nodes/{node}")["metadata"]["creationTimestamp"])
    assert told(process, "node_created_timestamp_seconds", node=node) == [made.timestamp()]
    asked = {"namespace": WORKER_NAMESPACE, "pod": "train-1"}
    assert told(process, "pod_requested_cpu_cores", **asked) == [1.5]
    assert told(process, "pod_requested_memory_bytes", **asked) == [2 * 2**30]
    assert told(process, "node_gpus", node=node) == []

    scene.gone("train-1")
    scene.api.delete(f"/api/v1/nodes/{node}")
    for name in ("node_info", "node_cpu_cores", "node_ready", "pod_info"):
        eventually(tells(process, name, None, node=node), what=f"{name} to be gone")
    eventually(tells(process, "pod_requested_cpu_cores", None, **asked), what="its requests to be gone")
    assert told(process, "pods_pending", workload="train") == [1]


def test_a_node_costs_what_the_rendered_document_says_and_of_another_type_nothing_is_told(
    scene: Scene, process: Process
) -> None:
    prices = load(ExporterConfig, scene.file.read_text()).dollars_per_hour
    known, dollars = min(prices.items())
    one, other = scene.node(known), scene.node("x9.huge")

    eventually(tells(process, "node_dollars_per_hour", dollars, node=one), what="the price")
    eventually(tells(process, "node_ready", 1, node=other), what="the other node")
    assert told(process, "node_dollars_per_hour", node=other) == []


def test_an_hpa_that_cannot_scale_says_so_and_the_closer_when_it_last_ended_well(
    scene: Scene, process: Process
) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "no-such"}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {"scaleTargetRef": target, "maxReplicas": 6, "metrics": [{"type": "Resource", "resource": metric}]}
    scene.api.create(HPAS, {"metadata": {"name": "api"}, "spec": spec})
    (closer,) = scene.api.get(CRON_JOBS)["items"]
    name = closer["metadata"]["name"]
    status = {"status": {"lastSuccessfulTime": CLOSED, "lastScheduleTime": "2026-11-23T05:50:00Z"}}
    scene.api.patch(f"{CRON_JOBS}/{name}/status", status)
    hpa = {"namespace": NAMESPACE, "hpa": "api"}

    eventually(tells(process, "hpa_max_replicas", 6, **hpa), what="the HPA")
    eventually(tells(process, "hpa_able_to_scale", 0, **hpa), what="that it cannot")
    at = datetime.fromisoformat(CLOSED).timestamp()
    eventually(tells(process, "closer_last_success_timestamp_seconds", at, cronjob=name), what="the closer")
    assert told(process, "closer_last_schedule_timestamp_seconds", cronjob=name) == [at - 9]
    assert len(told(process, "holidays_end_timestamp_seconds")) == 1
    scene.api.delete(f"{HPAS}/api")
    eventually(tells(process, "hpa_max_replicas", None, **hpa), what="the HPA to be gone")


def test_what_happens_is_counted_once_and_survives_an_api_server_that_is_away(scene: Scene, process: Process) -> None:
    node = scene.node()
    scene.pod("train-1", node)
    eventually(tells(process, "container_restarts_total", 0, workload="train"), what="the start at 0")
    scene.restarted("train-1", 3)
    eventually(tells(process, "container_restarts_total", 3, workload="train"), what="the restarts")
    assert told(process, "container_oom_kills_total", workload="train") == [1]

    scene.plane.kill("kube-apiserver")
    eventually(tells(process, "exporter_sees", 0, what="pods"), what="that it sees nothing")
    for what in ("nodes", "hpas", "cronjobs"):
        eventually(tells(process, "exporter_sees", 0, what=what), what=f"that it does not see {what}")
    page = process.get("/metrics")[1]
    assert not any(name in page for name in ("ebbtide_node_", "ebbtide_pod", "ebbtide_container_", "ebbtide_closer_"))
    assert process.get("/healthz") == (200, "ok\n")
    scene.plane.restart("kube-apiserver")
    eventually(lambda: process.get("/readyz") == (200, "ok\n"), what="that it sees again")
    assert told(process, "container_restarts_total", workload="train") == [3]

    eviction = {"metadata": {"name": "train-1"}, "apiVersion": "policy/v1", "kind": "Eviction"}
    scene.api.create(f"{PODS}/train-1/eviction", eviction)
    eventually(
        tells(process, "evictions_total", 1, workload="train", reason="EvictionByEvictionAPI"), what="the eviction"
    )
    assert sum(told(process, "evictions_total", workload="train")) == 1
    assert told(process, "container_restarts_total", workload="train") == [3]


def test_another_process_counts_from_its_own_beginning(scene: Scene, request: pytest.FixtureRequest) -> None:
    scene.pod("train-1", scene.node())
    scene.restarted("train-1", 3)
    process: Process = request.getfixturevalue("process")

    assert told(process, "container_restarts_total", workload="train") == [0]
    scene.restarted("train-1", 4)
    eventually(tells(process, "container_restarts_total", 1, workload="train"), what="the next restart")


def test_it_ends_at_once_when_it_is_told_to(process: Process) -> None:
    assert process.terminate() == 0


# --- rights -----------------------------------------------------------------------------------------------------------


def refused(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except ApiError as error:
        return error.status == 403
    return False


def test_its_account_may_read_what_it_tells_and_nothing_more(scene: Scene) -> None:
    elsewhere, node = scene.fresh.namespace(), scene.node()
    scene.pod("train-1", node)
    (closer,) = scene.api.get(CRON_JOBS)["items"]
    mine = scene.plane.api_as(NAMESPACE, EXPORTER)
    eventually(lambda: mine.get("/api/v1/nodes"), what="its rights to be known")

    for path in ("/api/v1/nodes", "/api/v1/pods", HPAS, CRON_JOBS):
        assert mine.get(path)["kind"].endswith("List")
    hidden = [
        *(f"/api/v1/namespaces/{space}/{kind}" for space in (NAMESPACE, WORKER_NAMESPACE) for kind in _HIDDEN),
        "/api/v1/secrets",
        f"/api/v1/nodes/{node}/proxy/metrics",
        f"{PODS}/train-1/log",
        f"/apis/autoscaling/v2/namespaces/{elsewhere}/horizontalpodautoscalers",
        f"/apis/batch/v1/namespaces/{WORKER_NAMESPACE}/cronjobs",
        f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments",
        f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases",
    ]
    assert [path for path in hidden if not refused(lambda path=path: mine.get(path))] == []
    label = {"metadata": {"labels": {"changed": "by-the-exporter"}}}
    objects = [f"/api/v1/nodes/{node}", f"{PODS}/train-1", f"{CRON_JOBS}/{closer['metadata']['name']}"]
    for path in objects:
        assert refused(lambda path=path: mine.patch(path, label)), path
        assert refused(lambda path=path: mine.delete(path)), path
    eviction = {"metadata": {"name": "train-1"}, "apiVersion": "policy/v1", "kind": "Eviction"}
    assert refused(lambda: mine.create(f"{PODS}/train-1/eviction", eviction))
    assert refused(lambda: mine.create(PODS, {"metadata": {"name": "new"}}))
    assert refused(lambda: mine.create(f"/api/v1/namespaces/{NAMESPACE}/events", {"metadata": {"name": "new"}}))


_HIDDEN = ("secrets", "configmaps", "serviceaccounts", "services", "events")
