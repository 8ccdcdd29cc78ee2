"""The add-ons of EKS: versions, order, nodes and rights."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from components.aws.add_ons import ON_FIXED_NODES, PINNED, add_on_version, after_nodes, before_nodes
from components.cluster.autoscaler_settings import RELEASES
from ebbtide.settings.sections.cluster import ClusterSettings
from ebbtide.settings.sections.eks_versions import KUBERNETES_VERSIONS, AddOn, AddOnVersion
from tests.builders.stack import Recorded

TAGS = st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=20), max_size=5)
PARTS_THAT_ARE_DEPLOYMENTS = {
    AddOn.COREDNS: (),
    AddOn.EBS_CSI_DRIVER: ("controller",),
    AddOn.METRICS_SERVER: (),
}
"""The path of the placement in the add-on's configuration."""

ON_EVERY_NODE = {AddOn.VPC_CNI, AddOn.KUBE_PROXY, AddOn.POD_IDENTITY_AGENT, AddOn.NODE_MONITORING_AGENT}


def configuration(stack: Recorded, name: str) -> dict[str, Any]:
    return json.loads(stack.named(name, "Addon").inputs["configurationValues"])


def trust(stack: Recorded, name: str) -> dict[str, Any]:
    (statement,) = json.loads(stack.named(name, "iam/role:Role").inputs["assumeRolePolicy"])["Statement"]
    return statement


@pytest.mark.parametrize("minor", KUBERNETES_VERSIONS)
def test_a_minor_has_a_version_for_every_add_on_and_an_autoscaler(minor: str) -> None:
    versions = PINNED[minor]

    assert set(versions) == set(AddOn)
    TypeAdapter(list[AddOnVersion]).validate_python([version for version in versions.values() if version is not None])
    assert str(versions[AddOn.KUBE_PROXY]).startswith(f"v{minor}.")
    assert RELEASES[minor].startswith(f"v{minor}.")


@given(st.sampled_from(KUBERNETES_VERSIONS), st.sampled_from(AddOn))
def test_the_stack_file_chooses_before_the_table_and_for_that_add_on_alone(minor: str, add_on: AddOn) -> None:
    asked = {add_on: "v9.9.9-eksbuild.9"}

    chosen = {each: add_on_version(each, minor, asked) for each in AddOn}

    assert chosen == {**PINNED[minor], **asked}


@given(TAGS, st.sampled_from(KUBERNETES_VERSIONS))
def test_every_add_on_is_there_once_and_each_deployment_is_on_fixed_nodes(tags: dict[str, str], minor: str) -> None:
    settings = ClusterSettings(version=minor)
    ordered = [*before_nodes("acme", settings, tags), *after_nodes("acme", settings, tags)]
    specs = {spec.add_on: spec for spec in ordered}

    assert len(ordered) == len(AddOn)
    assert set(specs) == set(AddOn) == ON_EVERY_NODE | set(PARTS_THAT_ARE_DEPLOYMENTS)
    for add_on, path in PARTS_THAT_ARE_DEPLOYMENTS.items():
        part: Any = specs[add_on].configuration
        for key in path:
            part = part[key]
        assert part["nodeSelector"] == ON_FIXED_NODES, add_on


@pytest.mark.parametrize(
    "add_on",
    [
        "add-ons-coredns",
        "add-ons-aws-ebs-csi-driver",
        "add-ons-metrics-server",
        "add-ons-eks-node-monitoring-agent",
    ],
)
def test_add_ons_that_need_a_node_come_after_all_groups(stack: Recorded, add_on: str) -> None:
    groups = {group.name for group in stack.of("NodeGroup") if group.custom}

    assert groups <= stack.before(stack.named(add_on, "Addon"))


@pytest.mark.parametrize(
    ("role", "account"),
    [
        ("cluster-vpc-cni", "aws-node"),
        ("add-ons-aws-ebs-csi-driver", "ebs-csi-controller-sa"),
        ("autoscaler-role", "cluster-autoscaler"),
    ],
)
def test_a_pods_role_is_for_one_account_of_this_cluster(stack: Recorded, role: str, account: str) -> None:
    statement = trust(stack, role)

    assert set(statement["Action"]) == {"sts:AssumeRole", "sts:TagSession"}
    assert statement["Condition"]["StringEquals"] == {
        "aws:RequestTag/eks-cluster-name": "acme",
        "aws:RequestTag/kubernetes-namespace": "kube-system",
        "aws:RequestTag/kubernetes-service-account": account,
    }


def test_there_is_one_default_storage_class_and_all_encrypt_and_wait_for_a_zone(stack: Recorded) -> None:
    classes = stack.of("StorageClass")
    marks = [storage.inputs["metadata"].get("annotations", {}) for storage in classes]

    assert [mark.get("storageclass.kubernetes.io/is-default-class") for mark in marks].count("true") == 1
    for storage in classes:
        assert storage.inputs["parameters"] == {"type": "gp3", "encrypted": "true"}
        assert storage.inputs["volumeBindingMode"] == "WaitForFirstConsumer"
