"""Pools, jobs and Ray groups that move to another node group, and how to keep them."""

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.changes import changes_between
from ebbtide.preview.dangers import dangers_of
from ebbtide.preview.document import Danger
from tests.builders.sides import Change, coded, dangers, demo, edited, put, whole

pytestmark = pytest.mark.whole

SMALLER: Change = whole("nodeGroups", small={"kind": "flexible", "instanceTypes": ["m7i.xlarge"], "max": 10})
ARM: Change = whole("nodeGroups", graviton={"kind": "flexible", "instanceTypes": ["m7g.4xlarge"], "max": 10})


def small_pools(**prep: Any) -> Change:
    return put("workers", "prep", **{"cpu": 1, "memory": "2Gi", "max": 2, **prep})


def test_a_pool_that_goes_to_another_group_is_named_with_both() -> None:
    """Add a smaller group, on which two small pods cost less."""
    found = dangers(demo(small_pools()), demo(small_pools(), SMALLER))

    assert (Severity.NOTE, "group-changed", ("prep",)) in coded(found)
    (moved,) = (danger for danger in found if danger.code == "group-changed")
    assert moved.text == "moves prep from nodes of group flexible to those of small"
    assert "1 pool" in moved.impact
    assert "nodeGroup: flexible" in moved.remedy


def test_a_group_that_the_file_names_stays() -> None:
    named = small_pools(nodeGroup="flexible")

    assert dangers(demo(named), demo(named, SMALLER)) == ()


def test_what_a_former_release_chose_is_told_from_the_engines_changes() -> None:
    """Both sides are rendered with this release, so equal files show no change; the engine knows the former release."""
    now = demo(small_pools(), SMALLER)
    before = edited(now, lambda it: replace(it, inputs=_elsewhere(it.inputs)) if it.name == "prep-deployment" else it)
    found = dangers_of(now, now, changes_between(before.resources, now.resources))

    assert [danger.text for danger in found if danger.code == "group-changed"] == [
        "moves prep from nodes of group flexible to those of small"
    ]


def _elsewhere(inputs: Any) -> Any:
    template = inputs["spec"]["template"]
    selector = {**template["spec"]["nodeSelector"], "ebbtide.dev/node-group": "flexible"}
    pod = {**template["spec"], "nodeSelector": selector}
    return {**inputs, "spec": {**inputs["spec"], "template": {**template, "spec": pod}}}


def test_a_group_with_another_processor_moves_nobody_and_runs_no_job_again() -> None:
    """Pods with a new selector roll, but stay on their nodes."""
    job = whole("jobs", fit={"image": "example.com/f:1", "cpu": 1, "memory": "2Gi", "longestRun": "2h"})
    found = dangers(demo(job), demo(job, ARM))

    assert {danger.code for danger in found} == {"pods-rolled"}
    assert {"prep", "api"} <= {name for danger in found for name in danger.subjects}
    assert all('nodeSelector["kubernetes.io/arch"]' in danger.text for danger in found)


def _alone(**groups: Any) -> Change:
    """The stack with only these groups in its file."""
    return lambda config: config.update({"ebbtide:nodeGroups": groups})


GPUS: Any = {
    "gpu": {"instanceTypes": ["g6.2xlarge"], "max": 24},
    "gpu-large": {"kind": "gpu", "instanceTypes": ["g6.8xlarge"], "max": 12},
}
RAY: Any = {
    "flow": {
        "version": "2.60.0",
        "image": "example.com/ray:2.60.0",
        "head": {"cpu": 1, "memory": "2Gi"},
        "groups": {"crunch": {"cpu": 1, "memory": "2Gi", "max": 2}},
        "longestTask": "30m",
    }
}


def processor_danger(before: Change, after: Change, *more: Change) -> Danger | None:
    found = dangers(demo(before, *more), demo(after, *more))
    told = [danger for danger in found if danger.code == "processor-changed"]
    assert len(told) < 2
    return told[0] if told else None


def test_a_group_that_takes_the_place_of_the_default_one_with_another_processor_is_warned_of() -> None:
    job = whole("jobs", fit={"image": "example.com/f:1", "cpu": 1, "memory": "2Gi", "longestRun": "2h"})
    graviton = {"kind": "flexible", "instanceTypes": ["m7g.4xlarge"], "max": 40}
    told = processor_danger(_alone(**GPUS), _alone(**GPUS, graviton=graviton), job, whole("ray", **RAY))

    assert told is not None
    assert told.severity is Severity.WARNING
    assert {"api", "prep", "fit", "flow-crunch"} <= {*told.subjects}
    assert {"model-registry", "flow-head"}.isdisjoint(told.subjects)  # which are on fixed nodes
    assert "from amd64 to arm64" in told.text
    assert "name flexible in the file beside graviton" in told.remedy
    named = _alone(**GPUS, flexible={}, graviton=graviton)
    assert processor_danger(_alone(**GPUS), named, job) is None


def test_fixed_pods_that_get_another_processor_are_named_and_types_that_change_have_another_way_out() -> None:
    arm = {"kind": "fixed", "instanceTypes": ["m7g.2xlarge"], "min": 2, "max": 4}
    fixed = processor_danger(_alone(**GPUS), _alone(**GPUS, armf=arm), whole("ray", **RAY))
    types = processor_danger(
        _alone(**GPUS, flexible={"instanceTypes": ["m7i.4xlarge"], "max": 40}),
        _alone(**GPUS, flexible={"instanceTypes": ["m7g.4xlarge"], "max": 40}),
    )

    assert fixed is not None
    assert {"model-registry", "flow-head"} <= {*fixed.subjects}
    assert "name fixed in the file beside armf" in fixed.remedy
    assert types is not None
    assert "api" in types.subjects
    assert "keep a group with the old types beside flexible" in types.remedy


def test_pods_that_say_their_processor_are_not_warned_of() -> None:
    said = [put("workloads", name, arch="any") for name in ("api", "dashboards")]
    arm = put("nodeGroups", "flexible", instanceTypes=["m7g.4xlarge"])
    told = processor_danger(lambda _: None, arm, *said)

    assert told is not None
    assert {"api", "dashboards"}.isdisjoint(told.subjects)


def test_a_group_that_is_gone_is_not_offered() -> None:
    other = {"kind": "flexible", "instanceTypes": ["m7i.4xlarge"], "max": 40}
    found = dangers(demo(_alone(**GPUS)), demo(_alone(**GPUS, other=other)))

    (moved,) = (danger for danger in found if danger.code == "group-changed")
    assert "nodeGroup: flexible" not in moved.remedy
    assert "flexible is no longer there" in moved.remedy
