"""A rendered Ray cluster: its spec, its rights, and what is created before it."""

import json
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from ebbtide.policies.judging import judge
from ebbtide.recording.pods import pods_of
from ebbtide.recording.resources import Resource
from ebbtide.recording.values import mebibytes
from ebbtide.settings import StackSettings
from ebbtide.vocabulary.labels import SLEEP, SPEC
from tests.builders.recorded import record
from tests.builders.stack import Recorded
from tests.components.ray.stack import NAMESPACE, ray_settings, ray_stack

pytestmark = pytest.mark.whole

TODAY = date(2026, 11, 23)


@pytest.fixture(scope="module")
def stack() -> Recorded:
    return ray_stack()


def broken(settings: StackSettings, resources: Sequence[Resource]) -> set[str]:
    return {f"{it.code} {it.resource}" for it in judge(settings, resources, TODAY) if "ray" in it.resource.lower()}


def wanted(stack: Recorded) -> dict[str, Any]:
    return json.loads(stack.named("ray-flow-cluster").inputs["metadata"]["annotations"][SPEC])


def container(template: dict[str, Any]) -> dict[str, Any]:
    return template["spec"]["containers"][0]


def test_pulumi_writes_no_field_of_the_spec(stack: Recorded) -> None:
    cluster = stack.named("ray-flow-cluster").inputs

    assert "spec" not in cluster
    assert json.loads(cluster["metadata"]["annotations"][SLEEP])["when"] == "never"


def test_what_rays_autoscaler_writes_is_not_in_the_wanted_spec(stack: Recorded) -> None:
    spec = wanted(stack)

    assert "suspend" not in spec
    assert not any({"replicas", "scaleStrategy"} & group.keys() for group in spec["workerGroupSpecs"])


def test_a_worker_drains_before_it_is_killed(stack: Recorded) -> None:
    for group in wanted(stack)["workerGroupSpecs"]:
        grace = group["template"]["spec"]["terminationGracePeriodSeconds"]
        env = {it["name"]: it["value"] for it in container(group["template"])["env"]}
        assert grace == (30 + 2) * 60
        assert int(env["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"]) == grace - 60


def test_what_ray_writes_on_the_node_keeps_no_autoscaler_from_taking_it(stack: Recorded) -> None:
    for group in wanted(stack)["workerGroupSpecs"]:
        template = group["template"]
        on_disk = {it["name"] for it in template["spec"]["volumes"] if "medium" not in it["emptyDir"]}
        annotation = template["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"]
        assert on_disk == set(annotation.split(","))
        shared = next(it for it in template["spec"]["volumes"] if it["emptyDir"].get("medium") == "Memory")
        held = int(group["rayStartParams"]["object-store-memory"])
        assert held == mebibytes(shared["emptyDir"]["sizeLimit"]) * 1024 * 1024


def test_every_policy_holds(stack: Recorded) -> None:
    assert broken(ray_settings(), stack.all) == set()


def test_a_group_whose_tasks_may_run_again_is_open_for_the_drain_of_its_node_alone() -> None:
    groups = {"cpu": {"max": 4, "cpu": 1, "memory": "2Gi", "spot": True}}
    settings = ray_settings(cluster={"groups": groups, "longestTask": "90s"})
    resources = record(settings)
    budget = next(it for it in resources if it.name == "flow-cpu.ray-budget")

    assert budget.inputs["spec"]["minAvailable"] == 0
    (group,) = wanted(Recorded(resources))["workerGroupSpecs"]
    annotations = group["template"]["metadata"]["annotations"]
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert broken(settings, resources) == set()


