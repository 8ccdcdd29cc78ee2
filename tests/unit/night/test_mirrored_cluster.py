"""Objects of the real API in the autoscaler's model. Pure parts."""

from typing import Any

import pytest
from control_plane.night.fleet import is_ready, node_object
from control_plane.night.mirror import MirroredDeployment, allowed_by, owner_of

from ebbtide.kube.taints import Taint
from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.cluster.state import Node, Room
from tests.builders.cluster import workload


def pod(kind: str, owner: str, **labels: str) -> dict[str, Any]:
    owners = [{"kind": kind, "name": owner, "controller": True}] if kind else []
    return {"metadata": {"name": "a-pod", "namespace": "apps", "labels": labels, "ownerReferences": owners}}


def budget(allowed: int) -> dict[str, Any]:
    return {"metadata": {"name": "api"}, "status": {"disruptionsAllowed": allowed}}


@pytest.mark.parametrize(
    ("seen", "owner"),
    [
        (pod("ReplicaSet", "model-serving-5b8f", **{"pod-template-hash": "5b8f"}), "apps/model-serving"),
        (pod("StatefulSet", "metrics"), "apps/metrics"),
        (pod("Job", "closer-1"), "apps/closer-1"),
        (pod("", ""), "apps/a-pod"),
    ],
    ids=["Deployment", "StatefulSet", "Job", "bare pod"],
)
def test_a_pod_belongs_to_what_would_recreate_it(seen: dict[str, Any], owner: str) -> None:
    assert owner_of(seen) == owner


def test_evictable_pods_are_those_of_the_budget_and_none_under_two_budgets() -> None:
    assert allowed_by([]) is None
    assert allowed_by([budget(1)]) == 1
    assert allowed_by([budget(1), budget(1)]) == 0
    assert allowed_by([{"metadata": {"name": "new"}}]) == 0


def test_a_mirrored_workload_follows_only_the_budgets_status() -> None:
    deployment = MirroredDeployment(workload(), replicas=3, max_unavailable=1, healthy=3)
    deployment.allowed = 0

    assert deployment.disruptions_allowed == 0


def a_node(taint: str = "", ready: str = "True") -> dict[str, Any]:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return {"spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


@pytest.mark.parametrize(
    ("node", "ready"),
    [
        (a_node(), True),
        (a_node("nvidia.com/gpu"), True),
        (a_node("node.kubernetes.io/not-ready"), False),
        (a_node(ready="Unknown"), False),
        ({"spec": {}}, False),
    ],
)
def test_a_node_takes_pods_when_it_is_ready_and_its_birth_taint_is_gone(node: dict[str, Any], *, ready: bool) -> None:
    assert is_ready(node) is ready


def test_a_machine_registers_with_its_groups_size_labels_and_taints() -> None:
    taint = Taint("nvidia.com/gpu", "true")
    group = GroupModel(name="gpu", min=0, max=2, cpu_m=7500, memory_mib=28000, gpu=1, taints=(taint,))

    made = node_object(Node("gpu-7", group, 0.0, 0.0, Room(group)))

    assert made["status"]["allocatable"] == {"cpu": "7500m", "memory": "28000Mi", "pods": "110", "nvidia.com/gpu": "1"}
    assert made["metadata"]["labels"]["kubernetes.io/hostname"] == "gpu-7"
    assert made["metadata"]["labels"]["ebbtide.dev/node-group"] == "gpu"
    assert made["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
