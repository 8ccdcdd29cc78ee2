"""The control plane: its order of things, its way in, and where its add-ons live."""

import json
from typing import Any

import pytest

from ebbtide.preview.answers import DEPLOYER
from tests.builders_stack import COST_TAGS, Recorded


def configuration(stack: Recorded, name: str) -> dict[str, Any]:
    return json.loads(stack.named(name, "Addon").inputs["configurationValues"])


def trust(stack: Recorded, name: str) -> dict[str, Any]:
    (statement,) = json.loads(stack.named(name, "iam/role:Role").inputs["assumeRolePolicy"])["Statement"]
    return statement


def test_the_log_group_and_the_rights_exist_before_the_cluster(stack: Recorded) -> None:
    cluster = stack.named("cluster-control-plane", "Cluster")

    assert {"cluster-logs", "cluster-control-plane-AmazonEKSClusterPolicy", "cluster-secrets"} <= stack.before(cluster)
    assert stack.named("cluster-logs").inputs["name"] == "/aws/eks/acme/cluster"
    assert stack.named("cluster-logs").inputs["retentionInDays"] > 0


def test_the_cluster_is_locked_against_accidents(stack: Recorded) -> None:
    cluster, key = stack.named("cluster-control-plane", "Cluster"), stack.named("cluster-secrets")

    assert cluster.protect
    assert cluster.inputs["deletionProtection"] is True
    assert key.protect
    assert key.inputs["enableKeyRotation"] is True
    assert cluster.inputs["encryptionConfig"]["resources"] == ["secrets"]


def test_people_come_in_by_access_entries_alone(stack: Recorded) -> None:
    access = stack.named("cluster-control-plane", "Cluster").inputs["accessConfig"]
    entry = stack.named("cluster-deployer")

    assert access == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}
    assert entry.inputs["principalArn"] == DEPLOYER  # the role, not the session: an entry for a session is refused
    assert entry.ignore_changes == ("principalArn",)


def test_the_deployers_right_outlives_everything_in_the_cluster(stack: Recorded) -> None:
    provider = stack.named("cluster-kubernetes")
    inside = [resource for resource in stack.all if resource.type.startswith("kubernetes:")]

    assert {"cluster-deployer", "cluster-deployer-admin"} <= stack.before(provider)
    assert {resource.provider for resource in inside} == {provider.urn}


def test_the_kubeconfig_asks_for_tokens_and_holds_none(stack: Recorded) -> None:
    provider = stack.named("cluster-kubernetes")
    (user,) = json.loads(provider.inputs["kubeconfig"])["users"]

    assert provider.inputs["clusterIdentifier"] == "acme"
    assert set(user["user"]) == {"exec"}
    assert user["user"]["exec"]["args"][-4:] == ["--cluster-name", "acme", "--output", "json"]


@pytest.mark.parametrize("add_on", ["cluster-vpc-cni", "cluster-kube-proxy", "cluster-eks-pod-identity-agent"])
def test_nodes_find_what_they_need_to_become_ready(stack: Recorded, add_on: str) -> None:
    assert all(add_on in stack.before(group) for group in stack.of("NodeGroup"))


@pytest.mark.parametrize("add_on", ["add-ons-coredns", "add-ons-aws-ebs-csi-driver"])
def test_add_ons_that_need_a_node_come_after_all_groups(stack: Recorded, add_on: str) -> None:
    groups = {group.name for group in stack.of("NodeGroup") if group.custom}

    assert groups <= stack.before(stack.named(add_on, "Addon"))


def test_dns_and_the_volume_controller_stay_on_fixed_nodes(stack: Recorded) -> None:
    fixed = {"ebbtide.dev/node-kind": "fixed"}

    assert configuration(stack, "add-ons-coredns")["nodeSelector"] == fixed
    assert configuration(stack, "add-ons-aws-ebs-csi-driver")["controller"]["nodeSelector"] == fixed


def test_volumes_and_interfaces_made_later_carry_the_cost_tags(stack: Recorded) -> None:
    interfaces = configuration(stack, "cluster-vpc-cni")["env"]["ADDITIONAL_ENI_TAGS"]

    assert json.loads(interfaces) == COST_TAGS
    assert configuration(stack, "add-ons-aws-ebs-csi-driver")["controller"]["extraVolumeTags"] == COST_TAGS


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


def test_there_is_one_default_storage_class_and_it_encrypts(stack: Recorded) -> None:
    (storage,) = stack.of("StorageClass")

    assert storage.inputs["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert storage.inputs["parameters"] == {"type": "gp3", "encrypted": "true"}
    assert storage.inputs["volumeBindingMode"] == "WaitForFirstConsumer"
