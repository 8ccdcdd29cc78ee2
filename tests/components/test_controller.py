"""The controller's document, rights and pod, and the closer beside it."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from components.closer import ClosingTime, closing_times
from components.controller import Controller, ControllerArgs
from components.rights import closer_rules, system_rules, worker_rules
from ebbtide.preview.resources import Resource
from ebbtide.vocabulary.controller_config import ControllerConfig, load
from ebbtide.vocabulary.windows import WeeklyInterval
from tests.builders_components import WORKING_DAYS, controller_config, of_kind, pod_of, recorded, the

WRITES = {"create", "update", "patch", "delete", "deletecollection", "*"}
NAMELESS = {  # writes that cannot be limited by name, with the reason in components/rights.py
    ("events", "create"),
    ("events", "patch"),
    ("pods", "patch"),
}


def controller(config: ControllerConfig | None = None) -> tuple[Resource, ...]:
    args = ControllerArgs(
        config=config or controller_config(),
        image="ebbtide-controller:1",
        namespace="ebbtide",
        worker_namespace="ebbtide-workers",
    )
    return recorded(lambda: Controller("controller", args))


def test_the_document_round_trips_through_the_config_map() -> None:
    config = controller_config()

    assert load(the(controller(config), "ConfigMap").inputs["data"]["config.json"]) == config


def test_another_document_is_another_pod() -> None:
    def checksum(resources: Sequence[Resource]) -> str:
        metadata = the(resources, "Deployment").inputs["spec"]["template"]["metadata"]
        return metadata["annotations"]["ebbtide.dev/config-checksum"]

    changed = controller(controller_config(guard=timedelta(minutes=30)))

    assert checksum(controller()) == checksum(controller()) != checksum(changed)
    document = the(changed, "ConfigMap").inputs["data"]["config.json"]
    assert checksum(changed) == hashlib.sha256(document.encode()).hexdigest()


def test_the_pod_runs_the_mounted_document_on_a_fixed_node_and_cannot_write() -> None:
    pod = pod_of(the(controller(), "Deployment"))
    container = pod["containers"][0]

    assert container["command"] == ["python", "-m", "controllers", "--config", "/etc/ebbtide/config.json"]
    assert container["volumeMounts"] == [{"name": "config", "mountPath": "/etc/ebbtide", "readOnly": True}]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["nodeSelector"] == {"ebbtide.dev/node-kind": "fixed"}
    assert pod["serviceAccountName"] == the_account(controller())


def the_account(resources: Sequence[Resource]) -> str:
    names = [account.inputs["metadata"]["name"] for account in of_kind(resources, "ServiceAccount")]
    return next(name for name in names if "controller" in name)


def test_one_controller_at_a_time_under_a_closed_budget() -> None:
    resources = controller()
    deployment = the(resources, "Deployment").inputs["spec"]

    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert the(resources, "PodDisruptionBudget").inputs["spec"]["maxUnavailable"] == 0


def test_the_lease_exists_before_the_controller_and_says_nothing() -> None:
    assert "spec" not in the(controller(), "Lease").inputs


def roles(resources: Sequence[Resource]) -> Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]:
    return {
        (role.inputs["metadata"]["namespace"], role.inputs["metadata"]["name"]): role.inputs["rules"]
        for role in of_kind(resources, "Role")
    }


def test_writing_is_granted_by_name_only() -> None:
    for rules in roles(controller()).values():
        for rule in rules:
            nameless = {(res, verb) for res in rule["resources"] for verb in rule["verbs"] if verb in WRITES}
            assert rule.get("resourceNames") or nameless <= NAMELESS, rule


def test_only_named_pools_are_scaled_and_only_where_workers_live() -> None:
    granted = roles(controller(controller_config(pools=("train", "embed"))))
    system, workers = granted["ebbtide", "ebbtide-controller"], granted["ebbtide-workers", "ebbtide-controller"]
    scale = next(rule for rule in workers if rule["resources"] == ["deployments/scale"])

    assert scale["resourceNames"] == ["embed", "train"]
    assert not {"pods", "deployments", "deployments/scale"} & {name for rule in system for name in rule["resources"]}
    assert "patch" not in next(rule["verbs"] for rule in workers if rule["resources"] == ["deployments"])


def test_a_rule_without_names_is_not_written_since_it_would_grant_all() -> None:
    rules = [*system_rules(lease="lease", budgets=()), *worker_rules(pools=()), *closer_rules(budgets=())]
    writing = {(res, verb) for rule in rules for res in rule["resources"] or () for verb in rule["verbs"]}  # pyright: ignore[reportUnknownVariableType, reportGeneralTypeIssues, reportTypedDictNotRequiredAccess, reportUnknownArgumentType] - typed as Input

    assert not {("poddisruptionbudgets", "patch"), ("deployments/scale", "patch")} & writing


def test_no_role_reaches_beyond_its_namespace() -> None:
    resources = controller()

    assert not of_kind(resources, "ClusterRole")
    assert not of_kind(resources, "ClusterRoleBinding")
    for binding in of_kind(resources, "RoleBinding"):
        account = binding.inputs["subjects"][0]
        assert (account["namespace"], account["name"]) == ("ebbtide", binding.inputs["roleRef"]["name"])


def test_the_fields_that_may_change_are_limited_before_the_controller_starts() -> None:
    resources = controller()
    policies = {policy.inputs["metadata"]["name"]: policy.inputs["spec"] for policy in policies_of(resources)}
    bindings = of_kind(resources, "ValidatingAdmissionPolicyBinding")
    deployment = the(resources, "Deployment")

    assert {policy["failurePolicy"] for policy in policies.values()} == {"Fail"}
    assert {binding.inputs["spec"]["policyName"] for binding in bindings} == policies.keys()
    assert {tuple(binding.inputs["spec"]["validationActions"]) for binding in bindings} == {("Deny",)}
    assert {resource.urn for resource in [*policies_of(resources), *bindings]} <= set(deployment.depends_on)


def policies_of(resources: Sequence[Resource]) -> list[Resource]:
    return of_kind(resources, "ValidatingAdmissionPolicy")


def test_the_limits_bind_our_own_accounts_alone() -> None:
    accounts = {
        policy.inputs["metadata"]["name"]: policy.inputs["spec"]["matchConditions"][0]["expression"]
        for policy in policies_of(controller())
    }

    assert accounts == {
        "ebbtide-pods": "request.userInfo.username in ['system:serviceaccount:ebbtide:ebbtide-controller']",
        "ebbtide-poddisruptionbudgets": (
            "request.userInfo.username in ['system:serviceaccount:ebbtide:ebbtide-controller', "
            "'system:serviceaccount:ebbtide:ebbtide-closer']"
        ),
    }


def test_whatever_the_controller_patches_whole_is_limited_by_field() -> None:
    limited = {
        name
        for policy in policies_of(controller())
        for rule in policy.inputs["spec"]["matchConstraints"]["resourceRules"]
        for name in rule["resources"]
        if rule["operations"] == ["UPDATE"]
    }
    patched = {
        name
        for rules in roles(controller()).values()
        for rule in rules
        for name in rule["resources"]
        if "patch" in rule["verbs"]
    }

    assert patched - limited == {"leases", "events", "deployments/scale"}


def test_budgets_close_before_every_opening_in_the_customers_zone() -> None:
    job = the(controller(), "CronJob").inputs["spec"]
    pod = job["jobTemplate"]["spec"]["template"]["spec"]

    assert (job["schedule"], job["timeZone"]) == ("45 7 * * 1,2,3,4,5", "America/New_York")
    assert pod["containers"][0]["args"][-2:] == ["poddisruptionbudgets", "api"]
    assert '--patch={"spec": {"maxUnavailable": 0}}' in pod["containers"][0]["args"]
    assert pod["serviceAccountName"] == "ebbtide-closer"


def test_the_closer_may_touch_the_flexible_budgets_and_nothing_else() -> None:
    rules = roles(controller(controller_config(budgets=("web", "api"))))["ebbtide", "ebbtide-closer"]

    assert rules == [
        {
            "apiGroups": ["policy"],
            "resources": ["poddisruptionbudgets"],
            "verbs": ["get", "patch"],
            "resourceNames": ["api", "web"],
        }
    ]


def test_without_flexible_budgets_there_is_nothing_to_close() -> None:
    resources = controller(controller_config(budgets=()))

    assert not of_kind(resources, "CronJob")
    assert {account.inputs["metadata"]["name"] for account in of_kind(resources, "ServiceAccount")} == {
        "ebbtide-controller"
    }


@pytest.mark.parametrize(
    ("start", "guard", "cron"),
    [
        (8 * 60, timedelta(minutes=15), "45 7 * * 1"),
        (10, timedelta(minutes=15), "55 23 * * 0"),  # Monday 00:10 closes on Sunday night
        (8 * 60, timedelta(seconds=61), "58 7 * * 1"),  # never later than the guard
        (8 * 60, timedelta(0), "0 8 * * 1"),
    ],
)
def test_closing_comes_before_opening(start: int, guard: timedelta, cron: str) -> None:
    (closing,) = closing_times([WeeklyInterval(0, start, start + 60)], guard)

    assert closing.cron == cron


def test_each_time_of_day_is_closed_once() -> None:
    week = [*WORKING_DAYS, WeeklyInterval(5, 10 * 60, 14 * 60), WeeklyInterval(0, 20 * 60, 22 * 60)]

    assert closing_times(week, timedelta(0)) == (
        ClosingTime(8 * 60, (0, 1, 2, 3, 4)),
        ClosingTime(10 * 60, (5,)),
        ClosingTime(20 * 60, (0,)),
    )