def test_the_operator_has_rights_in_the_namespaces_of_ray_and_nowhere_else(stack: Recorded) -> None:
    bound = [
        it.inputs["metadata"]["namespace"]
        for it in stack.all
        if it.type.endswith(":RoleBinding") and it.inputs["subjects"][0]["name"] == "kuberay-operator"
    ]
    granted = next(it for it in stack.all if it.name == "ray-operator-flow-role").inputs["rules"]

    assert bound == [NAMESPACE]
    assert not any(it.type.endswith(":ClusterRoleBinding") and "kuberay" in str(it.inputs) for it in stack.all)
    writes = {resource for it in granted if "create" in it["verbs"] for resource in it["resources"]}
    assert writes == {"pods", "services", "events"}


def test_an_operator_that_is_there_already_replaces_ours_and_its_kinds_and_nothing_else() -> None:
    ours, theirs = (
        Recorded(record(ray_settings(existing={"rayOperator": source}))) for source in ("bundled", "existing")
    )
    left_out = {it.name for it in ours.all} - {it.name for it in theirs.all}

    assert {it.name for it in theirs.all} < {it.name for it in ours.all}
    assert left_out == {"network-policies-ray-operator", *(it for it in left_out if it.startswith("ray-operator"))}
    assert {"ray-operator-deployment", "ray-operator-account", "ray-operator-flow-role"} <= left_out
    assert not any("CustomResourceDefinition" in it.type or "kuberay" in str(it.inputs) for it in theirs.all)
    assert wanted(theirs) == wanted(ours)
    assert {"ray-spaces-flow", "flow-head.ray-budget", "ray-flow-token"} <= theirs.before(
        theirs.named("ray-flow-cluster")
    )


def test_the_token_is_one_secret_in_three_namespaces(stack: Recorded) -> None:
    places = {
        it.inputs["metadata"]["namespace"]
        for it in stack.all
        if it.type.endswith(":Secret") and it.inputs["metadata"]["name"] == "flow-ray-token"
    }
    assert places == {NAMESPACE, "ebbtide-workers", "ebbtide"}
    assert wanted(stack)["authOptions"] == {"mode": "token", "secretName": "flow-ray-token"}


def test_a_destroy_takes_the_cluster_before_the_operator_and_its_kinds(stack: Recorded) -> None:
    after = stack.before(stack.named("ray-flow-cluster"))

    assert {"ray-operator-deployment", "ray-operator-rayclusters.ray.io"} <= after


@pytest.mark.parametrize(("longest", "seconds"), [("30m", 42 * 60), ("12h", 12 * 3600 + 720)])
def test_a_destroy_waits_for_the_cluster_and_its_namespace_as_long_as_a_task_may_take(
    longest: str, seconds: int
) -> None:
    found = Recorded(record(ray_settings(cluster={"longestTask": longest})))

    assert [found.named(name).delete_timeout for name in ("ray-flow-cluster", "ray-spaces-flow")] == [f"{seconds}s"] * 2
    assert found.named("namespaces-system").delete_timeout == ""


def test_its_pods_are_seen_as_pods_of_the_stack(stack: Recorded) -> None:
    found = list(pods_of(stack.named("ray-flow-cluster")))

    assert [(it.name, it.namespace, it.size.cpu, it.has_scale) for it in found] == [
        ("flow-head", NAMESPACE, 2000, False),
        ("flow-cpu", NAMESPACE, 15000, False),
        ("flow-gpu", NAMESPACE, 7000, False),
    ]


def test_a_secret_of_the_stack_comes_after_the_namespace_that_it_is_taken_in_and_before_the_operator() -> None:
    head = {"cpu": 2, "memory": "6Gi", "env": {"HUB": {"secret": "hub", "key": "TOKEN"}}}
    secrets = {"secrets": {"hub": {"TOKEN": {"secure": "v1:x"}}}, "digestKey": {"secure": "v1:y"}}
    stack = Recorded(record(ray_settings(cluster={"head": head}, **secrets)))
    secret = stack.named(f"{NAMESPACE}.hub")

    assert "ray-spaces-flow" in stack.before(secret)
    assert f"{NAMESPACE}.hub" in stack.before(stack.named("ray-operator-deployment"))
