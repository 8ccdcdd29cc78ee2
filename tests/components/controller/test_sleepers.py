"""A stack whose workloads sleep: the writer of their replicas, its rights and its document."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from ebbtide.policies.judging import judge
from ebbtide.recording.output import is_object
from ebbtide.recording.ownership import ownership_rows
from ebbtide.recording.resources import Resource
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.labels import WORKLOADS
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.recorded import record
from tests.builders.workloads.sleeping import sleeping_stack
from tests.components.serving.test_service_stack import TODAY, named, only

pytestmark = pytest.mark.whole

SLEEPERS = {"board": ("StatefulSet", 1), "notes": ("Deployment", 2), "rank": ("Deployment", 1)}
AWAKE = dict.fromkeys(SLEEPERS, "labels: {}")


@cache
def resources() -> tuple[Resource, ...]:
    return record(sleeping_stack())


def test_it_breaks_no_rule() -> None:
    assert [(hit.id, hit.resource, hit.reason) for hit in judge(sleeping_stack(), resources(), TODAY)] == []


@pytest.mark.parametrize("name", SLEEPERS)
def test_pulumi_declares_the_replicas_once_and_waits_for_no_pod(name: str) -> None:
    kind, replicas = SLEEPERS[name]
    rows = {(row.object, row.field): row for row in ownership_rows(resources())}
    workload = only(resources(), kind, name)

    assert workload.ignore_changes == ("spec.replicas",)
    assert workload.inputs["spec"]["replicas"] == replicas
    assert workload.inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
    row = rows[f"{kind} ebbtide/{name}", "spec.replicas"]
    assert (row.owner, row.initial) == ("workload-controller", str(replicas))


def test_an_update_that_would_take_the_replicas_back_breaks_a_rule() -> None:
    taken = tuple(
        resource if not is_object(resource) or resource.inputs["metadata"]["name"] not in SLEEPERS else _owned(resource)
        for resource in resources()
    )

    assert [hit.id for hit in judge(sleeping_stack(), taken, TODAY)].count("EB008") >= len(SLEEPERS)


def _owned(resource: Resource) -> Resource:
    return replace(resource, ignore_changes=())


def test_without_sleep_nothing_changes() -> None:
    awake = record(sleeping_stack(**AWAKE))

    assert WORKLOADS not in named(awake, "Deployment")
    assert only(awake, "StatefulSet", "board").ignore_changes == ()


def test_its_document_has_the_numbers_and_the_start_up_time() -> None:
    text = only(resources(), "ConfigMap", WORKLOADS).inputs["data"]["workloads.json"]
    policies = load(WorkloadsConfig, text).sleepers

    assert [(it.name, it.kind, it.replicas, it.asleep) for it in policies] == [
        (name, kind, replicas, 0) for name, (kind, replicas) in SLEEPERS.items()
    ]
    assert [it.lead.total_seconds() / 60 for it in policies] == [15, 15, 25]  # the guard, or nodeStartup + startsWithin


def test_it_may_write_the_scale_of_these_objects_and_no_deployment() -> None:
    rules: list[dict[str, Any]] = json.loads(
        json.dumps(only(resources(), "Role", WORKLOADS).inputs["rules"], default=dict)
    )
    of_apps = [rule for rule in rules if rule["apiGroups"] == ["apps"]]
    writes = {rule["resources"][0]: rule["resourceNames"] for rule in of_apps if "patch" in rule["verbs"]}

    assert writes == {"deployments/scale": ["notes", "rank"], "statefulsets/scale": ["board"]}
    assert {verb for rule in of_apps for verb in rule["verbs"]} == {"get", "list", "watch", "patch"}
