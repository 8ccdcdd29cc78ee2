"""The platform under examples/ on a real API server: from its stack file to a drained node.

Workers, notebooks and the pods of jobs are played by the test, since KWOK would end a job's pods as soon as they run.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import InstalledStack, add_group_node, install

from components.cluster.autoscaler import NAME as AUTOSCALER
from components.cluster.autoscaler import NAMESPACE as AUTOSCALER_NAMESPACE
from components.redis.server import KEPT
from controllers.adapters.kube_api import ApiError, Json, KubeApi
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import CATEGORY, CONTROLLER, FIELD_MANAGER, NAMESPACE, NODE_GROUP, WORKLOAD, Category
from tests.builders.control_plane import eventually
from tests.builders.example import example, notebook

pytestmark = pytest.mark.control_plane

NODES = {"fixed": 2, "flexible": 4, "gpu": 2}  # a first worker that was told to stop may still hold one
RUNS = {"migrate-4-2", "nightly-report", "hub-pods"}
OURS = {"ebbtide-redis", "ebbtide-controller", "ebbtide-workloads"}
POOLS = {"import", "export", "predict", "thumbnails", "train"}
HUB = "ebbtide-hub"
SPACES = (NAMESPACE, WORKER_NAMESPACE, HUB)
NOTEBOOKS = f"/api/v1/namespaces/{HUB}/pods"
JOBS = f"/apis/batch/v1/namespaces/{WORKER_NAMESPACE}"
DISKS = {
    "redis": ("16Gi", KEPT),
    "postgres": ("100Gi", "ebbtide.postgres.data"),
    "hub": ("5Gi", "ebbtide.hub.state"),
}
GRANTED, REFUSED = 201, 429


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The example as it runs, a worker in each pool, a notebook, and a nightly report under way."""

    plane: ControlPlane
    stack: InstalledStack

    def pods(self, category: Category | None = None) -> list[Json]:
        """Those of the stack's namespaces that are to stay: `install` has told each pool's first worker to stop."""
        selector = WORKLOAD if category is None else f"{CATEGORY}={category}"
        found = self.plane.api.get("/api/v1/pods", labelSelector=selector)["items"]
        heads = ((pod, pod["metadata"]) for pod in found)
        return [pod for pod, head in heads if head["namespace"] in SPACES and "deletionTimestamp" not in head]

    def groups(self) -> dict[str, set[str]]:
        """The node groups on which the pods of a workload are; empty for a pod without a node."""
        nodes = {node["metadata"]["name"]: node for node in self.plane.api.get("/api/v1/nodes")["items"]}
        found: dict[str, set[str]] = defaultdict(set)
        for pod in self.pods():
            node = nodes.get(pod["spec"].get("nodeName", ""))
            found[pod["metadata"]["labels"][WORKLOAD]].add(node["metadata"]["labels"][NODE_GROUP] if node else "")
        return dict(found)

    def evict_all(self, pods: Sequence[Json]) -> dict[str, int]:
        """As the autoscaler asks, with its rights: the answer for each workload's pods."""
        autoscaler = self.plane.api_as(AUTOSCALER_NAMESPACE, AUTOSCALER)
        return {pod["metadata"]["labels"][WORKLOAD]: answer(autoscaler, pod) for pod in pods}

    def set_budgets(self, number: int) -> None:
        """Those of flexible workloads, as the controller does it."""
        controller = self.plane.api_as(NAMESPACE, CONTROLLER)
        for budget in self.stack.config.budgets:
            path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{budget.name}"
            head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": budget.name}}
            controller.apply(path, {**head, "spec": {"maxUnavailable": number}}, manager=FIELD_MANAGER)

            def counted(path: str = path) -> bool:
                return bool(self.plane.api.get(path)["status"]["disruptionsAllowed"] == number)

            eventually(counted, what=f"the budget of {budget.name} to allow {number}")


def answer(api: KubeApi, pod: Json) -> int:
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    try:
        api.create(f"{path_of(pod)}/eviction", body)
    except ApiError as error:
        return error.status
    return GRANTED


