"""A stack with GPUs on spot nodes, as it is registered: managed groups by shape and zone, or one NodePool."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import pytest

from ebbtide.preview.changes import changes_between
from ebbtide.preview.document import ChangeKind, ResourceChange
from ebbtide.prices import instance_type
from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.recording.resources import Resource
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.autoscaler import read_from_tags
from tests.builders.components import of_kind, pod_of
from tests.builders.recorded import record
from tests.builders.stack import group_settings, stack_settings

TYPES = ("g6e.2xlarge", "g6e.4xlarge", "g5.2xlarge", "g5.4xlarge", "g6.4xlarge")
A_SHAPE = "gpu-spot-16x64x1-a"
BUNDLED = {"prometheus": "bundled"}
Resources: TypeAlias = tuple[Resource, ...]


@cache
def stack(types: Sequence[str] = TYPES, provisioner: Provisioner = Provisioner.CLUSTER_AUTOSCALER) -> Resources:
    spot = group_settings(NodeKind.SPOT, instance_types=types, max=30, provisioner=provisioner)
    groups: dict[str, NodeGroupSettings] = {**stack_settings().node_groups, "gpu-spot": spot}
    return record(stack_settings(node_groups=groups, monitoring=BUNDLED))


def inputs(resources: Sequence[Resource], type_: str) -> Mapping[str, Mapping[str, Any]]:
    return {resource.name: resource.inputs for resource in of_kind(resources, type_)}


def test_each_shape_has_a_managed_group_in_each_zone() -> None:
    groups = {name: group for name, group in inputs(stack(), "NodeGroup").items() if "instanceTypes" in group}
    groups = {name: group for name, group in groups.items() if name.startswith("gpu-spot")}

    types_of = {
        "gpu-spot-8x32x1": ["g5.2xlarge"],
        "gpu-spot-8x64x1": ["g6e.2xlarge"],
        "gpu-spot-16x64x1": ["g5.4xlarge", "g6.4xlarge"],
        "gpu-spot-16x128x1": ["g6e.4xlarge"],
    }
    assert {name: [*group["instanceTypes"]] for name, group in groups.items()} == {
        f"{part}-{zone}-nodes": types for part, types in types_of.items() for zone in "ab"
    }
    assert {group["capacityType"] for group in groups.values()} == {"SPOT"}
    assert {group["amiType"] for group in groups.values()} == {"AL2023_x86_64_NVIDIA"}
    assert sum(group["scalingConfig"]["maxSize"] for group in groups.values()) == 30
    assert all(len(group["nodeGroupNamePrefix"]) <= 37 for group in groups.values())


def test_nodes_of_every_shape_have_the_label_that_pods_select_and_gpus_before_they_exist() -> None:
    tags = {
        tag.inputs["tag"]["key"]: tag.inputs["tag"]["value"]
        for tag in of_kind(stack(), "Tag")
        if tag.name.startswith(f"{A_SHAPE}-")
    }
    group, read = inputs(stack(), "NodeGroup")[f"{A_SHAPE}-nodes"], read_from_tags(tags)

    assert group["labels"] == {
        "ebbtide.dev/node-group": "gpu-spot",
        "ebbtide.dev/node-kind": "spot",
        "k8s.amazonaws.com/accelerator": "nvidia-a10g",  # of the two models' equal memory, the first by name
    }
    assert read.labels == group["labels"]
    assert read.resources["nvidia.com/gpu"] == "1"
    assert read.taints == {("nvidia.com/gpu", "true", "NoSchedule")}
    assert read.options["scaledowngpuutilizationthreshold"] == "0.65"
    assert read.options["scaledownunneededtime"] == "3m0s"


def test_the_accelerator_of_a_shape_with_several_models_is_the_one_with_the_least_memory() -> None:
    group = inputs(stack(("g6.4xlarge", "g4dn.4xlarge")), "NodeGroup")[f"{A_SHAPE}-nodes"]

    assert group["labels"]["k8s.amazonaws.com/accelerator"] == "nvidia-t4"


@pytest.mark.parametrize("name", ["nvidia-device-plugin", "nvidia-gpu-exporter"])
def test_daemons_of_gpu_nodes_run_on_spot_nodes_too(name: str) -> None:
    (daemon,) = (it for it in of_kind(stack(), "DaemonSet") if it.inputs["metadata"]["name"] == name)
    pod = pod_of(daemon)
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert term["matchExpressions"] == [{"key": "k8s.amazonaws.com/accelerator", "operator": "Exists"}]
    assert "nodeSelector" not in pod


def moved(before: Sequence[str], after: Sequence[str]) -> list[ResourceChange]:
    return list(changes_between(stack(tuple(before)), stack(tuple(after))))


def test_another_order_of_the_types_changes_nothing() -> None:
    assert moved(TYPES, TYPES[::-1]) == []


def test_a_further_shape_replaces_no_node_of_the_others() -> None:
    changes = moved(TYPES, ("g6e.8xlarge", *TYPES))
    created = [change for change in changes if change.kind is ChangeKind.CREATE]
    updated = [change for change in changes if change.kind is ChangeKind.UPDATE]

    assert len(changes) == len(created) + len(updated)
    assert all("gpu-spot-32x256x1" in change.urn for change in created)
    assert {field.path for change in updated if change.type == "NodeGroup" for field in change.fields} == {
        "scalingConfig.maxSize"
    }
    assert {change.name for change in updated if change.type != "NodeGroup"} == {
        "autoscaler-priorities",
        "exporter-config",  # with the prices of types
    }


def test_a_shape_that_goes_takes_only_its_own_nodes() -> None:
    gone = [change for change in moved(TYPES, TYPES[1:]) if change.kind is not ChangeKind.UPDATE]

    assert {change.kind for change in gone} == {ChangeKind.DELETE}
    assert all("gpu-spot-8x64x1" in change.urn for change in gone)


def test_a_spot_group_beside_them_leaves_all_other_groups_as_they_are() -> None:
    without = record(stack_settings(monitoring=BUNDLED))

    changes = [change for change in changes_between(without, stack()) if change.kind is not ChangeKind.CREATE]

    assert {change.kind for change in changes} == {ChangeKind.UPDATE}
    assert {change.name for change in changes} == {"autoscaler-priorities", "exporter-config", "gpu-exporter-pods"}


def test_karpenter_has_one_node_pool_with_all_types() -> None:
    resources = stack(provisioner=Provisioner.KARPENTER)
    (pool,) = (it.inputs["spec"] for it in of_kind(resources, "NodePool"))
    requirements = {it["key"]: it["values"] for it in pool["template"]["spec"]["requirements"]}

    assert requirements["node.kubernetes.io/instance-type"] == list(TYPES)
    assert requirements["karpenter.sh/capacity-type"] == ["spot"]
    assert pool["template"]["metadata"]["labels"]["k8s.amazonaws.com/accelerator"] == "nvidia-a10g"
    assert pool["limits"] == {"nodes": "30", "cpu": str(30 * 16)}
    assert not [name for name in inputs(resources, "NodeGroup") if name.startswith("gpu-spot")]


def test_karpenters_nodes_take_no_more_pods_than_the_smallest_type_does() -> None:
    resources = stack(("g6e.16xlarge", "g5.2xlarge"), Provisioner.KARPENTER)
    (kubelet,) = (it.inputs["spec"]["kubelet"] for it in of_kind(resources, "EC2NodeClass"))

    assert kubelet["maxPods"] == instance_type("g5.2xlarge").max_pods < instance_type("g6e.16xlarge").max_pods
