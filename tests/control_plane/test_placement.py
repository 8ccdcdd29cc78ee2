"""Proof 2: where the real scheduler puts the pods of a rendered stack, on nodes as the node groups say."""

from collections.abc import Iterator
from typing import Any

import pytest
from control_plane.plane.binaries import how_to_get, missing

from ebbtide.vocabulary.labels import CLOSER, NAMESPACE, Category
from tests.builders.control_plane import eventually
from tests.control_plane.support.placement import (
    PATIENCE,
    Placement,
    add_plain_nodes,
    category_of,
    on_group_nodes,
    on_plain_nodes,
    why_waiting,
    without_anti_affinity,
    without_selectors,
)

pytestmark = pytest.mark.control_plane

POOLS = {"prep": 4, "train": 4, "train-large": 3}
ENOUGH_NODES = [f"plain-{number}" for number in range(16)]


@pytest.fixture(scope="module")
def demo() -> Iterator[Placement]:
    """With room for more in every group, so that nothing else keeps a pod off a node; fixed ones at the minimum."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with on_group_nodes("demo", {"fixed": 2, "flexible": 8, "gpu": 5, "gpu-large": 4}, POOLS) as placement:
        yield placement


# --- with node selectors and taints -----------------------------------------------------------------------------------


def test_every_pod_of_the_demo_stack_goes_to_its_own_group(demo: Placement) -> None:
    assert demo.bound() == {
        "fixed": {"fixed": 7, "none": 1},  # and the autoscaler
        "flexible": {"flexible": 19, "worker": 4},
        "gpu": {"worker": 4, "none": 5},  # and the device plugin, one on each node
        "gpu-large": {"worker": 3, "none": 4},
    }
    assert demo.mixed_nodes() == []


def test_a_stack_with_wide_gpu_nodes_and_spot_nodes_is_placed_as_well() -> None:
    nodes = {"fixed": 3, "flexible": 3, "gpu": 4, "gpu-wide": 3, "spot": 4}
    replicas = {"translate": 4, "embed": 3, "finetune": 2, "glossary": 5}
    with on_group_nodes("example-berlin", nodes, replicas) as berlin:
        assert berlin.bound() == {
            "fixed": {"fixed": 2, "none": 1},
            "flexible": {"flexible": 4},
            "gpu": {"worker": 3, "none": 4},
            "gpu-wide": {"worker": 2, "none": 3},
            "spot": {"worker": 5},
        }
        assert berlin.mixed_nodes() == []


def test_the_closers_run_on_a_fixed_node(demo: Placement) -> None:
    jobs = demo.plane.api.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs")["items"]
    name = jobs[0]["metadata"]["name"]
    assert name.startswith(CLOSER)
    demo.plane.kubectl("--namespace", NAMESPACE, "create", "job", f"--from=cronjob/{name}", "closing")

    def node() -> str:
        pods = demo.plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="job-name=closing")["items"]
        return "".join(pod["spec"].get("nodeName", "") for pod in pods)

    assert eventually(node, what="the closer's pod to have a node", patience=PATIENCE).startswith("fixed-")


# --- preemption -------------------------------------------------------------------------------------------------------


def test_a_critical_pod_waits_rather_than_push_a_fixed_one_out(demo: Placement) -> None:
    before = fixed_pods(demo)
    # No node has so much left: the fixed pods are on both. Without some of them, either would.
    demo.plane.api.create("/api/v1/namespaces/kube-system/pods", critical_pod(cpu="7"))

    def tried() -> str:
        pod = demo.plane.api.get("/api/v1/namespaces/kube-system/pods/critical")
        return why_waiting(pod) or str(pod["spec"].get("nodeName", ""))

    why = eventually(tried, what="the scheduler to look for pods to push out", patience=PATIENCE)

    assert "No preemption victims found for incoming pod" in why
    assert fixed_pods(demo) == before


def critical_pod(*, cpu: str) -> dict[str, Any]:
    """As DNS and the volume controller are: on fixed nodes, and of a class that preempts."""
    container = {"name": "dns", "image": "dns", "resources": {"requests": {"cpu": cpu}}}
    spec = {
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"ebbtide.dev/node-kind": "fixed"},
        "containers": [container],
    }
    return {"metadata": {"name": "critical"}, "spec": spec}


def fixed_pods(placement: Placement) -> dict[str, str]:
    """Uid and node; without those that are being deleted."""
    return {
        pod["metadata"]["uid"]: pod["spec"].get("nodeName", "")
        for pod in placement.pods()
        if category_of(pod) == Category.FIXED
    }


# --- with anti-affinity alone -----------------------------------------------------------------------------------------


def test_without_selectors_anti_affinity_alone_keeps_the_categories_apart() -> None:
    with on_plain_nodes("demo", POOLS, change=without_selectors) as plain:
        # First too few for all: a pod that shares a node with the other kind would have one.
        add_plain_nodes(plain, "first", "second", cpu=24)
        assert "waiting" in plain.counts()
        assert plain.mixed_nodes() == []

        add_plain_nodes(plain, *ENOUGH_NODES, cpu=32)

        assert plain.bound() == {"plain": {"fixed": 7, "flexible": 19, "worker": 11, "none": 1}}
        assert plain.mixed_nodes() == []


def test_without_the_terms_too_they_mix() -> None:
    def bare(pod: dict[str, Any]) -> None:
        without_selectors(pod)
        without_anti_affinity(pod)

    with on_plain_nodes("demo", {}, change=bare) as plain:
        add_plain_nodes(plain, "first", "second", cpu=24)

        assert eventually(plain.mixed_nodes, what="a node with both", patience=PATIENCE)
