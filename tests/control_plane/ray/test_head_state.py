"""A Ray cluster whose head keeps its state in Redis, beside KubeRay's operator and the workload controller."""

import pytest

from ebbtide.vocabulary.labels import SLEEP
from tests.builders.control_plane import eventually
from tests.builders.workloads.process import RayProcess, RecordedHead
from tests.control_plane.ray.conftest import CLUSTER, PODS, RAY, RayStack
from tests.control_plane.ray.test_operator import refusals, running
from tests.control_plane.ray.test_workload_controller import AT_ONCE, POOL, annotate, head, process

__all__ = ["head", "process"]
pytestmark = pytest.mark.control_plane

JOBS = f"/apis/batch/v1/namespaces/{RAY}/jobs"


@pytest.fixture(scope="module")
def head_options() -> str:
    return ", faultTolerance: redis"


def kept_under(stack: RayStack) -> str:
    """The prefix of its keys, as the head's pod is told."""
    (pod,) = running(stack, "headgroup", 1)
    env = {it["name"]: it.get("value") for it in pod["spec"]["containers"][0]["env"]}
    assert env["RAY_REDIS_ADDRESS"] == "redis://ebbtide-redis.ebbtide.svc:6379"
    return str(env["RAY_external_storage_namespace"])


def test_it_runs_sleeps_wakes_with_its_state_and_is_cleaned_up_after(
    ray_stack: RayStack, process: RayProcess, head: RecordedHead
) -> None:
    stack, head.state = ray_stack, "a driver"
    stack.api.patch(POOL, {"spec": {"replicas": 0}})
    uid = eventually(lambda: kept_under(stack), what="the head's pod")
    assert uid == stack.api.get(CLUSTER)["metadata"]["uid"]
    eventually(lambda: stack.api.get(CLUSTER)["metadata"].get("finalizers"), what="the operator's finalizer")
    eventually(lambda: process.workload().get("spec") == "applied", what="a spec that is as it is wanted")

    head.state = "the job has ended"
    annotate(stack, **{SLEEP: AT_ONCE})
    eventually(lambda: process.workload()["state"] == "asleep", what="sleep")
    assert stack.api.get(PODS)["items"] == []
    stack.api.patch(POOL, {"spec": {"replicas": 1}})
    assert eventually(lambda: kept_under(stack), what="the head's pod again") == uid
    eventually(lambda: process.workload()["spec"] == "applied", what="the same spec after waking")

    stack.plane.kubectl("delete", "raycluster", "flow", "-n", RAY, "--cascade=background", "--wait=false")
    (job,) = eventually(lambda: stack.api.get(JOBS)["items"], what="the Job that cleans up", patience=120)
    assert job["metadata"]["annotations"]["ray.io/external-storage-namespace"] == uid
    eventually(stack.is_gone, what="the RayCluster to be gone", patience=150)
    assert refusals(stack) == []
