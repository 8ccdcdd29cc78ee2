"""A stack that gives NodePools of an existing cluster business hours: their writers, rights and bounds."""

import json
from functools import cache
from typing import Any

import pytest

from ebbtide.policies.judging import judge
from ebbtide.recording.resources import Resource
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.labels import CLOSER, WORKLOADS
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.existing import with_everything
from tests.builders.recorded import record
from tests.components.serving.test_service_stack import TODAY, named, only

pytestmark = pytest.mark.whole


@cache
def resources() -> tuple[Resource, ...]:
    return record(with_everything())


def rules(kind: str, name: str) -> list[dict[str, Any]]:
    return json.loads(json.dumps(only(resources(), kind, name).inputs["rules"], default=dict))


def test_it_breaks_no_rule() -> None:
    broken = judge(with_everything(), resources(), TODAY)

    assert not [it for it in broken if "nodepool" in it.text or WORKLOADS in it.resource or CLOSER in it.resource]


def test_the_controller_reads_all_node_pools_and_patches_those_of_the_file() -> None:
    read, write = rules("ClusterRole", WORKLOADS)

    assert (read["resources"], read["verbs"], "resourceNames" in read) == (
        ["nodepools"],
        ["get", "list", "watch"],
        False,
    )
    assert (write["verbs"], write["resourceNames"]) == (["patch"], ["general", "gpu"])


def test_the_closer_has_a_named_right() -> None:
    assert rules("ClusterRole", CLOSER) == [
        {
            "apiGroups": ["karpenter.sh"],
            "resources": ["nodepools"],
            "verbs": ["get", "patch"],
            "resourceNames": ["general", "gpu"],
        }
    ]


def test_the_controller_watches_every_namespace_with_budgets_that_open() -> None:
    document = only(resources(), "ConfigMap", WORKLOADS).inputs["data"]["workloads.json"]
    spaces = {budget.namespace for budget in load(WorkloadsConfig, document).budgets}
    roles = [it for it in resources() if it.type.endswith(":Role") and it.inputs["metadata"]["name"] == WORKLOADS]
    watched = {
        role.inputs["metadata"]["namespace"]
        for role in roles
        if any("poddisruptionbudgets" in rule["resources"] for rule in role.inputs["rules"])
    }

    assert watched == spaces
    assert "team" in spaces


def test_the_policy_bounds_both_accounts_to_the_values_of_the_file() -> None:
    policy = only(resources(), "ValidatingAdmissionPolicy", "ebbtide-nodepools").inputs["spec"]
    condition = policy["matchConditions"][0]["expression"]

    assert f"serviceaccount:ebbtide:{WORKLOADS}'" in condition
    assert f"serviceaccount:ebbtide:{CLOSER}'" in condition
    assert any("'nodes': dyn(\"5\")" in rule["expression"] for rule in policy["validations"])


def test_the_closer_runs_when_node_pools_close_and_when_budgets_do() -> None:
    jobs = {name: only(resources(), "CronJob", name) for name in named(resources(), "CronJob") if CLOSER in name}
    (pod,) = {json.dumps(it.inputs["spec"]["jobTemplate"]["spec"]["template"], default=dict) for it in jobs.values()}

    assert len(jobs) == 2
    assert "--workloads" in pod
    assert json.dumps({"name": WORKLOADS}) in pod
