"""Moves between groups of the cluster autoscaler and of Karpenter: what each step does and costs."""

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.document import Danger
from ebbtide.preview.sides import Side
from tests.builders.sides import Change, coded, dangers, demo, put, whole, without

pytestmark = pytest.mark.whole

BESIDE: Change = whole(
    "nodeGroups",
    cheap={"kind": "flexible", "instanceTypes": ["m7i.2xlarge", "m7i.4xlarge"], "max": 40, "provisioner": "karpenter"},
)
STAYS: Change = put("workers", "prep", nodeGroup="flexible")
MOVED: Change = put("workers", "prep", nodeGroup="cheap")


def of(code: str, found: tuple[Danger, ...]) -> Danger:
    (danger,) = (danger for danger in found if danger.code == code)
    return danger


def test_the_first_step_adds_a_group_and_moves_nothing() -> None:
    found = dangers(demo(STAYS), demo(STAYS, BESIDE))

    assert coded(found) == [(Severity.NOTE, "provisioner-moves", ("cheap",))]
    assert found[0].text.startswith("adds group cheap of Karpenter beside flexible: the first step")
    assert "nodeGroup: cheap" in found[0].remedy


def test_the_second_step_says_how_many_nodes_run_beside_each_other_for_how_long_and_what_they_cost() -> None:
    moved = of("group-changed", dangers(demo(STAYS, BESIDE), demo(MOVED, BESIDE)))

    assert moved.text == "moves prep from nodes of group flexible to those of cheap"
    assert "no job is interrupted" in moved.remedy
    assert "(longestJob), $" in moved.remedy


def test_a_larger_type_lets_all_nodes_of_a_karpenter_group_drift_and_a_smaller_one_none() -> None:
    def with_types(*sizes: str) -> Side:
        return demo(STAYS, BESIDE, put("nodeGroups", "cheap", instanceTypes=[f"m7i.{size}" for size in sizes]))

    before = with_types("2xlarge", "4xlarge")
    (drifts,) = dangers(before, with_types("2xlarge", "4xlarge", "8xlarge"))

    assert coded([drifts]) == [(Severity.NOTE, "nodes-replaced", ("cheap",))]
    assert "spec.kubelet.kubeReserved.cpu" in drifts.text
    assert dangers(before, with_types("xlarge", "2xlarge", "4xlarge")) == ()


def test_drifting_spot_nodes_interrupt_the_jobs_of_pools_that_save_together() -> None:
    types = ["m7i.2xlarge", "m7a.2xlarge", "m6i.2xlarge", "m6a.2xlarge"]
    saves = {"nodeGroup": "cheap", "checkpoints": {"store": "s3://acme-checkpoints", "required": True}}

    def with_disk(size: int) -> Side:
        spot = {"kind": "spot", "instanceTypes": types, "max": 4, "provisioner": "karpenter", "diskSize": size}
        return demo(whole("nodeGroups", cheap=spot), put("workers", "prep", cpu=4, memory="16Gi", **saves))

    drifts = of("nodes-replaced", dangers(with_disk(100), with_disk(120)))

    assert drifts.severity is Severity.WARNING
    assert "the budget of prep is open: their jobs are interrupted" in drifts.remedy


def test_between_groups_of_one_provisioner_no_step_is_named() -> None:
    other = whole("nodeGroups", cheap={"kind": "flexible", "instanceTypes": ["m7i.4xlarge"], "max": 40})
    moved = of("group-changed", dangers(demo(STAYS, other), demo(MOVED, other)))

    assert "nodeGroup: flexible" in moved.remedy
    assert dangers(demo(STAYS), demo(STAYS, other)) == ()


def test_the_last_step_removes_the_old_group_outside_business_hours() -> None:
    lost = of("node-group-lost", dangers(demo(MOVED, BESIDE), demo(MOVED, BESIDE, without("nodeGroups", "flexible"))))

    assert "the last step of a move to cheap: do it outside business hours" in lost.remedy


def test_a_group_that_leaves_one_zone_is_not_at_the_last_step() -> None:
    three_zones = whole("cluster", zones=["a", "b", "c"])
    found = dangers(demo(MOVED, BESIDE, three_zones), demo(MOVED, BESIDE))
    (lost,) = (danger for danger in found if danger.code == "node-group-lost" and "flexible" in danger.subjects)

    assert "the last step" not in lost.remedy


def test_a_provisioner_that_changes_in_place_is_sent_to_the_three_steps_both_ways() -> None:
    karpenter = put("nodeGroups", "flexible", provisioner="karpenter", min=0)
    there = of("node-group-lost", dangers(demo(), demo(karpenter)))
    back = of("node-group-lost", dangers(demo(karpenter), demo()))

    assert there.text == "deletes node group flexible: provisioner changes to karpenter"
    assert "add a group with provisioner: karpenter beside it: three steps interrupt nothing" in there.remedy
    assert back.text == "deletes NodePool flexible: provisioner changes to cluster-autoscaler"
    assert "waits for an hour at most" in back.remedy
