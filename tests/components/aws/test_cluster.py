"""The control plane: order, reachability and protection."""

import json
from typing import Any

import pytest

from ebbtide.settings.sections.cluster import ClusterSettings
from tests.builders.recorded import record
from tests.builders.stack import Recorded, stack_settings


def control_plane(stack: Recorded) -> dict[str, Any]:
    return dict(stack.named("cluster-control-plane", "Cluster").inputs)


def with_cluster(**changes: Any) -> Recorded:
    """The stack of a cluster with these settings, in the stack file's spelling."""
    cluster = ClusterSettings.model_validate({"zones": ["a", "b"], **changes}, by_alias=True, by_name=False)
    return Recorded(record(stack_settings(cluster=cluster)))


@pytest.fixture(scope="module")
def opened() -> Recorded:
    """A cluster whose owner has changed every default."""
    return with_cluster(
        version="1.34",
        publicAccess=["203.0.113.0/24", "198.51.100.7/32"],
        privateAccess=["10.20.0.0/16"],
        logRetentionDays=365,
        deletionProtection=False,
        supportType="extended",
        zonalShift=False,
        controlPlaneTier="tier-2xl",
        sessionManager=True,
    )


def test_the_cluster_is_locked_against_accidents(stack: Recorded) -> None:
    cluster, key = stack.named("cluster-control-plane", "Cluster"), stack.named("cluster-secrets")

    assert cluster.protect
    assert cluster.inputs["deletionProtection"] is True
    assert key.protect
    assert key.inputs["enableKeyRotation"] is True
    assert cluster.inputs["encryptionConfig"]["resources"] == ["secrets"]


def test_a_cluster_may_be_unlocked_for_its_end(opened: Recorded) -> None:
    cluster, key = opened.named("cluster-control-plane", "Cluster"), opened.named("cluster-secrets")

    assert cluster.inputs["deletionProtection"] is False
    assert not cluster.protect
    assert not key.protect


def test_nothing_that_eks_reads_at_creation_alone_can_replace_a_live_cluster(stack: Recorded) -> None:
    ignored = stack.named("cluster-control-plane", "Cluster").ignore_changes

    assert {"bootstrapSelfManagedAddons", "encryptionConfig"} <= set(ignored)


def test_the_internet_does_not_reach_the_api_unless_it_is_told_from_where(stack: Recorded, opened: Recorded) -> None:
    private, listed = control_plane(stack)["vpcConfig"], control_plane(opened)["vpcConfig"]

    assert private["endpointPrivateAccess"] is listed["endpointPrivateAccess"] is True
    assert private["endpointPublicAccess"] is False
    assert listed["endpointPublicAccess"] is True
    assert listed["publicAccessCidrs"] == ["203.0.113.0/24", "198.51.100.7/32"]


def test_a_node_may_join_and_pull_images_and_no_more(stack: Recorded, opened: Recorded) -> None:
    least = {"cluster-node-AmazonEKSWorkerNodePolicy", "cluster-node-AmazonEC2ContainerRegistryPullOnly"}

    assert node_rights(stack) == least
    assert node_rights(opened) == {*least, "cluster-node-AmazonSSMManagedInstanceCore"}


def node_rights(stack: Recorded) -> set[str]:
    return {grant.name for grant in stack.of("RolePolicyAttachment") if grant.name.startswith("cluster-node-")}


def test_the_kubeconfig_asks_for_tokens_and_holds_none(stack: Recorded) -> None:
    provider = stack.named("cluster-kubernetes")
    (user,) = json.loads(provider.inputs["kubeconfig"])["users"]

    assert provider.inputs["clusterIdentifier"] == "acme"
    assert set(user["user"]) == {"exec"}
    assert user["user"]["exec"]["args"][-4:] == ["--cluster-name", "acme", "--output", "json"]
