"""A RayCluster that is deleted as Pulumi deletes it, in the foreground, while a worker still ends its task."""

from collections.abc import Iterator

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import Json
from tests.builders.control_plane import eventually
from tests.control_plane.ray.conftest import CLUSTER, PODS, RAY, RayStack
from tests.control_plane.ray.test_operator import refusals, running

pytestmark = pytest.mark.control_plane


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Where nobody plays the workers: one that is stopped stays until it is taken away, as one that ends a task."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane(hands_off="ray.io/group=cpu") as plane:
        yield plane


def names(stack: RayStack) -> set[str]:
    return {pod["metadata"]["name"] for pod in stack.api.get(PODS)["items"]}


def on_nodes(stack: RayStack) -> list[Json]:
    return [pod for pod in stack.pods("cpu") if pod["spec"].get("nodeName")]


def test_it_is_there_until_its_last_pod_has_gone_and_no_pod_is_made_meanwhile(ray_stack: RayStack) -> None:
    stack, kubectl = ray_stack, ray_stack.plane.kubectl
    stack.write_spec(stack.wanted)
    running(stack, "headgroup", 1)
    stack.scale(0, 1)
    (pod,) = eventually(lambda: on_nodes(stack), what="a worker on a node")
    busy = pod["metadata"]["name"]

    kubectl("delete", "raycluster", "flow", "-n", RAY, "--cascade=foreground", "--wait=false")

    eventually(lambda: names(stack) == {busy}, what="the head's pod to go", patience=150)
    stack.scale(0, 2)  # an autoscaler that has not heard of it
    eventually(
        lambda: "is being deleted, just ignore" in stack.plane.processes.log("kuberay").read_text(),
        what="the operator to look at it again",
    )
    assert "deletionTimestamp" in stack.api.get(CLUSTER)["metadata"]
    assert names(stack) == {busy}

    kubectl("delete", "pod", busy, "-n", RAY, "--force", "--grace-period=0")
    eventually(lambda: stack.is_gone(), what="the RayCluster to be gone")
    assert refusals(stack) == []
    stack.apply()
