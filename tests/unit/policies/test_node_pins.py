"""Pods of a team's program that keep a flexible node all night, or lose a job."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from ebbtide.findings import Severity
from ebbtide.policies import judge
from ebbtide.policies.rule import PolicyResult
from ebbtide.preview.sides import Side
from ebbtide.recording.resources import Resource
from tests.builders.sides import coded, dangers, demo, demo_now, edited, kubernetes, put, with_input

FLEXIBLE = {"ebbtide.dev/node-kind": "flexible"}
FIXED = {"ebbtide.dev/node-kind": "fixed"}
SCRATCH: Any = {"name": "scratch", "emptyDir": {}}
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CAREFUL = [  # the autoscaler's own defaults: what ours overlooks, another does not
    "--skip-nodes-with-local-storage=true"
]
TODAY = date(2026, 11, 21)
PINS = ("EB002", "EB003", "EB014", "EB015", "EB041", "EB042", "EB043")
"""The rules about what keeps a node; a pod by itself breaks others too, such as the one about memory limits."""


def careful(resource: Resource) -> Resource:
    return with_input("autoscaler-deployment", "spec.template.spec.containers", [{"args": CAREFUL}])(resource)


def pods(kind: str = "Deployment", namespace: str = "ebbtide", *, on: Any = FLEXIBLE, **more: Any) -> Resource:
    annotations = more.pop("annotations", {})
    spec = {"nodeSelector": on, **more}
    labels = {"ebbtide.dev/category": "flexible", "ebbtide.dev/workload": "api"} if namespace == "ebbtide" else {}
    if kind == "Pod":
        return kubernetes(kind, "extra", namespace, metadata={"labels": labels, "annotations": annotations}, spec=spec)
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    return kubernetes(kind, "extra", namespace, spec={"replicas": 3, "template": template})


def found(side: Side, *rules: str) -> list[PolicyResult]:
    assert side.settings is not None
    return [result for result in judge(side.settings, side.resources, TODAY) if result.code in rules]


def pins(*added: Resource) -> list[tuple[str, Severity, str]]:
    side = edited(demo_now(), careful, *added)
    return [(result.code, result.severity, result.resource) for result in found(side, *PINS)]


def test_the_demo_pins_nothing_even_under_a_careful_autoscaler() -> None:
    assert pins() == []


@pytest.mark.parametrize(
    ("extra", "rule"),
    [
        (pods(volumes=[SCRATCH]), "EB015"),
        (pods(volumes=[{"name": "disk", "hostPath": {"path": "/mnt"}}]), "EB015"),
        (pods("Pod"), "EB014"),
        (pods(annotations={SAFE: "false"}), "EB014"),
    ],
)
def test_what_the_autoscaler_does_not_move_is_a_pin(extra: Resource, rule: str) -> None:
    assert pins(extra) == [(rule, Severity.WARNING, f"{extra.type.split(':')[-1]} ebbtide/extra")]


@pytest.mark.parametrize(
    ("volume", "named"), [(SCRATCH, "emptyDir scratch"), ({"name": "disk", "hostPath": {}}, "hostPath disk")]
)
def test_a_local_volume_is_named_with_its_kind(volume: Any, named: str) -> None:
    (result,) = found(edited(demo_now(), careful, pods(volumes=[volume])), "EB015")

    assert named in result.text


def test_a_system_pod_is_a_pin_without_a_budget_and_without_a_place() -> None:
    assert pins(pods(namespace="kube-system", on={})) == [
        ("EB002", Severity.BLOCKING, "Deployment kube-system/extra"),
        ("EB042", Severity.WARNING, "Deployment kube-system/extra"),
    ]


@pytest.mark.parametrize(
    "extra",
    [
        pods(volumes=[SCRATCH], annotations={f"{SAFE}-local-volumes": "other, scratch"}),
        pods(volumes=[{"name": "fast", "emptyDir": {"medium": "Memory"}}]),
        pods(volumes=[SCRATCH], annotations={SAFE: "true"}),
        pods("Pod", annotations={SAFE: "true"}),
        pods(volumes=[SCRATCH], on=FIXED),
        pods("DaemonSet", "kube-system", on={}, volumes=[SCRATCH]),
    ],
)
def test_what_may_move_or_is_on_fixed_nodes_is_no_pin(extra: Resource) -> None:
    assert pins(extra) == []


def test_what_this_stacks_own_autoscaler_overlooks_is_no_pin() -> None:
    side = edited(demo_now(), lambda resource: resource, pods(volumes=[SCRATCH]))

    assert found(side, *PINS) == []


def test_a_fixed_service_on_flexible_nodes_is_a_pin() -> None:
    side = edited(demo_now(), with_input("metrics-stateful-set", "spec.template.spec.nodeSelector", FLEXIBLE))

    assert [(result.code, result.resource) for result in found(side, *PINS)] == [
        ("EB041", "StatefulSet ebbtide/metrics")
    ]


def test_an_add_on_that_nobody_placed_is_a_pin() -> None:
    side = edited(demo_now(), with_input("add-ons-coredns", "configurationValues", '{"replicaCount": 2}'))

    assert [(result.code, result.resource) for result in found(side, *PINS)] == [("EB042", "Addon add-ons-coredns")]


def test_a_pod_under_two_budgets_is_a_pin() -> None:
    second = kubernetes("PodDisruptionBudget", "second", spec={"selector": {"matchLabels": {}}, "maxUnavailable": 1})
    side = edited(demo_now(), lambda resource: resource, second)

    results = {result.resource: result for result in found(side, "EB003")}

    assert results["Deployment ebbtide/api"].severity is Severity.BLOCKING
    assert "ebbtide/api, ebbtide/second" in results["Deployment ebbtide/api"].text


def test_workers_and_nodes_that_never_go_are_a_note_and_a_warning_when_they_begin_to_stay() -> None:
    kept = demo(put("workers", "prep", min=2), put("nodeGroups", "gpu", min=2))

    notes = [result for result in found(kept, *PINS) if result.severity is Severity.NOTE]

    assert [(result.code, result.resource) for result in notes] == [
        ("EB043", "Deployment ebbtide-workers/prep"),
        ("EB043", "NodeGroup gpu-a-nodes"),
    ]
    assert ["minimum is 2" in notes[0].text, "group gpu is 2" in notes[1].text] == [True, True]
    assert dangers(kept, kept) == ()
    assert coded(dangers(demo_now(), kept)) == [
        (Severity.WARNING, "group-resized", ("gpu",)),
        (Severity.WARNING, "pool-minimum-raised", ("prep",)),
    ]


@pytest.mark.parametrize(
    ("name", "path", "value", "rule", "told"),
    [
        (
            "prep-deployment",
            "spec.template.spec.terminationGracePeriodSeconds",
            600,
            "EB040",
            ("prep", "168h", "600 s"),
        ),
        (
            "autoscaler-deployment",
            "spec.template.spec.containers",
            [{"args": ["--max-graceful-termination-sec=600"]}],
            "EB024",
            ("prep", "600 s"),
        ),
        ("ray-head-budget", "spec.maxUnavailable", 1, "EB001", ("ray-head", "1")),
        ("prep-budget", "spec.maxUnavailable", "50%", "EB001", ("prep", "50%")),
    ],
)
def test_what_would_kill_work_by_day_blocks(
    name: str, path: str, value: object, rule: str, told: tuple[str, ...]
) -> None:
    side = edited(demo_now(), with_input(name, path, value))

    results = [result for result in found(side, rule) if "prep" in result.resource or "ray-head" in result.resource]

    assert [result.severity for result in results] == [Severity.BLOCKING]
    assert all(part in f"{results[0].resource} {results[0].text}" for part in told)


def test_a_fixed_budget_that_others_may_write_blocks() -> None:
    handed_over = edited(
        demo_now(),
        lambda one: replace(one, ignore_changes=("spec.maxUnavailable",)) if one.name == "ray-head-budget" else one,
    )

    assert [(r.severity, r.resource) for r in found(handed_over, "EB001")] == [
        (Severity.BLOCKING, "PodDisruptionBudget ebbtide/ray-head")
    ]


def test_nodes_newer_than_the_cluster_block() -> None:
    oldest = edited(demo_now(), with_input("cluster-control-plane", "version", "1.33"))

    results = found(oldest, "EB039")

    assert {result.severity for result in results} == {Severity.BLOCKING}
    assert len(results) == sum(one.type == "aws:eks/nodeGroup:NodeGroup" for one in demo_now().resources)
    assert "1.35" in results[0].text
    assert "1.33" in results[0].text
