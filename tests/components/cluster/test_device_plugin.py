"""NVIDIA's device plugin: on every node with GPUs, on no other, and in nobody's way."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from components.aws.node_shape import node_shape
from components.cluster.device_plugin import IMAGE
from ebbtide.prices import instance_type, instance_type_names
from ebbtide.prices.catalog import DEVICE_PLUGIN
from tests.builders.components import pod_of
from tests.builders.stack import Recorded, group_settings


@pytest.fixture
def pod(stack: Recorded) -> Mapping[str, Any]:
    return pod_of(stack.named("device-plugin-pods"))


def test_it_is_wanted_where_there_are_gpus_and_nowhere_else(pod: Mapping[str, Any]) -> None:
    rules = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((wanted,),) = [term["matchExpressions"] for term in rules["nodeSelectorTerms"]]
    has_label = {
        name: wanted["key"] in node_shape("group", group_settings(instance_types=(name,))).labels
        for name in instance_type_names()
    }

    assert wanted["operator"] == "Exists"
    assert has_label == {name: instance_type(name).gpu > 0 for name in instance_type_names()}


def test_it_bears_the_taint_of_gpu_nodes(pod: Mapping[str, Any]) -> None:
    (taint,) = node_shape("gpu", group_settings(instance_types=("g5.2xlarge",))).taints

    assert pod["tolerations"] == [{"key": taint.key, "operator": "Exists", "effect": taint.kubernetes_effect}]


def test_it_goes_before_others_and_takes_what_is_taken_off_the_node_for_it(pod: Mapping[str, Any]) -> None:
    (container,) = pod["containers"]

    assert pod["priorityClassName"] == "system-node-critical"
    assert container["resources"]["requests"] == {"cpu": f"{DEVICE_PLUGIN[0]}m", "memory": f"{DEVICE_PLUGIN[1]}Mi"}


def test_its_image_is_named_by_a_whole_version() -> None:
    assert re.fullmatch(r"nvcr\.io/nvidia/k8s-device-plugin:v\d+\.\d+\.\d+", IMAGE)
