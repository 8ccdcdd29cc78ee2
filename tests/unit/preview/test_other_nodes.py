"""A pool, a job or a Ray group that selects another node group than before: who moves, and how to keep it there."""

from dataclasses import replace
from typing import Any

from ebbtide.policies.rule import Severity
from ebbtide.preview.changes import changes_between
from ebbtide.preview.dangers import dangers_of
from ebbtide.preview.document import DangerCode
from tests.builders.sides import Change, coded, dangers, demo, edited, put, whole

SMALLER: Change = whole("nodeGroups", small={"kind": "flexible", "instanceTypes": ["m7i.xlarge"], "max": 10})
ARM: Change = whole("nodeGroups", graviton={"kind": "flexible", "instanceTypes": ["m7g.4xlarge"], "max": 10})


def small_pools(**prep: Any) -> Change:
    return put("workers", "prep", **{"cpu": 1, "memory": "2Gi", "max": 2, **prep})


def test_a_pool_that_goes_to_another_group_is_named_with_both() -> None:
    """A smaller group comes, on which two small pods pay for less."""
    found = dangers(demo(small_pools()), demo(small_pools(), SMALLER))

    assert (Severity.NOTE, DangerCode.GROUP_CHANGED, ("prep",)) in coded(found)
    (moved,) = (danger for danger in found if danger.code is DangerCode.GROUP_CHANGED)
    assert moved.what == "moves prep from nodes of group flexible to those of small"
    assert "1 pool" in moved.impact
    assert "nodeGroup: flexible" in moved.fix


def test_a_group_that_the_file_names_stays() -> None:
    named = small_pools(nodeGroup="flexible")

    assert dangers(demo(named), demo(named, SMALLER)) == ()


def test_what_a_former_release_chose_is_told_from_the_engines_changes() -> None:
    """Both sides are rendered with this release, so files that are the same show nothing; the engine knows more."""
    now = demo(small_pools(), SMALLER)
    before = edited(now, lambda it: replace(it, inputs=_elsewhere(it.inputs)) if it.name == "prep-deployment" else it)
    found = dangers_of(now, now, changes_between(before.resources, now.resources))

    assert [danger.what for danger in found if danger.code is DangerCode.GROUP_CHANGED] == [
        "moves prep from nodes of group flexible to those of small"
    ]


def _elsewhere(inputs: Any) -> Any:
    template = inputs["spec"]["template"]
    selector = {**template["spec"]["nodeSelector"], "ebbtide.dev/node-group": "flexible"}
    pod = {**template["spec"], "nodeSelector": selector}
    return {**inputs, "spec": {**inputs["spec"], "template": {**template, "spec": pod}}}


def test_a_group_with_another_processor_moves_nobody_and_runs_no_job_again() -> None:
    """Pods gain a selector, which rolls them; their nodes are those that they had."""
    job = whole("jobs", fit={"image": "example.com/f:1", "cpu": 1, "memory": "2Gi", "longestRun": "2h"})
    found = dangers(demo(job), demo(job, ARM))

    assert {danger.code for danger in found} == {DangerCode.PODS_ROLLED}
    assert {"prep", "api"} <= {name for danger in found for name in danger.subjects}
    assert all('nodeSelector["kubernetes.io/arch"]' in danger.what for danger in found)
