"""Which nodes a commitment is meant for, and which tags AWS takes."""

import pytest

from components.savings import (
    SAVINGS_PLAN,
    STEADY_NODES,
    SavingsPlan,
    cost_tags,
    group_tags,
    node_tags,
    savings_plan,
    steady_nodes,
    tag_problems,
)
from ebbtide.settings.model import CostSettings
from ebbtide.vocabulary.labels import NodeKind
from tests.builders_stack import group_settings, stack_settings


@pytest.mark.parametrize(
    ("kind", "assumption", "plan"),
    [
        (NodeKind.FIXED, "on-demand", SavingsPlan.COMPUTE),
        (NodeKind.FIXED, "compute-3y-no-upfront", SavingsPlan.COMPUTE),
        (NodeKind.FIXED, "ec2-1y-no-upfront", SavingsPlan.EC2_INSTANCE),
        (NodeKind.FLEXIBLE, "compute-1y-no-upfront", SavingsPlan.ON_DEMAND),
        (NodeKind.GPU, "ec2-1y-no-upfront", SavingsPlan.ON_DEMAND),
        (NodeKind.SPOT, "compute-1y-no-upfront", SavingsPlan.SPOT),
    ],
)
def test_only_what_never_leaves_is_meant_to_be_committed_to(kind: NodeKind, assumption: str, plan: SavingsPlan) -> None:
    assert savings_plan(kind, assumption) is plan


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
    assert group_tags("fixed", large, dearer)[SAVINGS_PLAN] == "ec2-instance"


def test_our_own_tags_are_ones_that_aws_takes() -> None:
    settings = stack_settings()

    assert all(not tag_problems(group_tags(name, group, settings)) for name, group in settings.node_groups.items())


@pytest.mark.parametrize(
    ("tags", "named"),
    [
        ({"aws:team": "x"}, "aws:team"),
        ({"owner?": "x"}, "owner?"),
        ({"note": "50% off"}, "50% off"),
        ({f"tag-{number}": "" for number in range(41)}, "40 at most"),
    ],
)
def test_tags_that_aws_would_refuse_are_named(tags: dict[str, str], named: str) -> None:
    (problem,) = tag_problems(tags)

    assert problem.startswith("ebbtide:costs.tags")
    assert named in problem


def test_the_customer_tag_yields_to_nobody_by_accident() -> None:
    assert cost_tags(stack_settings())["ebbtide.dev/customer"] == "acme"
