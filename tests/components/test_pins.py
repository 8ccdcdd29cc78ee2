"""Pods as somebody may write them into the program: which of them would keep a flexible node all night, and why."""

from typing import Any

import pytest

from ebbtide.preview.document import Severity
from ebbtide.preview.pins import pins_of
from ebbtide.preview.resources import Resource
from tests.builders_sides import dangers, demo, demo_now, edited, kubernetes, put, said, with_input

FLEXIBLE = {"ebbtide.dev/node-kind": "flexible"}
FIXED = {"ebbtide.dev/node-kind": "fixed"}
SCRATCH: Any = {"name": "scratch", "emptyDir": {}}
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CAREFUL = [  # the autoscaler's own defaults: what ours overlooks, another does not
    "--skip-nodes-with-local-storage=true"
]


def careful(resource: Resource) -> Resource:
    return with_input("autoscaler-deployment", "spec.template.spec.containers", [{"args": CAREFUL}])(resource)


def pods(kind: str = "Deployment", namespace: str = "ebbtide", *, on: Any = FLEXIBLE, **more: Any) -> Resource:
    annotations = more.pop("annotations", {})
    spec = {"nodeSelector": on, **more}
    labels = {"ebbtide.dev/category": "flexible"} if namespace == "ebbtide" else {}
    if kind == "Pod":
        return kubernetes(kind, "extra", namespace, metadata={"labels": labels}, spec=spec)
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    return kubernetes(kind, "extra", namespace, spec={"replicas": 3, "template": template})


def pins(*added: Resource) -> list[str]:
    side = edited(demo_now(), careful, *added)
    return [pin.what for pin in pins_of(side.resources, side.settings)]


def test_the_demo_pins_nothing_even_under_a_careful_autoscaler() -> None:
    assert pins() == []


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (pods(volumes=[SCRATCH]), "keeps files on the node: emptyDir scratch"),
        (pods(volumes=[{"name": "disk", "hostPath": {"path": "/mnt"}}]), "keeps files on the node: hostPath disk"),
        (pods("Pod"), "is a bare pod: nothing would make it anew"),
        (pods(annotations={SAFE: "false"}), f"carries {SAFE}: false"),
    ],
)
def test_what_the_autoscaler_does_not_move_is_a_pin(extra: Resource, why: str) -> None:
    (pin,) = pins(extra)

    assert pin == f"{extra.type.split(':')[-1]} ebbtide/extra {why}"


def test_a_system_pod_is_a_pin_without_a_budget_and_without_a_place() -> None:
    assert pins(pods(namespace="kube-system", on={})) == [
        "Deployment kube-system/extra is a system pod that may land on flexible nodes",
        "Deployment kube-system/extra is a kube-system pod without a budget",
    ]


@pytest.mark.parametrize(
    "extra",
    [
        pods(volumes=[SCRATCH], annotations={f"{SAFE}-local-volumes": "other, scratch"}),
        pods(volumes=[{"name": "fast", "emptyDir": {"medium": "Memory"}}]),
        pods(volumes=[SCRATCH], annotations={SAFE: "true"}),
        pods(volumes=[SCRATCH], on=FIXED),
        pods("DaemonSet", "kube-system", on={}, volumes=[SCRATCH]),
    ],
)
def test_what_may_move_or_is_on_fixed_nodes_is_no_pin(extra: Resource) -> None:
    assert pins(extra) == []


def test_what_this_stacks_own_autoscaler_overlooks_is_no_pin() -> None:
    side = edited(demo_now(), lambda resource: resource, pods(volumes=[SCRATCH]))

    assert pins_of(side.resources, side.settings) == ()


def test_a_fixed_service_on_flexible_nodes_is_a_pin() -> None:
    selector = with_input("metrics-stateful-set", "spec.template.spec.nodeSelector", FLEXIBLE)
    side = edited(demo_now(), selector)

    (pin,) = pins_of(side.resources, side.settings)

    assert pin.what == "StatefulSet ebbtide/metrics is fixed and runs on flexible nodes: its budget never opens"


def test_an_add_on_that_nobody_placed_is_a_pin() -> None:
    side = edited(demo_now(), with_input("add-ons-coredns", "configurationValues", '{"replicaCount": 2}'))

    assert [pin.what for pin in pins_of(side.resources, side.settings)] == [
        "the add-on coredns may land on flexible nodes"
    ]


def test_a_pod_under_two_budgets_is_a_pin() -> None:
    second = kubernetes("PodDisruptionBudget", "second", spec={"selector": {"matchLabels": {}}, "maxUnavailable": 1})
    side = edited(demo_now(), lambda resource: resource, second)

    found = [pin.what for pin in pins_of(side.resources, side.settings)]

    assert "Deployment ebbtide/api is under several budgets (api, second): every eviction is refused" in found


def test_workers_and_nodes_that_never_go_are_pins_new_ones_a_warning_and_old_ones_a_note() -> None:
    kept = demo(put("workers", "prep", min=2), put("nodeGroups", "gpu", min=2))

    new, old = dangers(None, kept), dangers(kept, kept)

    assert [danger.what.split(": ")[1] for danger in new] == [
        "pool prep never goes below 2 workers, and workers are never moved",
        "group gpu never goes below 2 nodes",
    ]
    assert {danger.severity for danger in new} == {Severity.WARNING}
    assert {danger.severity for danger in old} == {Severity.NOTE}


@pytest.mark.parametrize(
    ("name", "path", "value", "what"),
    [
        (
            "prep-deployment",
            "spec.template.spec.terminationGracePeriodSeconds",
            600,
            "pool prep has jobs of up to 168h, and its workers are killed 600 s after they were told to stop",
        ),
        (
            "autoscaler-deployment",
            "spec.template.spec.containers",
            [{"args": ["--max-graceful-termination-sec=600"]}],
            "pool prep has jobs of up to 168h, and the autoscaler waits 600 s for a pod that it drains",
        ),
        (
            "ray-head-budget",
            "spec.maxUnavailable",
            1,
            "the budget ray-head of fixed pods does not stay closed: maxUnavailable is 1",
        ),
        (
            "prep-budget",
            "spec.maxUnavailable",
            "50%",
            "the budget prep of worker pods does not stay closed: maxUnavailable is 50%",
        ),
    ],
)
def test_what_would_kill_work_by_day_blocks_whether_or_not_it_was_so_before(
    name: str, path: str, value: object, what: str
) -> None:
    side = edited(demo_now(), with_input(name, path, value))

    assert (Severity.BLOCKING, what) in said(dangers(side, side))
    assert (Severity.BLOCKING, what) in said(dangers(None, side))
