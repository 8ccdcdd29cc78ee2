"""Access entries of the deployer and of people: their rights and lifetime."""

from collections.abc import Sequence

import pytest

from components.aws.cluster import Cluster, ClusterArgs
from components.context import StackContext
from ebbtide.recording.answers import DEPLOYER
from ebbtide.settings.sections.cluster import ClusterSettings
from tests.builders.recorded import record
from tests.builders.stack import Recorded, run, stack_settings

PLATFORM = "arn:aws:iam::123456789012:role/platform"
SUPPORT = "arn:aws:iam::123456789012:role/teams/support"
OTHER_SUPPORT = "arn:aws:iam::210987654321:role/teams/support"
POLICY = "arn:aws:eks::aws:cluster-access-policy/"


@pytest.fixture(scope="module")
def peopled() -> Recorded:
    cluster = ClusterSettings(zones=("a", "b"), admins=(PLATFORM,), viewers=(SUPPORT, OTHER_SUPPORT))
    return Recorded(record(stack_settings(cluster=cluster)))


def cluster_args(*, admins: Sequence[str]) -> ClusterArgs:
    settings = ClusterSettings(admins=tuple(admins))
    return ClusterArgs(
        stack=StackContext(customer="acme", region="us-east-1"), settings=settings, subnet_ids=["subnet-a", "subnet-b"]
    )


def rights(stack: Recorded) -> dict[str, str]:
    """The policy of each principal."""
    grants = stack.of("AccessPolicyAssociation")
    assert all(grant.inputs["accessScope"] == {"type": "cluster"} for grant in grants)
    return {grant.inputs["principalArn"]: grant.inputs["policyArn"].removeprefix(POLICY) for grant in grants}


def test_people_come_in_by_access_entries_alone(stack: Recorded) -> None:
    access = stack.named("cluster-control-plane", "Cluster").inputs["accessConfig"]
    entry = stack.named("cluster-deployer")

    assert access == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}
    assert entry.inputs["principalArn"] == DEPLOYER  # the role, not the session: an entry for a session is refused
    assert entry.ignore_changes == ("principalArn",)


def test_without_people_only_the_deployer_comes_in(stack: Recorded) -> None:
    assert rights(stack) == {DEPLOYER: "AmazonEKSClusterAdminPolicy"}


def test_every_way_in_goes_after_all_that_lives_in_the_cluster_and_before_the_cluster(peopled: Recorded) -> None:
    ways_in = [*peopled.of("AccessEntry"), *peopled.of("AccessPolicyAssociation")]
    inside = [resource for resource in peopled.all if resource.type.startswith("kubernetes:")]

    assert len(ways_in) == 8
    assert inside
    for resource in inside:
        assert {way.name for way in ways_in} <= peopled.before(resource), resource.name
    for way in ways_in:
        assert "cluster-control-plane" in peopled.before(way)


def test_the_provider_of_all_objects_waits_for_every_right(peopled: Recorded) -> None:
    provider = peopled.named("cluster-kubernetes")
    inside = [resource for resource in peopled.all if resource.type.startswith("kubernetes:")]
    granted = {grant.name for grant in peopled.of("AccessPolicyAssociation")}

    assert len(granted) == 4
    assert {"cluster-deployer", *granted} <= peopled.before(provider)
    assert {resource.provider for resource in inside} == {provider.urn}


def test_a_viewer_who_becomes_admin_keeps_the_entry(peopled: Recorded) -> None:
    risen = run(lambda: Cluster("cluster", cluster_args(admins=[SUPPORT])))

    names = [
        next(entry.name for entry in stack.of("AccessEntry") if entry.inputs["principalArn"] == SUPPORT)
        for stack in (peopled, risen)
    ]
    assert names[0] == names[1]
