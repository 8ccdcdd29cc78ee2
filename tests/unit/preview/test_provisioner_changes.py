"""Moves between groups of the cluster autoscaler and of Karpenter: what each step does and costs."""

import pytest

from ebbtide.policies.rule import Severity
from ebbtide.preview.document import Danger, DangerCode
from tests.builders.sides import Change, coded, dangers, demo, put, whole, without

pytestmark = pytest.mark.whole

BESIDE: Change = whole(
    "nodeGroups",
    cheap={"kind": "flexible", "instanceTypes": ["m7i.2xlarge", "m7i.4xlarge"], "max": 40, "provisioner": "karpenter"},
)
STAYS: Change = put("workers", "prep", nodeGroup="flexible")
MOVED: Change = put("workers", "prep", nodeGroup="cheap")


def of(code: DangerCode, found: tuple[Danger, ...]) -> Danger:
    (danger,) = (danger for danger in found if danger.code is code)
    return danger


def test_the_first_step_adds_a_group_and_moves_nothing() -> None:
    found = dangers(demo(STAYS), demo(STAYS, BESIDE))

    assert coded(found) == [(Severity.NOTE, DangerCode.PROVISIONER_MOVES, ("cheap",))]
    assert found[0].what.startswith("adds group cheap of Karpenter beside flexible: the first step")
    assert "nodeGroup: cheap" in found[0].fix


def test_the_second_step_says_how_many_nodes_run_beside_each_other_for_how_long_and_what_they_cost() -> None:
    moved = of(DangerCode.GROUP_CHANGED, dangers(demo(STAYS, BESIDE), demo(MOVED, BESIDE)))

    assert moved.what == "moves prep from nodes of group flexible to those of cheap"
    assert "no job is interrupted" in moved.fix
    assert "(longestJob), $" in moved.fix


def test_between_groups_of_one_provisioner_no_step_is_named() -> None:
    other = whole("nodeGroups", cheap={"kind": "flexible", "instanceTypes": ["m7i.4xlarge"], "max": 40})
    moved = of(DangerCode.GROUP_CHANGED, dangers(demo(STAYS, other), demo(MOVED, other)))

    assert "nodeGroup: flexible" in moved.fix
    assert dangers(demo(STAYS), demo(STAYS, other)) == ()


def test_the_last_step_removes_the_old_group_outside_business_hours() -> None:
    lost = of(
        DangerCode.NODE_GROUP_LOST, dangers(demo(MOVED, BESIDE), demo(MOVED, BESIDE, without("nodeGroups", "flexible")))
    )

    assert "the last step of a move to cheap: do it outside business hours" in lost.fix


def test_a_provisioner_that_changes_in_place_is_sent_to_the_three_steps_both_ways() -> None:
    karpenter = put("nodeGroups", "flexible", provisioner="karpenter", min=0)
    there = of(DangerCode.NODE_GROUP_LOST, dangers(demo(), demo(karpenter)))
    back = of(DangerCode.NODE_GROUP_LOST, dangers(demo(karpenter), demo()))

    assert there.what == "deletes node group flexible: provisioner changes to karpenter"
    assert "add a group with provisioner: karpenter beside it: three steps interrupt nothing" in there.fix
    assert back.what == "deletes NodePool flexible: provisioner changes to cluster-autoscaler"
    assert "waits for an hour at most" in back.fix
