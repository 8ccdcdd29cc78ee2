"""A stack whose workloads sleep: the writer of their replicas, its rights and its document."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from ebbtide.policies.judging import judge
from ebbtide.recording.output import document, is_object
from ebbtide.recording.ownership import ownership_rows
from ebbtide.recording.resources import Resource
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.labels import WORKLOADS
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.recorded import record
from tests.builders.workloads.sleeping import BUNDLED, sleeping_stack
from tests.components.cluster.test_network_policies import API_SERVER, DNS, INTERNET, Pod, Policies
from tests.components.serving.test_service_stack import TODAY, named, only

pytestmark = pytest.mark.whole

SLEEPERS = {"board": ("StatefulSet", 1), "notes": ("Deployment", 2), "rank": ("Deployment", 1)}
AWAKE = dict.fromkeys(SLEEPERS, "labels: {}")


@cache
def resources() -> tuple[Resource, ...]:
    return record(sleeping_stack())


def test_it_breaks_no_rule() -> None:
    assert [(hit.code, hit.resource, hit.text) for hit in judge(sleeping_stack(), resources(), TODAY)] == []


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

    assert [hit.code for hit in judge(sleeping_stack(), taken, TODAY)].count("EB008") >= len(SLEEPERS)


def _owned(resource: Resource) -> Resource:
    return replace(resource, ignore_changes=())


def test_without_sleep_nothing_changes() -> None:
    awake = record(sleeping_stack(**AWAKE))

    assert WORKLOADS not in named(awake, "Deployment")
    assert only(awake, "StatefulSet", "board").ignore_changes == ()


def test_at_the_end_of_a_sleep_the_entry_and_its_right_stay_and_the_number_is_declared_again() -> None:
    """A file without the number would reset that of a workload that never slept to 1."""
    settings = sleeping_stack(notes="sleep: { when: never }", rank="labels: {}", board="labels: {}")
    ending = record(settings)
    text = only(ending, "ConfigMap", WORKLOADS).inputs["data"]["workloads.json"]
    notes, rules = only(ending, "Deployment", "notes"), only(ending, "Role", WORKLOADS).inputs["rules"]
    scales = [
        rule.get("resourceNames") for rule in json.loads(json.dumps(rules, default=dict)) if "patch" in rule["verbs"]
    ]

    assert [(it.name, it.never) for it in load(WorkloadsConfig, text).sleepers] == [("notes", True)]
    assert ["notes"] in scales
    assert notes.ignore_changes == ()
    assert "replicas: 2\n" in document(notes)
    assert "replicas:" not in document(only(resources(), "Deployment", "notes"))
    assert [hit.code for hit in judge(settings, ending, TODAY)] == []


IDLE = "sleep: { when: idle, hub: { secret: hub, key: token } }"
CONTROLLER, NOTES, BOARD, PROMETHEUS = (
    Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": name})
    for name in ("ebbtide-workloads", "notes", "board", "ebbtide-prometheus")
)


@cache
def idle() -> tuple[Resource, ...]:
    return record(sleeping_stack(notes=IDLE, more=BUNDLED))


def test_what_sleeps_when_idle_breaks_no_rule() -> None:
    stack = sleeping_stack(notes=IDLE, more=BUNDLED)
    assert [(hit.code, hit.resource, hit.text) for hit in judge(stack, idle(), TODAY)] == []


def test_the_controller_lists_pods_only_where_something_sleeps_when_idle() -> None:
    def of_pods(made: tuple[Resource, ...]) -> list[dict[str, Any]]:
        rules = json.loads(json.dumps(only(made, "Role", WORKLOADS).inputs["rules"], default=dict))
        return [rule for rule in rules if "pods" in rule["resources"]]

    assert of_pods(idle()) == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert of_pods(resources()) == []


def test_the_controller_runs_without_the_token_of_the_hub_and_its_document_has_only_the_path() -> None:
    controller = only(idle(), "Deployment", WORKLOADS).inputs["spec"]["template"]["spec"]
    (mount,) = [it for it in controller["containers"][0]["volumeMounts"] if it["name"] == "hub-notes"]
    (volume,) = [it for it in controller["volumes"] if it["name"] == "hub-notes"]
    text = only(idle(), "ConfigMap", WORKLOADS).inputs["data"]["workloads.json"]
    (policy,) = [it for it in load(WorkloadsConfig, text).sleepers if it.hub]

    assert volume["secret"] == {"secretName": "hub", "optional": True}
    assert policy.hub_token_file == f"{mount['mountPath']}/token"
    assert "secret" not in json.dumps(only(idle(), "Deployment", "notes").inputs["spec"]["template"], default=dict)


def test_a_hub_that_never_sleeps_leaves_its_token_alone() -> None:
    never = record(sleeping_stack(notes=IDLE.replace("idle", "never"), more=BUNDLED))

    assert "hub-notes" not in json.dumps(only(never, "Deployment", WORKLOADS).inputs, default=dict)


def test_the_controller_reaches_prometheus_and_the_hub_on_their_ports_and_nobody_else_gets_in() -> None:
    open_to, before = Policies(idle()), Policies(resources())

    for target, port in ((PROMETHEUS, 9090), (NOTES, 8080), (API_SERVER, 443), (DNS, 53)):
        assert open_to.allow(CONTROLLER, target, port)
    for target, port in ((BOARD, 5432), (INTERNET, 80), (PROMETHEUS, 9093)):
        assert not open_to.allow(CONTROLLER, target, port)
    assert not open_to.allow(BOARD, PROMETHEUS, 9090)
    assert not before.allow(CONTROLLER, NOTES, 8080)


def test_with_limited_egress_it_still_reaches_the_api_server() -> None:
    limited = Policies(record(sleeping_stack(more="ebbtide:egress: { allow: [203.0.113.0/24] }")))

    assert limited.allow(CONTROLLER, API_SERVER, 443)


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
