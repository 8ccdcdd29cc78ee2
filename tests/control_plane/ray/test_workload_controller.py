"""The workload controller beside KubeRay's real operator, each with the rights that are rendered for it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import Json
from controllers.workloads.ray.clusters import observed
from ebbtide.operate.objects import rfc3339
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.labels import APPLY_UNTIL, NAMESPACE, SLEEP, SPEC, WORKLOADS
from ebbtide.vocabulary.workloads import Sleep, SleepWhen, Wake, WorkloadsConfig, dump_sleep
from tests.builders.control_plane import eventually
from tests.builders.workloads.process import TOKEN, RayProcess, RecordedHead
from tests.control_plane.ray.conftest import CLUSTER, PODS, RayStack

pytestmark = pytest.mark.control_plane

AT_ONCE = dump_sleep(Sleep(when=SleepWhen.IDLE, after=timedelta(), wake=frozenset({Wake.QUEUE})))
POOL = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments/preprocess"
TOO_LARGE = "4000Gi"  # of memory, for each node
NEW = "registry.example.com/ml/ray:2.60.0-next"


@dataclass(frozen=True)
class Home:
    """What a process needs of a scene."""

    plane: ControlPlane
    folder: Path
    apps: str = NAMESPACE

    @property
    def file(self) -> Path:
        return self.folder / "workloads.json"


@pytest.fixture
def head() -> Iterator[RecordedHead]:
    head = RecordedHead()
    yield head
    head.shutdown()
    head.server_close()


@pytest.fixture
def process(ray_stack: RayStack, head: RecordedHead, tmp_path: Path) -> Iterator[RayProcess]:
    """With the rendered document, but for where the head is and its token."""
    home, token = Home(ray_stack.plane, tmp_path), tmp_path / "token"
    token.write_text(TOKEN)
    rendered = ray_stack.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{WORKLOADS}")["data"]["workloads.json"]
    config = load(WorkloadsConfig, rendered)
    (flow,) = config.ray
    home.file.write_text(dump(replace(config, ray=(replace(flow, head=head.url, token_file=str(token)),))))
    account = ray_stack.plane.kubeconfig_as(NAMESPACE, WORKLOADS)
    process = RayProcess("one", home, kubeconfig=account, module="controllers.workloads")  # pyright: ignore[reportArgumentType] - all that it takes of a scene
    yield process
    process.kill()
    print(process.log.read_text())


def images(stack: RayStack, group: str) -> list[str]:
    """Of the pods of a group that run."""
    return [it["spec"]["containers"][0]["image"] for it in stack.pods(group) if it["status"].get("phase") == "Running"]


def too_large(pod: Json) -> bool:
    return pod["spec"]["containers"][0]["resources"]["requests"]["memory"] == TOO_LARGE


def annotate(stack: RayStack, **annotations: str | None) -> None:
    stack.api.patch(CLUSTER, {"metadata": {"annotations": annotations}}, fieldManager="kubectl")


def with_image(spec: Json, image: str) -> str:
    text = json.dumps(spec)
    old = spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
    return text.replace(json.dumps(old), json.dumps(image))


def test_a_new_image_waits_for_sleep_and_drivers_wake_the_cluster_with_it(
    ray_stack: RayStack, process: RayProcess, head: RecordedHead
) -> None:
    stack, head.state = ray_stack, "a driver"
    stack.api.patch(POOL, {"spec": {"replicas": 0}})  # files for kubectl leave the number out, which makes it 1
    eventually(lambda: images(stack, "headgroup"), what="the head's pod")
    stack.scale(0, 2)
    eventually(lambda: len(images(stack, "cpu")) == 2, what="two workers")
    assert NEW not in images(stack, "cpu")
    busy = {it["metadata"]["uid"] for it in stack.api.get(PODS)["items"]}

    annotate(stack, **{SPEC: with_image(stack.wanted, NEW), SLEEP: AT_ONCE})
    eventually(lambda: process.workload().get("spec") == "old-image", what="the pending image")
    eventually(lambda: process.workload()["why"] == "not-known-idle", what="a reading of the head")
    assert {it["metadata"]["uid"] for it in stack.api.get(PODS)["items"]} == busy

    head.state = "the job has ended"
    eventually(lambda: stack.api.get(CLUSTER)["spec"].get("suspend"), what="sleep")
    eventually(lambda: not stack.api.get(PODS)["items"], what="all pods to be gone")
    eventually(lambda: process.workload()["state"] == "asleep", what="the status")
    eventually(lambda: process.workload()["spec"] == "applied", what="the new image")
    assert [it["replicas"] for it in stack.api.get(CLUSTER)["spec"]["workerGroupSpecs"]] == [0, 0]

    stack.api.patch(POOL, {"spec": {"replicas": 1}})
    eventually(lambda: images(stack, "headgroup") == [NEW], what="a head with the new image")
    stack.scale(0, 1)
    eventually(lambda: images(stack, "cpu") == [NEW], what="a worker with the new image")

    told = [json.loads(line) for line in process.log.read_text().splitlines()]
    done = [line["reason"] for line in told if line["event"] == "acted" and line["outcome"] == "done"]
    assert done[:4] == ["spec-first", "idle-for-long", "spec-whole", "drivers-wanted"]
    assert {line["outcome"] for line in told if line["event"] == "acted"} <= {"done", "stale"}


def test_a_head_that_never_started_gets_the_mended_spec_at_once(
    ray_stack: RayStack, process: RayProcess, head: RecordedHead
) -> None:
    stack = ray_stack
    head.end()
    good = json.dumps(stack.wanted)
    fits_no_node = json.loads(good)
    resources = fits_no_node["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"]
    resources["requests"]["memory"] = resources["limits"]["memory"] = TOO_LARGE
    annotate(stack, **{SPEC: json.dumps(fits_no_node), APPLY_UNTIL: rfc3339(datetime.now(UTC) + timedelta(hours=1))})
    stack.api.patch(POOL, {"spec": {"replicas": 1}})  # so that the cluster is to be awake
    eventually(lambda: process.workload().get("spec") == "applied", what="the broken spec to be the wanted one")
    (head_pod,) = eventually(lambda: [it for it in stack.pods("headgroup") if too_large(it)], what="a head on no node")
    annotate(stack, **{APPLY_UNTIL: None})

    annotate(stack, **{SPEC: good})
    eventually(lambda: len(images(stack, "headgroup")) == 1, what="a head that runs")

    assert head_pod["metadata"]["uid"] not in {it["metadata"]["uid"] for it in stack.pods("headgroup")}
    told = [json.loads(line) for line in process.log.read_text().splitlines()]
    assert "spec-pending-without-a-head" in [line["reason"] for line in told if line["event"] == "acted"]


def test_kuberay_tells_a_head_that_was_lost_from_one_that_never_was(ray_stack: RayStack) -> None:
    stack = ray_stack
    eventually(lambda: images(stack, "headgroup"), what="the head")
    eventually(lambda: observed(stack.api.get(CLUSTER)).headless_from is None, what="KubeRay to see it")
    (pod,) = stack.pods("headgroup")
    lost = {"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(datetime.now(UTC))}
    stack.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": {"conditions": [lost]}})

    nothing_runs_from = eventually(lambda: observed(stack.api.get(CLUSTER)).headless_from, what="KubeRay to miss it")

    assert nothing_runs_from > datetime.now(UTC) + timedelta(minutes=25)
