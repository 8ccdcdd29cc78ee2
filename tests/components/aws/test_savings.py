"""The nodes that a commitment is for, and the tags that AWS accepts."""

import pytest

from components.aws.savings import (
    PLAN_TYPE,
    STEADY_NODES,
    PlanType,
    SavingsPlan,
    cost_tags,
    group_tags,
    node_tags,
    plan_type,
    savings_plan,
    steady_nodes,
)
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.costs import MOST_TAGS, CostSettings, parse_tags
from tests.builders.stack import group_settings, stack_settings

AWS_TAKES = 50  # tags on one resource; those that begin with aws: do not count
OF_EKS = (  # on an instance of a managed group
    "eks:cluster-name",
    "eks:nodegroup-name",
    "k8s.io/cluster-autoscaler/enabled",
    "k8s.io/cluster-autoscaler/acme",
    "kubernetes.io/cluster/acme",
)
OF_VOLUME_DRIVER = (  # kubernetes-sigs/aws-ebs-csi-driver, docs/tagging.md
    "Name",
    "CSIVolumeName",
    "KubernetesCluster",
    "ebs.csi.aws.com/cluster",
    "kubernetes.io/cluster/acme",
    "kubernetes.io/created-for/pvc/name",
    "kubernetes.io/created-for/pvc/namespace",
    "kubernetes.io/created-for/pv/name",
)


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        (NodeKind.FIXED, SavingsPlan.COMMITMENT),
        (NodeKind.FLEXIBLE, SavingsPlan.ON_DEMAND),
        (NodeKind.GPU, SavingsPlan.ON_DEMAND),
        (NodeKind.SPOT, SavingsPlan.SPOT),
    ],
)
def test_only_what_never_leaves_is_meant_to_be_committed_to(kind: NodeKind, plan: SavingsPlan) -> None:
    assert savings_plan(kind) is plan


@pytest.mark.parametrize(
    ("assumption", "plan"),
    [
        ("on-demand", PlanType.COMPUTE),
        ("compute-3y-no-upfront", PlanType.COMPUTE),
        ("ec2-1y-no-upfront", PlanType.EC2_INSTANCE),
    ],
)
def test_the_assumption_of_the_stack_picks_the_kind_of_plan(assumption: str, plan: PlanType) -> None:
    assert plan_type(assumption) is plan


def test_the_steady_floor_is_the_fixed_minimum_and_nothing_else() -> None:
    assert steady_nodes(group_settings(NodeKind.FIXED, min=3)) == 3
    assert steady_nodes(group_settings(NodeKind.FLEXIBLE, min=3)) == 0


def test_a_changed_floor_or_assumption_does_not_reach_the_launch_template() -> None:
    """A new launch template replaces every node."""
    dearer = stack_settings(costs=CostSettings.model_validate({"pricingAssumption": "ec2-1y-no-upfront"}))
    plain = stack_settings(costs=CostSettings())
    small, large = group_settings(NodeKind.FIXED, min=2), group_settings(NodeKind.FIXED, min=5)

    assert node_tags("fixed", small, plain) == node_tags("fixed", large, dearer)
    assert group_tags("fixed", large, dearer)[STEADY_NODES] == "5"
    assert group_tags("fixed", large, dearer)[PLAN_TYPE] == "ec2-instance"
    assert PLAN_TYPE not in group_tags("gpu", group_settings(NodeKind.GPU), dearer)


def test_our_own_tags_are_ones_that_aws_takes() -> None:
    settings = stack_settings()
    tags = [group_tags(name, group, settings) for name, group in settings.node_groups.items()]

    assert [parse_tags(each) for each in tags] == tags


def test_with_all_the_tags_that_a_customer_may_have_ours_still_fit() -> None:
    most = {f"tag-{number}": "" for number in range(MOST_TAGS)}
    settings = stack_settings(costs=CostSettings(tags=most))

    node = node_tags("fixed", settings.node_groups["fixed"], settings)
    assert len(group_tags("fixed", settings.node_groups["fixed"], settings)) <= AWS_TAKES
    assert len({"Name": "fixed-a", **node}) + len(OF_EKS) <= AWS_TAKES
    assert len(cost_tags(settings)) + len(OF_VOLUME_DRIVER) <= AWS_TAKES


def test_the_customer_tag_yields_to_nobody_by_accident() -> None:
    assert cost_tags(stack_settings())["ebbtide.dev/customer"] == "acme"
