"""What KubeRay's real operator makes of a rendered Ray cluster, with the rights that it is given and no others."""

import pytest

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import CATEGORY, CLOSED_MINIMUM
from tests.builders.control_plane import eventually
from tests.control_plane.ray.conftest import BUDGETS, CLUSTER, PODS, RAY, RayStack

pytestmark = pytest.mark.control_plane


def running(stack: RayStack, group: str, count: int) -> list[Json]:
    def look() -> list[Json] | None:
        pods = stack.pods(group)
        ready = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return ready if len(ready) == len(pods) == count else None

    return eventually(look, what=f"{count} pods of {group} to run")


def evicted(stack: RayStack, pod: Json) -> int:
    """The answer's status."""
    name = pod["metadata"]["name"]
    try:
        stack.api.create(f"{PODS}/{name}/eviction", {"apiVersion": "policy/v1", "metadata": {"name": name}})
    except ApiError as refused:
        return refused.status
    return 201


def test_a_night_of_a_ray_cluster(ray_stack: RayStack) -> None:
    """In one go, since each part stands on what the one before has left."""
    stack = ray_stack
    assert "spec" not in stack.api.get(CLUSTER)
    assert stack.pods("headgroup") == []

    stack.write_spec(stack.wanted)
    (head,) = eventually(lambda: stack.pods("headgroup"), what="the head's pod")
    assert head["metadata"]["labels"][CATEGORY] == "fixed"
    scheduled = eventually(
        lambda: stack.api.get(f"{PODS}/{head['metadata']['name']}")["spec"].get("nodeName"), what="the head's node"
    )
    assert scheduled == "ray-fixed"

    stack.scale(0, 2)
    stack.scale(1, 1)
    workers = [*running(stack, "cpu", 2), *running(stack, "gpu", 1)]
    assert [pod["spec"]["nodeName"] for pod in workers] == ["ray-flexible", "ray-flexible", "ray-gpu"]
    assert {pod["spec"]["terminationGracePeriodSeconds"] for pod in workers} == {32 * 60}

    budgets = {it["metadata"]["name"]: it for it in stack.api.get(BUDGETS)["items"]}
    assert {name: it["spec"]["minAvailable"] for name, it in budgets.items()} == dict.fromkeys(
        ("flow-head", "flow-cpu", "flow-gpu"), CLOSED_MINIMUM
    )
    assert [evicted(stack, pod) for pod in (head, *workers)] == [429] * 4

    before = {pod["metadata"]["uid"] for pod in (head, *workers)}
    stack.apply()  # as a later `up`
    assert [group["replicas"] for group in stack.api.get(CLUSTER)["spec"]["workerGroupSpecs"]] == [2, 1]

    stack.remove(0, 1, workers[1]["metadata"]["name"])
    (left,) = running(stack, "cpu", 1)
    assert left["metadata"]["uid"] == workers[0]["metadata"]["uid"]
    assert {pod["metadata"]["uid"] for pod in stack.pods("headgroup")} < before

    stack.write_spec({**stack.wanted, "suspend": True})
    eventually(lambda: not stack.api.get(PODS)["items"], what="all pods to be gone")
    stack.write_spec({**stack.wanted, "suspend": False})
    running(stack, "headgroup", 1)
    assert refusals(stack) == []


def refusals(stack: RayStack) -> list[str]:
    """What the API server refused this stack's operator for want of a right."""
    log = stack.plane.processes.log("kuberay").read_text()[stack.log_begins :]
    return [line for line in log.splitlines() if "forbidden" in line.lower()]


def test_the_autoscaler_of_a_cluster_reaches_no_other_namespace(ray_stack: RayStack) -> None:
    as_head = ray_stack.plane.api_as(RAY, "flow-head")
    for path in (f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods", f"/api/v1/namespaces/{RAY}/secrets"):
        with pytest.raises(ApiError, match="forbidden"):
            as_head.get(path)
    with pytest.raises(ApiError, match="forbidden"):
        as_head.delete(f"{PODS}/{ray_stack.pods('headgroup')[0]['metadata']['name']}")