def path_of(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane(hands_off=f"{CATEGORY}={Category.WORKER}") as plane:
        for group, number in NODES.items():
            for index in range(number):
                add_group_node(plane, example(), group, f"{group}-{index}")
        for name, (size, storage_class) in DISKS.items():
            plane.api.create("/api/v1/persistentvolumes", disk(name, size, storage_class))
        stack = install(plane, example(), tmp_path_factory.mktemp("example") / "rendered")
        plane.kubectl("--namespace", WORKER_NAMESPACE, "scale", "deployment", "--all", "--replicas=1")
        for name in ("web", "api"):  # as the workload controller does by day
            scale = ("scale", "deployment", name, f"--replicas={example().workloads[name].replicas}")
            plane.kubectl("--namespace", NAMESPACE, *scale)
        start_nightly_report(plane)
        plane.api_as(HUB, "hub").create(NOTEBOOKS, notebook("ada"))
        found = Platform(plane=plane, stack=stack)
        until_running(found)
        found.set_budgets(0)
        yield found


def running(pods: Sequence[Json]) -> list[Json]:
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


def disk(name: str, size: str, storage_class: str) -> Json:
    """What the driver of the disks would make once a pod has been given its node."""
    spec: dict[str, Any] = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    return {"metadata": {"name": name}, "spec": {**spec, "storageClassName": storage_class, "hostPath": {"path": "/x"}}}


def start_nightly_report(plane: ControlPlane) -> None:
    """By hand, as `kubectl create job --from` does; its own hour may not come while the tests run."""
    plane.api.patch(f"{JOBS}/cronjobs/nightly-report", {"spec": {"suspend": True}})
    plane.kubectl("--namespace", WORKER_NAMESPACE, "create", "job", "--from=cronjob/nightly-report", "report")


def until_running(platform: Platform) -> None:
    """Each pod has its node, and all run: the workers' category because the test says so, as a kubelet would."""
    replicas = sum(one.replicas for one in example().workloads.values())
    number = replicas + len(POOLS | RUNS) + len(OURS)

    def bound() -> bool:
        return len([pod for pod in platform.pods() if "nodeName" in pod["spec"]]) == number

    eventually(bound, what=f"a node for each of {number} pods")
    for pod in platform.pods(Category.WORKER):
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        platform.plane.api.patch(f"{path_of(pod)}/status", {"status": ready}, "application/strategic-merge-patch+json")

    eventually(lambda: len(running(platform.pods())) == number, what=f"{number} pods to run")


# --- applied and placed -----------------------------------------------------------------------------------------------


def test_the_api_server_takes_every_object_of_the_example(platform: Platform) -> None:
    files = (platform.stack.folder / "kubernetes").iterdir()
    written = sum(len(re.findall(r"^kind: ", file.read_text(encoding="utf-8"), re.MULTILINE)) for file in files)

    assert len(platform.stack.accepted) == written > 0


def test_every_pod_is_on_nodes_of_its_own_kind(platform: Platform) -> None:
    fixed = {name: {"fixed"} for name in ("postgres", "orchestrator", "hub", *OURS)}
    flexible = {name: {"flexible"} for name in ("web", "api", *POOLS, *RUNS)}

    assert platform.groups() == fixed | flexible | {"train": {"gpu"}}


def test_the_disks_of_postgres_the_hub_and_redis_are_theirs(platform: Platform) -> None:
    claims = platform.plane.api.get("/api/v1/persistentvolumeclaims")["items"]

    assert {claim["metadata"]["name"]: claim["spec"].get("volumeName") for claim in claims} == {
        "data-postgres-0": "postgres",
        "state-hub-0": "hub",
        "data-ebbtide-redis-0": "redis",
    }


# --- the notebooks ----------------------------------------------------------------------------------------------------


def test_a_notebook_without_a_label_of_the_hubs_configuration_is_refused(platform: Platform) -> None:
    for label in (WORKLOAD, CATEGORY):
        bare = notebook("bob")
        del bare["metadata"]["labels"][label]

        with pytest.raises(ApiError, match="needs the labels"):
            platform.plane.api_as(HUB, "hub").create(NOTEBOOKS, bare)


def test_a_notebook_without_a_place_or_a_size_is_refused(platform: Platform) -> None:
    unplaced, unsized = notebook("bob"), notebook("bob")
    unplaced["spec"]["nodeSelector"] = {}
    del unsized["spec"]["containers"][0]["resources"]

    for body, said in ((unplaced, "a nodeSelector is needed"), (unsized, "requests for cpu and memory")):
        with pytest.raises(ApiError, match=said):
            platform.plane.api_as(HUB, "hub").create(NOTEBOOKS, body)


# --- by day, and with the budgets open --------------------------------------------------------------------------------


def test_by_day_nobody_evicts_anything(platform: Platform) -> None:
    answers = platform.evict_all(platform.pods())

    assert {*example().workloads, *POOLS, *RUNS} <= answers.keys()
    assert set(answers.values()) == {REFUSED}


def test_with_the_budgets_open_fixed_pods_notebooks_and_jobs_still_stay(platform: Platform) -> None:
    platform.set_budgets(1)
    try:
        staying = [*platform.pods(Category.FIXED), *platform.pods(Category.WORKER)]
        assert set(platform.evict_all(staying).values()) == {REFUSED}
    finally:
        platform.set_budgets(0)


def test_with_the_budgets_open_a_flexible_node_drains(platform: Platform) -> None:
    flexible, busy = (
        {pod["spec"]["nodeName"] for pod in platform.pods(it)} for it in (Category.FLEXIBLE, Category.WORKER)
    )
    node = min(flexible - busy)  # workers keep their nodes
    platform.set_budgets(1)
    try:
        platform.plane.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=45s")
        assert node not in {pod["spec"].get("nodeName") for pod in platform.pods()}
        eventually(lambda: len(running(platform.pods(Category.FLEXIBLE))) == 5, what="web and api on other nodes")
    finally:
        platform.plane.kubectl("uncordon", node)
        platform.set_budgets(0)
