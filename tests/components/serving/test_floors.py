"""A stack whose services have floors: the writer of the minimum, its rights and its bounds."""

import json
from functools import cache
from typing import Any

import pytest

from ebbtide.policies.judging import judge
from ebbtide.recording.ownership import ownership_rows
from ebbtide.recording.resources import Resource
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.recorded import record
from tests.builders.workloads.services import services_stack
from tests.components.serving.test_service_stack import TODAY, named, only

pytestmark = pytest.mark.whole

EMBEDDER, RANKER = "min: 2, max: 12", "min: 1, max: 6"
OPEN = (EMBEDDER, f"{EMBEDDER}, floor: calendar, open: 4"), (RANKER, f"{RANKER}, floor: calendar, open: 2")
NAME = "ebbtide-workloads"


@cache
def resources(*changes: tuple[str, str]) -> tuple[Resource, ...]:
    return record(services_stack(*changes))


def test_it_breaks_no_rule() -> None:
    assert [(it.code, it.resource, it.text) for it in judge(services_stack(*OPEN), resources(*OPEN), TODAY)] == []


@pytest.mark.parametrize(
    ("kind", "name", "field", "declared"),
    [("ScaledObject", "embedder-small", "minReplicaCount", 2), ("HorizontalPodAutoscaler", "ranker", "minReplicas", 1)],
)
def test_pulumi_declares_the_minimum_once_and_leaves_it(kind: str, name: str, field: str, declared: int) -> None:
    made = only(resources(*OPEN), kind, name)
    rows = {(row.object, row.field): row for row in ownership_rows(resources(*OPEN))}

    assert made.ignore_changes == (f"spec.{field}",)
    assert made.inputs["spec"][field] == declared
    row = rows[f"{kind} ebbtide/{name}", f"spec.{field}"]
    assert (row.owner, row.initial) == ("workload-controller", str(declared))


def test_an_update_that_would_take_the_minimum_back_breaks_a_rule() -> None:
    broken = [(hit.code, hit.text) for hit in judge(services_stack(*OPEN), resources(), TODAY)]

    assert [rule for rule, _ in broken].count("EB008") == 3


def test_a_stack_without_ray_has_the_workload_controller_where_a_service_has_a_floor() -> None:
    assert NAME in named(resources(*OPEN), "Deployment")
    assert NAME not in named(resources(), "Deployment")
    forecast = (EMBEDDER, f"{EMBEDDER}, floor: forecast")
    assert NAME not in named(resources(forecast), "Deployment")

    config = load(WorkloadsConfig, only(resources(*OPEN), "ConfigMap", NAME).inputs["data"]["workloads.json"])
    assert [it.name for it in config.floors] == ["embedder-large", "embedder-small", "ranker"]


def rules(found: tuple[Resource, ...]) -> list[dict[str, Any]]:
    return only(found, "Role", NAME).inputs["rules"]


def test_it_may_patch_the_named_autoscalers_and_no_others() -> None:
    patched = {rule["resources"][0]: rule for rule in rules(resources(*OPEN)) if "patch" in rule["verbs"]}

    assert patched["horizontalpodautoscalers"]["resourceNames"] == ["ranker"]
    assert patched["scaledobjects"]["resourceNames"] == ["embedder-large", "embedder-small"]
    assert not any("update" in rule["verbs"] for rule in rules(resources(*OPEN)) if "leases" not in rule["resources"])
    alone = json.dumps(rules(resources(OPEN[1])))
    assert "horizontalpodautoscalers" in alone
    assert "scaledobjects" not in alone


def test_the_api_server_holds_it_to_the_minimum_between_min_and_max() -> None:
    policy = only(resources(*OPEN), "ValidatingAdmissionPolicy", "ebbtide-scaledobjects").inputs["spec"]
    (match,) = policy["matchConstraints"]["resourceRules"]

    assert (match["apiGroups"], match["apiVersions"], match["operations"]) == (["keda.sh"], ["v1alpha1"], ["UPDATE"])
    assert policy["variables"] == [
        {"name": "bounds", "expression": "{'embedder-large': [2, 12], 'embedder-small': [2, 12]}"}
    ]
    assert f"system:serviceaccount:ebbtide:{NAME}" in policy["matchConditions"][0]["expression"]
    assert "ebbtide-horizontalpodautoscalers" in named(resources(*OPEN), "ValidatingAdmissionPolicyBinding")
    assert "ebbtide-rayclusters" not in named(resources(*OPEN), "ValidatingAdmissionPolicy")
