"""`check` reports for a stack file what the policies report for its resources."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.findings import Severity
from ebbtide.policies import judge
from ebbtide.settings import StackSettings, warnings_of
from ebbtide.settings.sections.eks_versions import AddOn
from tests.builders.recorded import record
from tests.builders.settings import loaded, shortest

pytestmark = pytest.mark.whole

DAY = date(2026, 8, 1)
ALL_ADD_ONS = {add_on.value: "v1.2.3-eksbuild.1" for add_on in AddOn} | {"kube-proxy": "v1.37.0-eksbuild.1"}
POLICY_OF = {
    "ingress.internet-facing": "EB033",
    "image.autoscaler-version": "EB025",
    "workload.one-replica": "EB019",
    "workload.one-zone": "EB018",
    "workload.fixed-elsewhere": "EB041",
    "image.no-version": "EB031",
}
API = {
    "category": "flexible",
    "image": "example.com/api:1",
    "replicas": 2,
    "cpu": 1,
    "memory": "2Gi",
    "ports": {"http": 80},
}
HELPER = {"name": "helper", "image": "example.com/helper", "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}
PUBLIC = {"host": "a.example.com", "annotations": {"alb.ingress.kubernetes.io/scheme": "internet-facing"}}
INTERNAL = {"host": "a.example.com", "annotations": {"alb.ingress.kubernetes.io/scheme": "internal"}}


def stack(folder: Path, api: Mapping[str, object] | None = None, **sections: object) -> StackSettings:
    given = {"cluster": {"version": "1.36"}, "workloads": {"api": {**API, **(api or {})}}, **sections}
    more = "\n".join(f"ebbtide:{key}: {yaml.safe_dump(value, default_flow_style=True)}" for key, value in given.items())
    return loaded(shortest(more=more), folder)


ADOPTED = {"namespace": "team", "selector": {"app": "hub"}, "cpu": 1, "memory": "2Gi"}


def rule(**keys: object) -> Mapping[str, object]:
    return {"adopted": {"hub": {**ADOPTED, **keys}}}


CASES: dict[str, tuple[Mapping[str, object], Mapping[str, object], set[str]]] = {
    "nothing": ({}, {}, set()),
    "a public ingress": ({"ingress": PUBLIC}, {}, {"EB033"}),
    "an internal ingress": ({"ingress": INTERNAL}, {}, set()),
    "an older autoscaler": ({}, {"images": {"autoscaler": "example.com/ca:v1.35.2"}}, {"EB025"}),
    "the right autoscaler": ({}, {"images": {"autoscaler": "example.com/ca:v1.36.9"}}, set()),
    "one replica": ({"replicas": 1}, {}, {"EB019"}),
    "one replica that sleeps at night": ({"replicas": 1, "sleep": {"when": "outsideBusinessHours"}}, {}, set()),
    "one replica that sleeps later": (
        {"replicas": 1, "sleep": {"when": "outsideBusinessHours", "after": "1h"}},
        {},
        {"EB019"},
    ),
    "one replica of an autoscaler": ({"replicas": 1, "replicasOwner": "hpa"}, {}, set()),
    "one replica that stays": ({"replicas": 1, "category": "fixed"}, {}, set()),
    "fixed on a GPU": ({"category": "fixed", "gpu": 1}, {}, {"EB041"}),
    "flexible on a GPU": ({"gpu": 1}, {}, set()),
    "a zone that the nodes do not say": (
        {"pod": {"nodeSelector": {"topology.kubernetes.io/zone": "us-east-1a"}}},
        {},
        {"EB018"},
    ),
    "a helper without a version": ({"pod": {"containers": [HELPER]}}, {}, {"EB031"}),
    "one adopted pod": ({}, rule(category="flexible", replicas=1), {"EB019"}),
    "one adopted pod that sleeps": (
        {},
        rule(
            category="flexible",
            replicas=1,
            sleep={"when": "outsideBusinessHours", "scale": {"kind": "Deployment", "name": "hub"}},
        ),
        set(),
    ),
    "one adopted pod without a scale": ({}, rule(category="flexible", pods=1), {"EB019"}),
    "one adopted pod that stays": ({}, rule(category="fixed", replicas=1), set()),
    "one adopted worker": ({}, rule(category="worker", usually=1), set()),
    "an adopted fixed pod on a GPU": ({}, rule(category="fixed", replicas=1, gpu=1), {"EB041"}),
    "a helper that runs first": ({"pod": {"initContainers": [HELPER]}}, {}, {"EB031"}),
}


@pytest.mark.parametrize("case", CASES)
def test_check_and_the_policies_say_the_same_of_a_stack(case: str, tmp_path: Path) -> None:
    api, sections, policies = CASES[case]
    settings = stack(tmp_path, api, **sections)
    judged = judge(settings, record(settings), DAY)
    checked = [it for it in warnings_of(settings, DAY) if it.code in POLICY_OF]

    assert {result.code for result in judged} == {POLICY_OF[it.code] for it in checked} == policies
    blocking = {result.code for result in judged if result.severity is Severity.BLOCKING}
    assert {POLICY_OF[it.code] for it in checked if it.blocks} == blocking


@pytest.mark.parametrize("resource", ["api", "api-ingress", "ebbtide/api", "Ingress ebbtide/api"])
@pytest.mark.parametrize(("until", "counts"), [("2026-12-31", False), ("2026-07-31", True)])
def test_an_exception_holds_for_both_until_it_ends(resource: str, until: str, counts: bool, tmp_path: Path) -> None:
    exception = {"policy": "EB033", "resource": resource, "reason": "a customer", "until": until}
    settings = stack(tmp_path, {"ingress": PUBLIC}, exceptions=[exception])
    judged = judge(settings, record(settings), DAY)

    assert any(result.code == "EB033" and not result.excepted for result in judged) is counts
    assert any(it.blocks for it in warnings_of(settings, DAY)) is counts


@pytest.mark.parametrize(
    "resource",
    ["adopted-ebbtide-hub-budget", "ebbtide-hub", "team/ebbtide-hub", "PodDisruptionBudget team/ebbtide-hub"],
)
def test_an_exception_for_an_adopted_pod_names_its_budget(resource: str, tmp_path: Path) -> None:
    exception = {"policy": "EB019", "resource": resource, "reason": "a customer", "until": "2026-12-31"}
    settings = stack(tmp_path, None, **rule(category="flexible", replicas=1), exceptions=[exception])

    assert all(result.excepted for result in judge(settings, record(settings), DAY))
    assert not any(it.code == "workload.one-replica" for it in warnings_of(settings, DAY))


def test_what_the_preview_blocks_fails_the_check_and_stays_a_valid_file(tmp_path: Path) -> None:
    stack(tmp_path, {"ingress": PUBLIC})

    checked = CliRunner().invoke(app, ["check", str(tmp_path / "Pulumi.acme.yaml")])

    assert checked.exit_code == 1
    assert "acme: blocked" in checked.output.splitlines()
    assert "  blocking: workloads.api.ingress.annotations: policy EB033: " in checked.output.replace("\n    ", " ")


@pytest.mark.parametrize(
    ("version", "way_out"),
    [
        ("1.36", "name one for 1.36, or leave it out"),
        ("1.37", "name one for 1.37, or write an exception for autoscaler-"),
    ],
)
def test_an_autoscaler_of_another_version_has_a_way_out_that_the_file_takes(
    version: str, way_out: str, tmp_path: Path
) -> None:
    """A version that this release does not know has no default autoscaler."""
    cluster = {"version": version, **({"addOnVersions": ALL_ADD_ONS} if version == "1.37" else {})}
    images = {"autoscaler": "example.com/ca:v1.35.0"}
    exception = {"policy": "EB025", "resource": "autoscaler-deployment", "reason": "none yet", "until": "2026-12-31"}
    (told,) = [it for it in warnings_of(stack(tmp_path, cluster=cluster, images=images), DAY) if it.blocks]
    excepted = stack(tmp_path, cluster=cluster, images=images, exceptions=[exception])

    assert way_out in told.text
    assert not any(it.blocks for it in warnings_of(excepted, DAY))
