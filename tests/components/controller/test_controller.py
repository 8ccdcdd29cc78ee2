"""The controller's document, rights and pod."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from components.controller.controller import Controller, ControllerArgs
from components.controller.rights import closer_rules, system_rules, worker_rules
from ebbtide.recording.resources import Resource
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.documents import load
from tests.builders.components import STACK, controller_config, of_kind, recorded, the

WRITES = {"create", "update", "patch", "delete", "deletecollection", "*"}
NAMELESS = {  # writes that cannot be limited by name, with the reason in components/controller/rights.py
    ("events", "create"),
    ("events", "patch"),
    ("pods", "patch"),
}


def controller(config: ControllerConfig | None = None, *, replicas: int = 1) -> tuple[Resource, ...]:
    args = ControllerArgs(stack=STACK, config=config or controller_config(), replicas=replicas)
    return recorded(lambda: Controller("controller", args))


def test_the_document_round_trips_through_the_config_map() -> None:
    config = controller_config()

    assert load(ControllerConfig, the(controller(config), "ConfigMap").inputs["data"]["config.json"]) == config


def test_another_document_is_the_same_pod_since_the_controller_rereads_it() -> None:
    changed = controller(controller_config(guard=timedelta(minutes=30)))

    assert the(changed, "ConfigMap").inputs != the(controller(), "ConfigMap").inputs
    assert the(changed, "Deployment").inputs == the(controller(), "Deployment").inputs


def test_a_rollout_of_the_controller_needs_no_room_for_one_pod_more() -> None:
    resources = controller()
    deployment = the(resources, "Deployment").inputs["spec"]

    assert deployment["replicas"] == 1
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert the(resources, "PodDisruptionBudget").inputs["spec"]["maxUnavailable"] == 0


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
    assert not {"deployments", "deployments/scale"} & {name for rule in system for name in rule["resources"]}
    assert "patch" not in next(rule["verbs"] for rule in system if rule["resources"] == ["pods"])
    assert "patch" not in next(rule["verbs"] for rule in workers if rule["resources"] == ["deployments"])


def test_in_a_teams_namespace_the_controller_patches_named_budgets_and_nothing_else() -> None:
    adopted = (
        BudgetPolicy(name="hub", namespace="jupyter", object_name="hub.pods", open_minimum=2),
        BudgetPolicy(name="api", namespace="api"),
    )
    granted = roles(controller(replace(controller_config(), budgets=adopted)))
    writes = {
        (rule["resources"][0], verb): rule.get("resourceNames")
        for rule in granted["jupyter", "ebbtide-controller"]
        for verb in rule["verbs"]
        if verb in WRITES and rule["resources"] != ["events"]
    }

    assert writes == {("poddisruptionbudgets", "patch"): ["hub.pods"]}
    assert not any(rule.get("resourceNames") == ["api"] for rule in granted["ebbtide", "ebbtide-controller"])


def test_a_minimum_may_be_set_to_the_number_of_its_budget_only() -> None:
    adopted = (BudgetPolicy(name="hub", namespace="jupyter", object_name="hub.pods", open_minimum=2),)
    resources = controller(replace(controller_config(), budgets=adopted))
    policy = next(p for p in policies_of(resources) if p.inputs["metadata"]["name"] == "ebbtide-poddisruptionbudgets")
    rules = [rule["expression"] for rule in policy.inputs["spec"]["validations"] if "1000000" in rule["message"]]

    assert len(rules) == 1
    assert "in ['jupyter/hub.pods 2']" in rules[0]


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

    assert patched - limited == {"events", "deployments/scale"}


def test_of_the_workers_budgets_only_those_of_pools_with_checkpoints_may_be_written() -> None:
    saved = BudgetPolicy(name="train", namespace="ebbtide-workers")
    config = controller_config(pools=("train", "embed"))
    granted = roles(controller(replace(config, budgets=(*config.budgets, saved))))
    written = {
        where: [
            rule["resourceNames"]
            for rule in rules
            if rule["resources"] == ["poddisruptionbudgets"] and "patch" in rule["verbs"]
        ]
        for where, rules in granted.items()
    }

    assert written["ebbtide-workers", "ebbtide-controller"] == [["train"]]
    assert "train" not in written["ebbtide", "ebbtide-controller"][0]
    plain = roles(controller(config))["ebbtide-workers", "ebbtide-controller"]
    assert "poddisruptionbudgets" not in {name for rule in plain for name in rule["resources"]}
